/*
 * ref:peek: runs what is recorded so far on the emulator, on copies of its
 * arrays, and shows what the ref holds then.
 */
#include "compile.h"
#include "host.h"
#include "lua_dev.h"

#include <stdio.h>
#include <string.h>

/* The stack of the call once its options are read. */
enum {
	KERNEL = 1,
	GIVEN, /* table of the arrays to use, or nil */
	REF,   /* and OPTIONS, which keep alive what the C values point at */
	OPTIONS,
	PROGRAM,
	MEMORY,
	FIRST /* copies of the arguments */
};

#define LANES 128 /* rows of tensor memory */

/* What is needed of the ref after the run stands here: code of the user may close the kernel. */
struct peek {
	struct kern *kern;
	struct ref ref;
	struct alloc alloc; /* with the place that it has in this program */
	int64_t start[TC_MAX_RANK];
	const struct target *target;
	struct device *device;
	uint32_t cta[3];
	bool show;
	/* the block's memory at its end, in a userdata */
	uint8_t *memory;
	size_t size; /* bytes of SMEM, or 512 a column of TMEM */
	bool seen;
};

/* ---- options ------------------------------------------------------------- */

static void read_cta(lua_State *L, struct peek *p)
{
	if (!tc_option_push(L, 2, "cta"))
		return;
	if (!lua_istable(L, -1) || lua_rawlen(L, -1) > 3)
		tc_argerror(L, 2, "option 'cta' must be a table of up to 3 integers, got %s",
			    tc_describe(L, -1));
	for (int i = 0, count = (int)lua_rawlen(L, -1); i < count; i++) {
		int ok = 0;

		lua_rawgeti(L, -1, i + 1);
		lua_Integer n = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &ok) : 0;
		if (!ok || n < 0 || n > INT32_MAX)
			tc_argerror(L, 2,
				    "option 'cta', entry %d: a block index >= 0 expected, got %s",
				    i + 1, tc_describe(L, -1));
		p->cta[i] = (uint32_t)n;
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
}

/* TMEM needs a target that has it; so does a kernel that is for no target and no GPU. */
static void choose_target(lua_State *L, struct peek *p)
{
	bool given = tc_option_push(L, 2, "target");

	lua_settop(L, 2);
	p->target = tc_kernel_target(L, 2, p->kern);
	if (p->target->tmem_columns || p->alloc.space != SP_TMEM)
		return;
	if (!given && !p->kern->target)
		p->target = tc_target_find("sm_100a");
	else
		tc_error(L,
			 "peek() at tensor memory on %s, where it is registers of the role that "
			 "reads it: peek{target = \"sm_100a\"}",
			 p->target->name);
}

static void check_usable(void *arg)
{
	const struct peek *p = arg;

	tc_ref_usable(p->kern, &p->ref);
}

static void read_view(lua_State *L, struct peek *p, const struct ref *r)
{
	p->ref = *r;
	p->alloc = *r->alloc;
	if (r->cluster_rank)
		tc_error(L, "peek() at a ref of another block: peek at the ref itself, with the "
			    "option cta = {x, y, z}");
	for (int i = 0; i < r->alloc->rank; i++)
		if (!tc_val_is_const(r->start[i], &p->start[i]))
			tc_error(L, "peek() at a view whose index is recorded: its place is known "
				    "only while the kernel runs; peek at the whole ref");
	tc_call(L, &p->kern->err, check_usable, p);
}

static void read_options(lua_State *L, struct peek *p)
{
	static const char *const names[] = {"args", "target", "mode",  "numerics",
					    "seed", "cta",    "quiet", NULL};

	lua_settop(L, 2);
	const struct ref *r = tc_read_recorded(L, 1, TC_REF, &p->kern);
	tc_options(L, 2, names);
	p->show = !tc_option_boolean(L, 2, "quiet", false);
	read_cta(L, p);
	read_view(L, p, r);
	choose_target(L, p);
	if (p->kern->current != p->kern->root && !p->kern->finished)
		tc_error(L, "peek() inside a block: what is recorded so far can be run outside all "
			    "blocks");
}

/* ---- arguments ----------------------------------------------------------- */

/* Pushes the table of arrays: the option's, else that of the peek before; nil if there is none. */
static void push_given(lua_State *L, const struct kern *k)
{
	if (!tc_option_push(L, 2, "args")) {
		lua_getiuservalue(L, 1, 1);
		lua_getiuservalue(L, -1, TC_KERNEL_PEEK);
		lua_remove(L, -2);
		return;
	}
	if (!lua_istable(L, -1))
		tc_argerror(L, 2, "option 'args' must be a list of arrays, got %s",
			    tc_describe(L, -1));
	if (lua_rawlen(L, -1) > (size_t)k->arg_count)
		tc_argerror(L, 2, "option 'args' has %d entries; kernel '%s' has %d argument%s",
			    (int)lua_rawlen(L, -1), k->name, k->arg_count,
			    k->arg_count == 1 ? "" : "s");
}

/* Array i of the table, pushed; NULL and nothing where there is none. */
static struct array *push_given_array(lua_State *L, int i)
{
	if (!lua_istable(L, GIVEN))
		return NULL;
	if (lua_rawgeti(L, GIVEN, i + 1) == LUA_TNIL) {
		lua_pop(L, 1);
		return NULL;
	}
	if (!tc_test_object(L, -1, TC_ARRAY))
		tc_argerror(L, 2, "option 'args', entry %d: an array expected, got %s", i + 1,
			    tc_describe(L, -1));
	return tc_check_array(L, lua_gettop(L));
}

/* The size that a given array has where an argument says `number`; -1: nobody says. */
static int64_t given_dim(lua_State *L, const struct kern *k, int number)
{
	int64_t size = -1;

	for (int i = 0; i < k->arg_count && size < 0; i++) {
		const struct alloc *wanted = k->args[i]->alloc;
		const struct array *a = push_given_array(L, i);

		if (!a)
			continue;
		for (int d = 0; d < a->rank && d < wanted->rank; d++)
			if (wanted->shape[d].size < 0 && wanted->shape[d].value->axis == number)
				size = a->shape[d];
		lua_pop(L, 1);
	}
	return size;
}

#define CHUNK 512

/* Normal numbers for floats, -4 .. 4 for integers, 0 .. 4 for unsigned ones. */
static void fill_random(const struct array *a, void *data, uint64_t seed)
{
	double number[CHUNK];
	int64_t integer[CHUNK];
	char class = tc_dtypes[a->dtype].klass;
	uint64_t span = class == 'I' ? 9 : class == 'U' ? 5 : 2;

	memset(data, 0, (size_t)a->bytes);
	for (int64_t first = 0; first < a->elements; first += CHUNK) {
		int64_t n = a->elements - first < CHUNK ? a->elements - first : CHUNK;

		tc_random_normal(seed, first, n, number);
		tc_random_integer(seed, first, n, class == 'I' ? -4 : 0, span, integer);
		for (int64_t i = 0; i < n && class != 'F'; i++)
			number[i] = (double)integer[i];
		tc_store_doubles(a->dtype, data, first, n, number);
	}
}

static void push_random(lua_State *L, const struct peek *p, int i)
{
	const struct alloc *wanted = p->kern->args[i]->alloc;
	int64_t shape[TC_MAX_RANK];

	for (int j = 0; j < wanted->rank; j++) {
		const struct dim *dim = &wanted->shape[j];

		shape[j] = dim->size >= 0 ? dim->size : given_dim(L, p->kern, dim->value->axis);
		if (shape[j] < 0)
			tc_error(L,
				 "peek() does not know dimension '%s' of argument %d of kernel "
				 "'%s': give the arrays, peek{args = {...}}",
				 dim->name, i + 1, p->kern->name);
	}
	const struct array *a = tc_new_array_on(L, p->device, wanted->dtype, wanted->rank, shape);
	void *data = tc_array_stage(L, a);
	fill_random(a, data, (uint64_t)i + 1);
	tc_array_write(L, a, data);
}

static void push_copy(lua_State *L, const struct peek *p, const struct array *from)
{
	const struct array *a = tc_new_array_on(L, p->device, from->dtype, from->rank, from->shape);

	tc_array_write(L, a, tc_array_data(L, from));
}

static void push_arguments(lua_State *L, const struct peek *p)
{
	luaL_checkstack(L, p->kern->arg_count + 24, "for the arguments of a kernel");
	for (int i = 0; i < p->kern->arg_count; i++) {
		const struct array *given = push_given_array(L, i);

		if (given) {
			push_copy(L, p, given);
			lua_remove(L, FIRST + i);
		} else {
			push_random(L, p, i);
		}
		lua_settop(L, FIRST + i);
		tc_check_kernel(L, KERNEL);
	}
}

/* ---- the run ------------------------------------------------------------- */

static void keep_memory(void *context, const struct emu_cta_memory *m)
{
	struct peek *p = context;

	if (memcmp(p->cta, m->cta, sizeof p->cta) != 0)
		return;
	p->seen = true;
	if (p->alloc.space == SP_SMEM) {
		if (m->shared_bytes - m->dynamic >= p->size)
			memcpy(p->memory, m->shared + m->dynamic, p->size);
	} else if (m->tmem) {
		memcpy(p->memory, m->tmem + (size_t)m->first_column * LANES, p->size);
	}
}

/* Pushes what keeps the block's memory. */
static void push_memory(lua_State *L, struct peek *p, const struct program *program)
{
	switch (p->alloc.space) {
	case SP_SMEM:
		p->size = program->smem;
		break;
	case SP_TMEM:
		p->size = (size_t)program->info.tmem_columns * LANES * sizeof(uint32_t);
		break;
	case SP_GMEM:
		break;
	}
	p->memory = lua_newuserdatauv(L, p->size + 1, 0);
	memset(p->memory, 0, p->size + 1);
}

static void run(lua_State *L, struct peek *p, const struct program *program)
{
	struct run *r = tc_kernel_run(L, program, FIRST);
	struct err e = {0};
	void *module = NULL;

	/* Arrays that the kernel takes are kept for the peeks that follow. */
	lua_pushvalue(L, GIVEN);
	lua_setiuservalue(L, KERNEL, TC_KERNEL_PEEK);

	for (int i = 0; i < 3; i++)
		if (p->cta[i] >= r->launch.grid[i])
			tc_error(L, "option 'cta': there is no block %d along %c, the grid has %d",
				 (int)p->cta[i], "xyz"[i], (int)r -> launch.grid[i]);
	if (lua_istable(L, OPTIONS))
		tc_read_run_options(L, OPTIONS, r);
	if (!r->options.mode)
		r->options.mode = "fast";
	r->options.threads = 1;
	r->options.inspect = keep_memory;
	r->options.inspect_context = p;
	r->launch.cache = &module;
	bool ok = tc_run(p->device, r, &e);
	if (module)
		p->device->ops->unload(p->device, module);
	if (!ok)
		tc_raise_program(L, program, &e);
	if (!p->seen && p->alloc.space != SP_GMEM)
		tc_error(L, "peek() saw no end of block {%d, %d, %d} of kernel '%s'",
			 (int)p->cta[0], (int)p->cta[1], (int)p->cta[2], p->kern->name);
}

/* ---- from memory to elements --------------------------------------------- */

static uint64_t take_bits(lua_State *L, const struct peek *p, int64_t byte, int64_t bit, int bits)
{
	int64_t at = byte + bit / 8, bytes = (bit % 8 + bits + 7) / 8;
	uint64_t word = 0;

	if (at < 0 || at + bytes > (int64_t)p->size)
		tc_error(L,
			 "internal error: byte %d of %d bytes of memory is asked for (allocation "
			 "at %d, rank %d, swizzle %d, %d bits)",
			 (int)at, (int)p->size, (int)p->alloc.offset, p->alloc.rank,
			 p->alloc.swizzle, bits);
	memcpy(&word, p->memory + at, (size_t)bytes);
	word >>= bit % 8;
	return bits == 64 ? word : word & ((UINT64_C(1) << bits) - 1);
}

/* Sixteen padded elements lie dense at the start of 16 bytes. */
static uint64_t smem_element(lua_State *L, const struct peek *p, const int64_t *index)
{
	const struct alloc *a = &p->alloc;
	struct smem_layout s;
	int64_t tile = 0, row = a->rank >= 2 ? index[a->rank - 2] : 0;
	int64_t column = a->rank >= 1 ? index[a->rank - 1] : 0;
	int bits = tc_dtypes[a->dtype].bits, group = tc_stored_bits(a) == bits ? 8 : 16;

	tc_smem_layout(a, &s);
	for (int i = 0; i + 2 < a->rank; i++)
		tile = tile * a->shape[i].size + index[i];
	int64_t offset = tile * s.tile_bytes + tc_smem_linear(&s, row, column / group * group);
	int64_t bit = 8 * offset + column % group * bits;
	offset = a->offset + tc_smem_xor(&s, bit / 8);
	return take_bits(L, p, offset, bit % 8, bits);
}

/* Of a row; columns of 64 rows of a pair lie in two halves of the lanes.  Tiles of rows follow one
 * another. */
static int64_t lane_of(const struct alloc *a, int64_t row, int64_t *column)
{
	int64_t columns = a->shape[a->rank - 1].size / (a->packing ? a->packing : 1);
	int64_t half = columns / 2, lane;

	switch (a->layout) {
	case TML_HALF_LANE:
		return row / 16 * 32 + row % 16;
	case TML_M64_COLLECTIVE:
		lane = row % 64 + (*column < half ? 0 : LANES / 2);
		*column = *column % half + row / 64 * half;
		return lane;
	case TML_M64_COLLECTIVE_A:
		*column += row / 64 * columns;
		return row % 64;
	default:
		*column += row / LANES * columns;
		return row % LANES;
	}
}

static uint64_t tmem_element(lua_State *L, const struct peek *p, const int64_t *index)
{
	const struct alloc *a = &p->alloc;
	int packing = a->packing ? a->packing : 1, bits = tc_dtypes[a->dtype].bits;
	int64_t rows = a->shape[a->rank - 2].size;
	int64_t slot = 0, per_slot = tc_tmem_columns(a, rows, a->shape[a->rank - 1].size);
	int64_t element = index[a->rank - 1], column = element / packing, lane;

	for (int i = 0; i + 2 < a->rank; i++)
		slot = slot * a->shape[i].size + index[i];
	lane = lane_of(a, index[a->rank - 2], &column);
	int64_t word = (a->offset + slot * per_slot + column) * LANES + lane;
	/* Padded elements stand in the middle of their byte. */
	return take_bits(L, p, 4 * word,
			 element % packing * (32 / packing) + (tc_stored_bits(a) - bits) / 2, bits);
}

static uint64_t gmem_element(const struct array *a, const void *data, const int64_t *index)
{
	int64_t element = 0;

	for (int i = 0; i < a->rank; i++) {
		if (index[i] < 0 || index[i] >= a->shape[i])
			return 0;
		element = element * a->shape[i] + index[i];
	}
	return tc_get_element(a->dtype, data, element);
}

/* The element of the view at `at` as one of the storage. */
static void storage_index(const struct peek *p, const int64_t *at, int64_t *index)
{
	memcpy(index, p->start, sizeof p->start);
	for (int d = 0; d < p->ref.rank; d++)
		index[p->ref.axis[d]] += at[d];
}

static bool step(int64_t *at, const int64_t *shape, int rank)
{
	while (rank-- > 0) {
		if (++at[rank] < shape[rank])
			return true;
		at[rank] = 0;
	}
	return false;
}

/* The layouts of scales and metadata have no rows and columns: the words, lane by column. */
static bool is_raw(const struct alloc *a)
{
	return a->space == SP_TMEM && a->layout != TML_DEFAULT && a->layout != TML_HALF_LANE &&
	       a->layout != TML_M64_COLLECTIVE && a->layout != TML_M64_COLLECTIVE_A;
}

static void push_raw(lua_State *L, const struct peek *p)
{
	const struct alloc *alloc = &p->alloc;
	const int64_t shape[2] = {LANES, alloc->columns};
	const struct array *a = tc_new_array_on(L, p->device, DT_U32, 2, shape);
	uint32_t *data = tc_array_stage(L, a);
	const uint8_t *from = p->memory + 4 * alloc->offset * LANES;

	for (int64_t c = 0; c < shape[1]; c++)
		for (int64_t lane = 0; lane < LANES; lane++)
			memcpy(&data[lane * shape[1] + c], from + 4 * (c * LANES + lane), 4);
	tc_array_write(L, a, data);
	lua_pop(L, 1);
}

static void push_view(lua_State *L, const struct peek *p)
{
	const struct ref *r = &p->ref;
	enum space space = p->alloc.space;
	const struct array *argument =
		space == SP_GMEM ? tc_check_array(L, FIRST + p->alloc.id) : NULL;
	const void *from;
	int64_t shape[TC_MAX_RANK], at[TC_MAX_RANK] = {0}, index[TC_MAX_RANK], i = 0;

	for (int d = 0; d < r->rank; d++)
		shape[d] = r->shape[d].size >= 0 ? r->shape[d].size : argument->shape[r->axis[d]];
	const struct array *a = tc_new_array_on(L, p->device, p->alloc.dtype, r->rank, shape);
	int array = lua_gettop(L);
	char *data = tc_array_stage(L, a);
	memset(data, 0, (size_t)a->bytes);
	from = argument ? tc_array_copy(L, argument) : NULL;
	do {
		storage_index(p, at, index);
		tc_set_element(a->dtype, data, i++,
			       space == SP_SMEM   ? smem_element(L, p, index)
			       : space == SP_TMEM ? tmem_element(L, p, index)
						  : gmem_element(argument, from, index));
	} while (step(at, shape, r->rank));
	tc_array_write(L, a, data);
	lua_settop(L, array);
}

static void show(lua_State *L)
{
	int array = lua_gettop(L);

	lua_getglobal(L, "print");
	lua_getfield(L, array, "tostring_values");
	lua_pushvalue(L, array);
	lua_call(L, 1, 1);
	lua_call(L, 1, 0);
	lua_settop(L, array);
}

const char tc_peek_doc[] =
	"peek(opts?: {args?: tcmma.array[], target?: string, mode?: string, numerics?: string, "
	"seed?: integer, cta?: integer[], quiet?: boolean}) -> tcmma.array\n"
	"Runs what is recorded so far on the emulator, prints what the ref holds at the end, and "
	"returns that as an array of the view's shape. The recording stays as it is, open or "
	"finished.\n\n"
	"- `args`: the arrays of the run, which works on copies of them; they are kept for the "
	"peeks that follow. An argument without an array gets random normal numbers (integers "
	"from -4 to 4), the same ones each time\n"
	"- `target`: the kernel's own, else that of the current device; for TMEM one that has it\n"
	"- `mode`, `numerics`, `seed`: as for `kernel:emulate`; `mode` is \"fast\" unless given; "
	"in the others an MMA that nobody waits for is an error\n"
	"- `cta`: the block to look at, {x, y, z} as in a report; default {0, 0, 0}\n"
	"- `quiet`: print nothing\n\n"
	"Works on TMEM, SMEM and arguments. TMEM that nobody has written holds the emulator's "
	"pattern 0x7fc0dead (a NaN) in each column. Scales and sparsity metadata, which are no "
	"rows and columns, come as they lie: uint32, 128 lanes by columns. A recording that waits "
	"for what never comes raises an error that names the barrier.";

int tc_ref_peek(lua_State *L)
{
	struct peek p = {0};

	read_options(L, &p);
	p.device = tc_emulate_device(L, p.target->name);
	push_given(L, p.kern);
	lua_insert(L, 1);
	lua_getiuservalue(L, 2, 1);
	lua_insert(L, KERNEL);
	p.kern = tc_check_kernel(L, KERNEL);

	const struct ref *r = tc_read_recorded(L, REF, TC_REF, NULL);
	const struct program *program = tc_fresh_program(L, p.target);
	p.alloc.offset = r->alloc->offset;
	push_memory(L, &p, program);
	push_arguments(L, &p);
	run(L, &p, program);
	if (is_raw(&p.alloc))
		push_raw(L, &p);
	else
		push_view(L, &p);
	if (p.show)
		show(L);
	return 1;
}
