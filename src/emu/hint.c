/*
 * What orders or speeds up memory and has no effect where every access is
 * complete when its instruction is: fences, prefetches, cache policies.
 */
#include "hazard.h"

static enum emu_step nothing(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	(void)warp;
	(void)ins;
	(void)mask;
	return EMU_NEXT;
}

enum fence_kind {
	FENCE_NONE, /* orders nothing that is watched */
	FENCE_THREADS,
	FENCE_BARRIERS, /* .mbarrier_init */
	FENCE_PROXY,
	FENCE_PROXY_SHARED,
	FENCE_PROXY_GLOBAL,
	FENCE_MAP_RELEASE, /* .proxy.tensormap::generic */
	FENCE_MAP_ACQUIRE
};

static enum emu_step fence(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	(void)mask;
	if (!warp->order)
		return EMU_NEXT;
	switch (ins->variant) {
	case FENCE_THREADS:
		emu_order_thread_fence(warp->order, (enum emu_scope)ins->scope);
		break;
	case FENCE_BARRIERS:
		emu_order_barrier_fence(warp->order);
		break;
	case FENCE_MAP_RELEASE:
	case FENCE_MAP_ACQUIRE:
		emu_order_tensormap_fence(warp->order, ins->variant == FENCE_MAP_ACQUIRE);
		break;
	case FENCE_PROXY:
	case FENCE_PROXY_SHARED:
	case FENCE_PROXY_GLOBAL:
		emu_order_proxy_fence(warp->order, ins->variant != FENCE_PROXY_GLOBAL,
				      ins->variant != FENCE_PROXY_SHARED);
		break;
	default:
		break;
	}
	return EMU_NEXT;
}

/* What the words of a fence make of it; .async::generic is one-sided and orders as .async does. */
static enum fence_kind fence_kind(const struct emu_decode *decode, enum emu_space space)
{
	const char *name = decode->ins->mnemonic;

	if (strstr(name, "proxy.async"))
		return space == EMU_GLOBAL                                  ? FENCE_PROXY_GLOBAL
		       : space == EMU_SHARED || space == EMU_SHARED_CLUSTER ? FENCE_PROXY_SHARED
									    : FENCE_PROXY;
	if (strstr(name, "mbarrier_init"))
		return FENCE_BARRIERS;
	if (strstr(name, "proxy.tensormap"))
		return strstr(name, "acquire") ? FENCE_MAP_ACQUIRE : FENCE_MAP_RELEASE;
	if (strstr(name, "proxy"))
		return FENCE_NONE;
	return FENCE_THREADS;
}

static bool decode_fence(struct emu_decode *decode)
{
	static const char *const words[] = {"sync_restrict::shared::cta",
					    "sync_restrict::shared::cluster",
					    "async",
					    "async::generic",
					    "alias",
					    "tensormap::generic",
					    "global"};
	struct emu_ins *ins = decode->ins;

	if ((strstr(ins->mnemonic, "acquire") && strstr(ins->mnemonic, "restrict::shared::cta")) ||
	    (strstr(ins->mnemonic, "release") &&
	     strstr(ins->mnemonic, "restrict::shared::cluster")))
		return emu_reject(decode, ".acquire goes with .sync_restrict::shared::cluster, "
					  ".release with .sync_restrict::shared::cta");
	emu_take_semantics(decode);
	/* membar.gl */
	if (emu_take(decode, "gl") || !ins->scope)
		ins->scope = EMU_SCOPE_GPU;
	ins->variant = (uint8_t)fence_kind(decode, emu_take_space(decode, EMU_GENERIC));
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		emu_take(decode, words[i]);
	ins->flags |= EMU_I_SYNC;
	/* fence.proxy.tensormap::generic.acquire.gpu [address], 128 */
	if (ins->operand_count == 2)
		return emu_want_address(decode, 0) && emu_want_immediate(decode, 1, 128, 128);
	return emu_want_operands(decode, 0, 0);
}

/* prefetch{u}.space.level [a]; a bad address is no fault. */
static bool decode_prefetch(struct emu_decode *decode)
{
	static const char *const words[] = {"L1", "L2", "L2::evict_last", "L2::evict_normal",
					    "tensormap"};

	emu_take_space(decode, EMU_GENERIC);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		emu_take(decode, words[i]);
	return emu_want_operands(decode, 1, 1) && emu_want_address(decode, 0);
}

static bool decode_discard(struct emu_decode *decode)
{
	emu_take_space(decode, EMU_GENERIC);
	emu_take(decode, "L2");
	emu_take(decode, "L2::evict_normal");
	return emu_want_operands(decode, 2, 2) && emu_want_address(decode, 0) &&
	       emu_want_immediate(decode, 1, 128, 128);
}

/* A policy is an opaque 64-bit value. */
static enum emu_step policy(struct emu_warp *warp, const struct emu_ins *ins, uint32_t mask)
{
	EMU_FOR_LANES(l, mask)
	{
		emu_row64(warp, ins->ref[0])[l] = 0x12f0000000000000ull;
	}
	return EMU_NEXT;
}

static bool decode_policy(struct emu_decode *decode)
{
	struct emu_ins *ins = decode->ins;

	emu_take_space(decode, EMU_GENERIC);
	emu_take(decode, "fractional");
	emu_take(decode, "range");
	emu_take(decode, "cvt");
	emu_take(decode, "L2");
	while (emu_take_prefix(decode, "L2::"))
		;
	if (emu_take_type(decode) != EMU_T_B64)
		return emu_reject(decode, "needs .b64");
	return emu_want_operands(decode, 1, 4) &&
	       (ins->operands[0].kind == EMU_O_REGISTER && ins->operands[0].bits == 64
			? true
			: emu_reject(decode, "the policy is a 64-bit register"));
}

static bool decode_grid(struct emu_decode *decode)
{
	if (!emu_take(decode, "wait") && !emu_take(decode, "launch_dependents"))
		return emu_reject(decode, "needs .wait or .launch_dependents");
	return emu_want_operands(decode, 0, 0);
}

static bool decode_pmevent(struct emu_decode *decode)
{
	emu_take(decode, "mask");
	return emu_want_operands(decode, 1, 1) && emu_want_immediate(decode, 0, 0, 65535);
}

static const struct emu_opcode opcodes[] = {
	{"membar", decode_fence, fence, EMU_P_NO_RESULT},
	{"membar.proxy", decode_fence, fence, EMU_P_NO_RESULT},
	{"fence", decode_fence, fence, EMU_P_NO_RESULT},
	{"fence.proxy", decode_fence, fence, EMU_P_NO_RESULT},
	{"fence.mbarrier_init", decode_fence, fence, EMU_P_NO_RESULT | EMU_P_SM90},
	{"prefetch", decode_prefetch, nothing, EMU_P_NO_RESULT},
	{"prefetchu", decode_prefetch, nothing, EMU_P_NO_RESULT},
	{"discard", decode_discard, nothing, EMU_P_NO_RESULT},
	{"applypriority", decode_discard, nothing, EMU_P_NO_RESULT},
	{"createpolicy", decode_policy, policy, 0},
	{"griddepcontrol", decode_grid, nothing, EMU_P_NO_RESULT | EMU_P_SM90},
	{"pmevent", decode_pmevent, nothing, EMU_P_NO_RESULT},
};

EMU_OPCODE_TABLE(hint, opcodes);
