/*
 * setmaxnreg: registers move between warpgroups.  It stands where only the warps of
 * its warpgroups come by, or the assembler ignores it: at the entry of a role of
 * warpgroups, and for roles of one warp, before the first of them.
 */
#include "compile.h"

int tc_launched_registers(const struct compilation *c)
{
	int count = c->target->registers / (32 * c->warps) / 8 * 8;

	return count > 255 ? 255 : count;
}

int tc_group_registers(const struct compilation *c, int group)
{
	int count = 0;

	for (int i = 0; i < c->role_count; i++) {
		const struct role_plan *r = &c->roles[i];

		if (r->first_warp < 4 * group + 4 &&
		    r->first_warp + r->warps * r->clones > 4 * group && r->max_registers > count)
			count = r->max_registers;
	}
	return count;
}

static void set(struct low *l, int count)
{
	if (count)
		mi(l,
		   count > tc_launched_registers(l->c) ? "setmaxnreg.inc.sync.aligned.u32"
						       : "setmaxnreg.dec.sync.aligned.u32",
		   I(count));
}

static void set_group(struct low *l, int group)
{
	int count = tc_group_registers(l->c, group), skip = mi_new_label(l);
	struct mreg g, p;

	if (!count)
		return;
	g = mi_b32(l);
	p = mi_pred(l);
	mi(l, "shr.u32", R(g), R(l->c->warp), I(2));
	mi(l, "setp.ne.u32", R(p), R(g), I(group));
	mi_if(l, p, "bra", LABEL(skip));
	set(l, count);
	mi_label(l, skip);
}

/* From the first role of one warp on, all warps are of such roles, or idle. */
void tc_low_issuer_registers(struct low *l)
{
	const struct role_plan *r = l->role;
	int first = r->first_warp / 4, groups = l->c->warps / 4;
	bool same = true;

	if (r->warps > 1 || (r->index > 0 && l->c->roles[r->index - 1].warps == 1))
		return;
	for (int g = first; g < groups; g++)
		same &= tc_group_registers(l->c, g) == tc_group_registers(l->c, first);
	if (same)
		set(l, tc_group_registers(l->c, first));
	for (int g = first; g < groups && !same; g++)
		set_group(l, g);
}

void tc_low_role_registers(struct low *l)
{
	if (l->role->warps > 1)
		set(l, l->role->max_registers);
}
