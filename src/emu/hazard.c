/* Reports of accesses that nothing orders: which rule, both sides, where, what would mend it. */
#include "between.h"

#include <stdarg.h>
#include <stdio.h>

struct rule {
	const char *name;
	enum emu_severity severity;
	const char *section, *text, *fix;
};

static const struct rule rules[EMU_RULE_COUNT] = {
#define EMU_RULE(id, name, severity, section, text, fix) {name, severity, section, text, fix},
#include "rules.def"
#undef EMU_RULE
};

enum {
	text_size = 2048
};

/* ---- parts of a report ------------------------------------------------------------- */

struct text {
	char at[text_size];
	size_t used;
};

static void say(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct text *text, const char *format, ...)
{
	va_list arguments;
	int count;

	va_start(arguments, format);
	count = vsnprintf(text->at + text->used, sizeof text->at - text->used, format, arguments);
	va_end(arguments);
	if (count > 0)
		text->used += (size_t)count;
	if (text->used >= sizeof text->at)
		text->used = sizeof text->at - 1;
}

static void say_name(struct text *text, const struct emu_grid *grid, int space, uint32_t address)
{
	uint32_t within = 0;
	const struct emu_symbol *symbol = emu_symbol_at(grid, space, address, &within);
	const char *open = " (";

	for (; symbol; symbol = emu_symbol_after(grid, symbol, space, address, &within)) {
		say(text, "%s%s", open, symbol->name);
		open = ", or ";
		if (within)
			say(text, space == 't' ? " + %u columns" : " + 0x%x", within);
		if (symbol->file)
			say(text, " of %s:%u", symbol->file, symbol->line);
	}
	say(text, open[0] == ',' ? ")" : "");
}

static void say_spot(struct text *text, const struct emu_grid *grid, const struct emu_spot *spot)
{
	const struct emu_allocation *a;
	uint32_t column;

	switch (spot->space) {
	case EMU_REG:
		column = (uint32_t)spot->address & 0xffff;
		say(text, "tensor memory column %u, lanes %u..%u of CTA rank %u", column,
		    (uint32_t)(spot->address >> 16), (uint32_t)(spot->address >> 16) + 15,
		    spot->cta->rank);
		column -= emu_tmem_of(spot->cta)->allocations[0].column;
		say_name(text, grid, 't', column);
		return;
	case EMU_SHARED:
		say(text, "shared 0x%x..0x%x of CTA rank %u",
		    EMU_SHARED_BASE + (uint32_t)spot->address,
		    EMU_SHARED_BASE + (uint32_t)spot->address + spot->size - 1, spot->cta->rank);
		say_name(text, grid, 's', (uint32_t)spot->address);
		return;
	default:
		say(text, "global 0x%llx..0x%llx", (unsigned long long)spot->address,
		    (unsigned long long)(spot->address + spot->size - 1));
		a = emu_nearest_allocation(grid->emu, spot->address);
		if (a && spot->address - a->address < a->size)
			say(text, " ('%s' + 0x%llx)", a->name,
			    (unsigned long long)(spot->address - a->address));
	}
}

static void say_line(struct text *text, const struct emu_grid *grid, const struct emu_ins *ins)
{
	char line[text_size / 4];

	emu_describe_line(grid, ins, line, sizeof line);
	say(text, "%s", line);
}

static void say_warp(struct text *text, const struct emu_grid *grid, const uint32_t cta[3],
		     int warp)
{
	char who[text_size / 4];

	emu_describe_warp(grid, cta, warp, who, sizeof who);
	say(text, "%s", who);
}

static void say_lane(struct text *text, uint8_t lane)
{
	if (lane < EMU_LANES)
		say(text, " lane %u", lane);
}

static const struct emu_site *site_at(const struct emu_hazards *h, uint32_t site)
{
	return site ? &h->sites[site - 1] : NULL;
}

static void say_rule(struct text *text, const struct emu_grid *grid, const struct rule *rule,
		     const struct emu_ins *ins, const struct emu_ins *other)
{
	const struct emu_hint *hint = emu_hint_for(grid, rule->name, ins, other);

	say(text, "\n    %s (%s)\n    fix: ", rule->text, rule->section);
	if (!hint)
		say(text, "%s", rule->fix);
	else if (hint->consequence)
		say(text, "%s", hint->text);
	else
		say(text, "%s (in PTX: %s)", hint->text, rule->fix);
}

static struct emu_where where_of(const struct emu_access *access)
{
	return emu_here(access->order->warp, access->lane < EMU_LANES ? access->lane : -1);
}

/* ---- which rule ------------------------------------------------------------------------ */

/* The accesses are in order up to the instruction that began the earlier one, which its warp has
   not waited for: `issued` is that warp's epoch then. */
static bool wait_missing(const struct emu_access *access, const struct emu_actor *actor,
			 const struct emu_earlier *earlier, uint32_t issued)
{
	const struct emu_order *by = actor->order;

	return emu_clock_at(&by->now.clock[EMU_CLOCK_GENERIC], earlier->moment.who) <
		       earlier->moment.epoch &&
	       (by == access->order ||
		emu_clock_at(&access->order->now.clock[EMU_CLOCK_GENERIC], by->self) >= issued);
}

static enum emu_rule plain_race(const struct emu_spot *spot)
{
	return spot->space == EMU_REG      ? EMU_RULE_TENSOR_RACE
	       : spot->space == EMU_SHARED ? EMU_RULE_SHARED_RACE
					   : EMU_RULE_GLOBAL_RACE;
}

static enum emu_rule unawaited(const struct emu_access *access, const struct emu_actor *actor,
			       const struct emu_earlier *earlier, const struct emu_spot *spot)
{
	switch (actor->kind) {
	case EMU_ACTOR_BARRIER:
		return EMU_RULE_COPY_NOT_AWAITED;
	case EMU_ACTOR_MMA:
		return EMU_RULE_MMA_NOT_AWAITED;
	case EMU_ACTOR_WGMMA:
		return EMU_RULE_WGMMA_NOT_AWAITED;
	case EMU_ACTOR_BULK_READ:
		return EMU_RULE_BULK_READ_NOT_AWAITED;
	case EMU_ACTOR_BULK_WRITE:
		return EMU_RULE_BULK_NOT_AWAITED;
	case EMU_ACTOR_CP_ASYNC:
		return EMU_RULE_CP_ASYNC_NOT_AWAITED;
	case EMU_ACTOR_TMEM_LOAD:
		return wait_missing(access, actor, earlier, actor->order->load_issued)
			       ? EMU_RULE_LOAD_NOT_AWAITED
			       : EMU_RULE_TENSOR_RACE;
	case EMU_ACTOR_TMEM_STORE:
		return wait_missing(access, actor, earlier, actor->order->store_issued)
			       ? EMU_RULE_STORE_NOT_AWAITED
			       : EMU_RULE_TENSOR_RACE;
	default:
		if (emu_clock_at(&access->order->missed.clock[EMU_CLOCK_GENERIC],
				 earlier->moment.who) >= earlier->moment.epoch)
			return EMU_RULE_SCOPE;
		return plain_race(spot);
	}
}

static enum emu_rule rule_of(const struct emu_access *access, const struct emu_earlier *earlier,
			     const struct emu_spot *spot)
{
	const struct emu_order *order = access->order;
	const struct emu_actor *actor = &order->hazards->actors[earlier->moment.who];
	const struct emu_clock *clocks = order->now.clock;
	uint16_t who = earlier->moment.who;
	uint32_t epoch = earlier->moment.epoch;

	if (access->kind == EMU_ACTOR_WARP && actor->kind == EMU_ACTOR_WARP &&
	    spot->space != EMU_REG && access->atomic && earlier->atomic)
		return EMU_RULE_SCOPE;
	if (access->kind == EMU_ACTOR_WARP && actor->kind == EMU_ACTOR_WARP &&
	    spot->space != EMU_REG &&
	    ((access->atomic && !earlier->write) || (earlier->atomic && !access->write)))
		return EMU_RULE_WEAK_READ;
	if (access->map)
		return emu_clock_at(&clocks[EMU_CLOCK_GENERIC], who) >= epoch
			       ? EMU_RULE_TENSORMAP
			       : EMU_RULE_GLOBAL_RACE;
	if (who == access->moment.who && access->kind == EMU_ACTOR_WARP)
		return EMU_RULE_WARP_RACE;
	if (spot->space == EMU_REG && emu_clock_at(&clocks[EMU_CLOCK_TENSOR], who) >= epoch)
		return emu_clock_at(&order->after, who) >= epoch ? EMU_RULE_FENCE_AFTER
								 : EMU_RULE_FENCE_BEFORE;
	if (spot->space != EMU_REG && earlier->write && access->proxy &&
	    (emu_clock_at(&clocks[EMU_CLOCK_GENERIC], who) >= epoch || actor->order == order) &&
	    (actor->kind == EMU_ACTOR_WARP || actor->kind == EMU_ACTOR_CP_ASYNC))
		return access->write                       ? EMU_RULE_PROXY_OVERWRITE
		       : actor->kind == EMU_ACTOR_CP_ASYNC ? EMU_RULE_PROXY_CP_ASYNC
							   : EMU_RULE_PROXY_FENCE;
	return unawaited(access, actor, earlier, spot);
}

static enum emu_rule rule_between(const struct emu_access *access,
				  const struct emu_foreign *earlier)
{
	const struct emu_order *order = access->order;
	const struct emu_clock *known = emu_known_of(order->now.known, earlier->cluster, false);
	const struct emu_clock *missed = emu_known_of(order->missed.known, earlier->cluster, false);
	uint16_t who = earlier->moment.who;
	uint32_t epoch = earlier->moment.epoch;

	if (access->atomic && earlier->scope)
		return EMU_RULE_SCOPE;
	if (access->kind == EMU_ACTOR_WARP && earlier->kind == EMU_ACTOR_WARP &&
	    ((access->atomic && !earlier->write) || (earlier->scope && !access->write)))
		return EMU_RULE_WEAK_READ;
	if (known && emu_clock_at(known, who) >= epoch)
		return access->write ? EMU_RULE_PROXY_OVERWRITE : EMU_RULE_PROXY_FENCE;
	if (missed && emu_clock_at(missed, who) >= epoch)
		return EMU_RULE_SCOPE;
	return known && earlier->kind == EMU_ACTOR_BULK_WRITE ? EMU_RULE_BULK_NOT_AWAITED
							      : EMU_RULE_CLUSTER_RACE;
}

/* ---- reports ------------------------------------------------------------------------------ */

static const char *proxy_name(uint8_t actor_kind)
{
	switch (actor_kind) {
	case EMU_ACTOR_WARP:
	case EMU_ACTOR_CP_ASYNC:
		return "";
	case EMU_ACTOR_TMEM_LOAD:
	case EMU_ACTOR_TMEM_STORE:
		return " (asynchronous)";
	default:
		return " (async proxy)";
	}
}

/* An instruction has one error, and before it one lint. */
static bool reported(struct emu_access *access, const struct rule *rule)
{
	bool *before = rule->severity == EMU_LINT ? &access->linted : &access->reported;

	if (access->reported || *before)
		return true;
	*before = true;
	return false;
}

struct earlier {
	const struct emu_site *site; /* NULL: unknown */
	uint8_t kind, lane;
	bool write;
};

static void report(struct emu_access *access, const struct rule *rule,
		   const struct earlier *earlier, const struct emu_spot *spot)
{
	const struct emu_hazards *h = access->order->hazards;
	const struct emu_grid *grid = access->order->warp->grid;
	const struct emu_site *site = earlier->site;
	struct emu_where where = where_of(access);
	struct text text = {.used = 0};

	if (!where.ins || reported(access, rule) ||
	    emu_hazard_again(&where, rule->name, site ? site->ins : NULL))
		return;
	say(&text, "%s: %s%s of ", where.ins->mnemonic, access->write ? "write" : "read",
	    proxy_name(h->actors[access->moment.who].kind));
	say_spot(&text, grid, spot);
	say(&text, "\n    by ");
	say_warp(&text, grid, where.cta, where.warp);
	say_lane(&text, access->lane);
	say(&text, ", ");
	say_line(&text, grid, where.ins);
	say(&text, "\n    earlier: %s%s", earlier->write ? "write" : "read",
	    proxy_name(earlier->kind));
	if (site) {
		say(&text, " by %s of ", site->ins->mnemonic);
		say_warp(&text, grid, site->cta, site->warp);
		say_lane(&text, earlier->lane);
		say(&text, ", ");
		say_line(&text, grid, site->ins);
	}
	say_rule(&text, grid, rule, where.ins, site ? site->ins : NULL);
	emu_hazard_at(&where, rule->severity, rule->name, site ? site->ins : NULL, text.at);
}

void emu_report_race(struct emu_access *access, const struct emu_earlier *earlier,
		     const struct emu_spot *spot)
{
	const struct emu_hazards *h = access->order->hazards;
	struct earlier side = {site_at(h, earlier->site), h->actors[earlier->moment.who].kind,
			       earlier->lane, earlier->write};

	if (!access->reported)
		report(access, &rules[rule_of(access, earlier, spot)], &side, spot);
}

void emu_report_foreign(struct emu_access *access, const struct emu_foreign *earlier,
			const struct emu_spot *spot)
{
	struct earlier side = {earlier->site, earlier->kind, EMU_ANY_LANE, earlier->write};

	if (!access->reported)
		report(access, &rules[rule_between(access, earlier)], &side, spot);
}

void emu_report_undefined(struct emu_access *access, const struct emu_spot *spot)
{
	const struct emu_grid *grid = access->order->warp->grid;
	const struct rule *rule =
		&rules[spot->space != EMU_REG                ? EMU_RULE_UNDEFINED_SHARED
		       : access->kind == EMU_ACTOR_TMEM_LOAD ? EMU_RULE_UNDEFINED_LOAD
							     : EMU_RULE_UNDEFINED_TENSOR];
	struct emu_where where = where_of(access);
	struct text text = {.used = 0};

	access->defined = false;
	if (!where.ins || emu_hazard_again(&where, rule->name, NULL))
		return;
	say(&text, "%s: read of ", where.ins->mnemonic);
	say_spot(&text, grid, spot);
	say(&text, " by ");
	say_warp(&text, grid, where.cta, where.warp);
	say_lane(&text, access->lane);
	say(&text, ", ");
	say_line(&text, grid, where.ins);
	say_rule(&text, grid, rule, where.ins, NULL);
	emu_hazard_at(&where, rule->severity, rule->name, NULL, text.at);
}

void emu_report_rule(const struct emu_where *where, enum emu_rule id, const struct emu_ins *other,
		     const char *format, ...)
{
	const struct rule *rule = &rules[id];
	struct text text = {.used = 0};
	char message[text_size / 2];
	va_list arguments;

	if (emu_hazard_again(where, rule->name, other))
		return;
	va_start(arguments, format);
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	say(&text, "%s: %s\n    by ", where->ins->mnemonic, message);
	say_warp(&text, where->grid, where->cta, where->warp);
	say(&text, ", ");
	say_line(&text, where->grid, where->ins);
	say_rule(&text, where->grid, rule, where->ins, other);
	emu_hazard_at(where, rule->severity, rule->name, other, text.at);
}
