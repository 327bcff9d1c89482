/*
 * profile = true: the leader of each program writes what it is about to do, and when, into a part
 * of a buffer that the launch gives; without a buffer (a null pointer) nothing is written.
 *
 * A part: struct tc_profile_part of program.h, then its events; parts lie CTA after CTA, program
 * after program.  Only the first TC_PROFILE_CTAS CTAs have one.
 */
#include "compile.h"

/* All that do something beside registers have a time of their own. */
bool tc_profile_is_event(enum op_kind kind)
{
	switch (kind) {
	case OP_COPY_GMEM_TO_SMEM:
	case OP_COPY_SMEM_TO_GMEM:
	case OP_COMMIT_SMEM:
	case OP_COMMIT_GMEM:
	case OP_COMMIT_TMEM:
	case OP_WAIT_SMEM_TO_GMEM:
	case OP_WAIT_LOAD_TMEM:
	case OP_BARRIER_ARRIVE:
	case OP_BARRIER_WAIT:
	case OP_MMA:
	case OP_COMMIT_ARRIVE:
	case OP_ASYNC_COPY_SMEM_TO_TMEM:
	case OP_ASYNC_COPY_SCALES_TO_TMEM:
	case OP_ASYNC_COPY_SPARSE_METADATA_TO_TMEM:
	case OP_ASYNC_LOAD_TMEM:
	case OP_ASYNC_STORE_TMEM:
	case OP_LOAD:
	case OP_STORE:
	case OP_ATOMIC:
		return true;
	default:
		return false;
	}
}

bool tc_profile_computes(enum op_kind kind)
{
	return kind == OP_FRAG_ELEMENTWISE || kind == OP_FRAG_CAST || kind == OP_FRAG_REDUCE;
}

static struct mreg special(struct low *l, const char *name)
{
	struct mreg d = mi_b32(l);

	mi(l, "mov.u32", R(d), T(name));
	return d;
}

/* Number of the CTA in the grid. */
static struct mreg cta_number(struct low *l)
{
	struct mreg z = mi_b32(l), y = mi_b32(l);

	mi(l, "mad.lo.u32", R(z), R(special(l, "%ctaid.z")), R(special(l, "%nctaid.y")),
	   R(special(l, "%ctaid.y")));
	mi(l, "mad.lo.u32", R(y), R(z), R(special(l, "%nctaid.x")), R(special(l, "%ctaid.x")));
	return y;
}

static void stamp(struct low *l, struct mreg writes, int timer, int clock)
{
	struct mreg time = mi_b64(l);
	struct maddr at = {.reg = l->profile_part};

	mi(l, "mov.u64", R(time), T("%globaltimer"));
	mi_if(l, writes, "st.global.b64", M(at, timer), R(time));
	mi_if(l, writes, "st.global.b32", M(at, clock), R(special(l, "%clock")));
}

void tc_low_profile_start(struct low *l)
{
	const struct compilation *c = l->c;
	int part = (int)sizeof(struct tc_profile_part);
	struct mreg buffer, cta, in, wide;

	if (!c->kern->profile)
		return;
	mi_comment(l, "profile");
	buffer = tc_low_profile_buffer(l);
	cta = cta_number(l);
	l->profile_writes = mi_named(l, MR_PRED, "profile_%s", l->role->name);
	l->profile_part = mi_named(l, MR_B64, "profile_part_%s", l->role->name);
	l->profile_event = mi_named(l, MR_B32, "profile_event_%s", l->role->name);
	in = mi_pred(l);
	wide = mi_b64(l);
	mi(l, "setp.lt.and.u32", R(in), R(cta), I(TC_PROFILE_CTAS), R(l->first_leader));
	mi(l, "setp.ne.and.u64", R(l->profile_writes), R(buffer), I(0), R(in));
	mi(l, "mad.lo.u32", R(cta), R(cta), I(c->role_count), I(l->role->index));
	mi(l, "mul.wide.u32", R(wide), R(cta), I(part));
	mi(l, "add.s64", R(l->profile_part), R(buffer), R(wide));
	mi(l, "mov.b32", R(l->profile_event), I(0));
	stamp(l, l->profile_writes, (int)offsetof(struct tc_profile_part, timer[0]),
	      (int)offsetof(struct tc_profile_part, clock[0]));
}

/* Later events than there is room for are counted alone. */
static void event(struct low *l, uint32_t what)
{
	struct mreg room = mi_pred(l), at = mi_b64(l), address = mi_b64(l), pair[2];

	pair[0] = mi_b32(l);
	mi(l, "mov.b32", R(pair[0]), mo_hex(what));
	pair[1] = special(l, "%clock");
	mi(l, "setp.lt.and.u32", R(room), R(l->profile_event), I(TC_PROFILE_EVENTS),
	   R(l->profile_writes));
	mi(l, "mul.wide.u32", R(at), R(l->profile_event), I(8));
	mi(l, "add.s64", R(address), R(l->profile_part), R(at));
	mi_if(l, room, "st.global.v2.b32",
	      M((struct maddr){.reg = address}, (int)offsetof(struct tc_profile_part, event)),
	      V(pair, 2));
	mi(l, "add.s32", R(l->profile_event), R(l->profile_event), I(1));
}

void tc_low_profile_op(struct low *l, const struct op *op, bool after)
{
	bool computes = tc_profile_computes(op->kind);

	if (!l->c->kern->profile || (!computes && !tc_profile_is_event(op->kind)) ||
	    (computes && (after || l->profile_computing)) || (after && op->kind != OP_BARRIER_WAIT))
		return;
	l->profile_computing = computes;
	event(l, (uint32_t)op->id | (after ? TC_PROFILE_AFTER : 0));
}

void tc_low_profile_end(struct low *l)
{
	struct maddr at = {.reg = l->profile_part};

	if (!l->c->kern->profile)
		return;
	stamp(l, l->profile_writes, (int)offsetof(struct tc_profile_part, timer[1]),
	      (int)offsetof(struct tc_profile_part, clock[1]));
	mi_if(l, l->profile_writes, "st.global.b32",
	      M(at, (int)offsetof(struct tc_profile_part, events)), R(l->profile_event));
}
