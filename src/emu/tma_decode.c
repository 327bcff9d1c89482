/* Decoding of tensor copies: modifiers, targets and operands (8.3). */
#include "tma.h"

static bool take_mode(struct emu_decode *decode, struct tma_form *form)
{
	static const char *const modes[] = {
		"tile",           "im2col",        "im2col::w",      "im2col::w::128",
		"im2col_no_offs", "tile::gather4", "tile::scatter4", NULL};
	enum {
		no_offsets = 4,
		gather,
		scatter
	};
	int mode = emu_take_one(decode, modes);
	bool reads = form->direction == TMA_LOAD || form->direction == TMA_PREFETCH;

	if (mode == -2)
		return false;
	if (mode > 0 && reads == (mode == no_offsets || mode == scatter))
		return emu_reject(decode, ".%s goes with %s global memory", modes[mode],
				  reads ? "writes to" : "reads of");
	if (mode == gather && form->direction == TMA_REDUCE)
		return emu_reject(decode, ".%s goes with copies", modes[mode]);
	form->rows = mode == gather || mode == scatter;
	form->mode = mode == no_offsets       ? EMU_TM_IM2COL
		     : form->rows || mode < 0 ? EMU_TM_TILED
					      : (enum emu_tensormap_mode)mode;
	if (form->rows && form->rank != 2)
		return emu_reject(decode, ".%s is .2d", modes[mode]);
	if (form->mode != EMU_TM_TILED && form->rank < 3)
		return emu_reject(decode, ".%s is .3d to .5d", modes[mode]);
	if (mode == scatter || form->mode == EMU_TM_IM2COL_W128 ||
	    (mode == gather && form->direction == TMA_PREFETCH))
		return emu_want_target(decode, EMU_P_SM100A, modes[mode]);
	if (mode == gather || form->mode == EMU_TM_IM2COL_W)
		return emu_want_target(decode,
				       form->direction == TMA_LOAD && form->space != EMU_SHARED
					       ? EMU_P_SM100A
					       : EMU_P_SM100,
				       modes[mode]);
	return true;
}

static bool take_rank(struct emu_decode *decode, struct tma_form *form)
{
	static const char *const ranks[] = {"1d", "2d", "3d", "4d", "5d", NULL};
	int rank = emu_take_one(decode, ranks);

	if (rank == -1)
		return emu_reject(decode, "the rank is missing: .1d to .5d");
	form->rank = rank + 1;
	return rank >= 0;
}

static bool want_map(struct emu_decode *decode, int i, const struct tma_form *form)
{
	const struct emu_operand *operand = &decode->ins->operands[i];
	uint32_t want = form->rows ? 5 : (uint32_t)form->rank;

	if (!emu_want_address(decode, i))
		return false;
	if (operand->count != 2)
		return emu_reject(decode, "operand %d must be [tensor map, {coordinates}]", i + 1);
	if ((operand->items[1].kind == EMU_O_VECTOR ? operand->items[1].count : 1) != want)
		return emu_reject(decode, "%u coordinates are needed", want);
	return true;
}

static bool take_reduction(struct emu_decode *decode, struct tma_form *form)
{
	int which = emu_take_one(decode, emu_reduction_names);

	if (which == -1)
		return emu_reject(decode, "an operation is missing: .add, .min, .max, .inc, .dec, "
					  ".and, .or or .xor");
	form->reduction = (enum emu_reduction)which;
	return which >= 0;
}

/* Operands from `at` on: im2col offsets, CTA mask, cache policy. */
static bool want_rest(struct emu_decode *decode, struct tma_form *form, int at)
{
	bool policy = emu_take_cache(decode);
	int offsets = form->mode == EMU_TM_IM2COL ? form->rank - 2 : 2;

	form->offsets = form->mode != EMU_TM_TILED && (form->direction == TMA_LOAD ||
						       form->direction == TMA_PREFETCH)
				? at++
				: -1;
	form->mask = form->multicast ? at++ : -1;
	return emu_want_operands(decode, at + policy, at + policy) &&
	       (form->offsets < 0 || decode->ins->operands[form->offsets].kind == EMU_O_VECTOR ||
		emu_reject(decode, "operand %d must be a vector of offsets", form->offsets + 1)) &&
	       (form->offsets < 0 || emu_want_vector(decode, form->offsets, offsets, 16)) &&
	       (form->mask < 0 || emu_want_value(decode, form->mask, 16)) &&
	       (!policy || emu_want_value(decode, at, 64));
}

static bool decode_load(struct emu_decode *decode, struct tma_form *form)
{
	static const char *const groups[] = {"cta_group::1", "cta_group::2", NULL};
	int group;

	emu_take_space(decode, EMU_GLOBAL);
	if (!emu_take(decode, "mbarrier::complete_tx::bytes"))
		return emu_reject(decode, "a load completes by .mbarrier::complete_tx::bytes");
	form->multicast = emu_take(decode, "multicast::cluster");
	if (form->multicast && form->space == EMU_SHARED)
		return emu_reject(decode, ".multicast::cluster goes to .shared::cluster");
	group = emu_take_one(decode, groups);
	form->pair = group == 1;
	if (group == -2 || (group >= 0 && !emu_want_target(decode, EMU_P_SM100A, groups[group])))
		return false;
	return take_mode(decode, form) && want_rest(decode, form, 3) &&
	       emu_want_address(decode, 0) && want_map(decode, 1, form) &&
	       emu_want_address(decode, 2);
}

static bool decode_store(struct emu_decode *decode, struct tma_form *form)
{
	form->space = emu_take_space(decode, EMU_SHARED);
	if (!emu_take(decode, "bulk_group"))
		return emu_reject(decode, "a store completes by .bulk_group");
	return take_mode(decode, form) && want_rest(decode, form, 2) && want_map(decode, 0, form) &&
	       emu_want_address(decode, 1);
}

static bool decode_tma(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;
	struct tma_form *form = emu_decode_extra(decode, sizeof *form);

	if (!form || !take_rank(decode, form))
		return false;
	ins->extra = form;
	emu_results(ins, 0);
	form->direction = TMA_STORE;
	if (decode->opcode->name[3] == 'r') {
		form->direction = TMA_REDUCE;
		if (!take_reduction(decode, form))
			return false;
	}
	form->space = emu_take_space(decode, EMU_SHARED_CLUSTER);
	if (form->space == EMU_GLOBAL)
		return decode_store(decode, form);
	if (form->direction == TMA_REDUCE)
		return emu_reject(decode, "a reduction goes to .global");
	form->direction = TMA_LOAD;
	return decode_load(decode, form);
}

static bool decode_prefetch(struct emu_decode *decode)
{
	struct tma_form *form = emu_decode_extra(decode, sizeof *form);

	if (!form || !take_rank(decode, form))
		return false;
	form->direction = TMA_PREFETCH;
	decode->ins->extra = form;
	emu_results(decode->ins, 0);
	emu_take(decode, "L2");
	emu_take_space(decode, EMU_GLOBAL);
	return take_mode(decode, form) && want_rest(decode, form, 1) && want_map(decode, 0, form);
}

static const struct emu_opcode rows[] = {
	{"cp.async.bulk.tensor", decode_tma, emu_tma_execute, EMU_P_NO_RESULT | EMU_P_SM90},
	{"cp.reduce.async.bulk.tensor", decode_tma, emu_tma_execute, EMU_P_NO_RESULT | EMU_P_SM90},
	{"cp.async.bulk.prefetch.tensor", decode_prefetch, emu_tma_prefetch,
	 EMU_P_NO_RESULT | EMU_P_SM90},
};

EMU_OPCODE_TABLE(tma_decode, rows);
