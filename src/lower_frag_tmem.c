/*
 * TMEM tiles (docs/isa.md 4 and 5.1): 128 rows by tcgen05.ld.32x32b, a lane a thread; so, too, 64
 * rows of a pair of CTAs, whose columns lie in two halves of the lanes, or operands twice.  64 rows
 * of one CTA, in 16 lanes of each warp's window, by the 16-lane shapes, which give wgmma's D
 * layout.
 */
#include "frag.h"

/* How a tile's cells go to registers. */
struct tmem_shape {
	const char *name;    /* "32x32b" */
	const char *suffix;  /* ld: ".pack::16b" */
	int columns;         /* 32-bit columns that x1 covers */
	int registers;       /* of x1 */
	int columns_element; /* elements a column, as the view counts them */
};

static bool is_half_lane(const struct ref *r)
{
	return r->alloc->layout == TML_HALF_LANE;
}

static void shape_of(struct low *l, const struct ref *r, bool store, struct tmem_shape *s)
{
	int bits = tc_dtypes[r->alloc->dtype].bits;
	int packing = r->alloc->packing > 0 ? r->alloc->packing : 1;
	bool narrow = packing == 1 && bits == 16;

	if (packing == 1 && bits < 16)
		tc_low_fail(l,
			    "TMEM of %s with packed = false cannot be loaded or stored: only "
			    "16-bit accumulators stand alone in their columns.",
			    tc_dtypes[r->alloc->dtype].name);
	s->suffix = !narrow ? "" : store ? ".unpack::16b" : ".pack::16b";
	s->columns_element = packing;
	if (!is_half_lane(r)) {
		s->name = "32x32b";
		s->registers = 1;
		s->columns = narrow ? 2 : 1;
	} else if (bits == 32) {
		s->name = "16x256b";
		s->registers = 4;
		s->columns = 8;
	} else {
		s->name = "16x128b";
		s->registers = 2;
		s->columns = narrow ? 8 : 4;
	}
}

void tc_frag_tmem_distribution(struct low *l, const struct ref *r, const struct role *role,
			       struct distribution *d)
{
	const struct alloc *a = r->alloc;
	int last = a->rank - 1, columns = (int)r->extent[last].size, granule;
	int warpgroups = tc_role_plan(l->c, role)->threads / 128;
	bool halves = a->layout == TML_M64_COLLECTIVE, twice = a->layout == TML_M64_COLLECTIVE_A;
	struct tmem_shape s;

	if (a->layout != TML_DEFAULT && a->layout != TML_HALF_LANE && !halves && !twice)
		tc_low_fail(l, "This TMEM layout cannot be loaded to or stored from registers:\n%s",
			    tc_ref_text(l->c->kern, r));
	shape_of(l, r, false, &s);
	if (r->rank != 2 || r->axis[0] != last - 1 || r->axis[1] != last ||
	    r->extent[last - 1].size != (is_half_lane(r) || halves || twice ? 64 : 128))
		tc_low_fail(l, "A TMEM tile is loaded and stored with all its rows:\n%s",
			    tc_ref_text(l->c->kern, r));
	granule = s.columns * s.columns_element * (halves ? 2 : 1);
	if (columns % granule != 0)
		tc_low_fail(l,
			    "%d columns of %s cannot be loaded or stored: a multiple of %d is "
			    "needed.",
			    columns, tc_dtypes[a->dtype].name, granule);
	if (is_half_lane(r))
		tc_distribution_mma(d, columns, warpgroups,
				    s.columns_element > 2 ? s.columns_element : 2);
	else if (halves)
		tc_distribution_halves(d, columns, warpgroups, 8);
	else if (twice)
		tc_distribution_twice(d, columns, warpgroups, 8);
	else
		tc_distribution_row(d, columns, warpgroups, 8);
}

/* The window of this warp, and its warpgroup's piece of the columns. */
static struct maddr tmem_address(struct low *l, const struct ref *r, const struct distribution *d,
				 const struct tmem_shape *s)
{
	struct maddr m = tc_low_tmem_window(l, r);

	for (int i = 0; i < d->axis[1].field_count; i++) {
		const struct thread_field *f = &d->axis[1].field[i];

		if (f->shift != 7)
			continue;
		m.reg = tc_low_add(l, R(m.reg),
				   tc_low_mul(l, R(tc_thread_field(l, f)),
					      f->stride / s->columns_element))
				.reg;
	}
	return m;
}

/* Word of the value that register i of the whole transfer is. */
static int word_of(const struct ref *r, const struct frag_value *v, int i)
{
	int half = v->words / 2;

	if (!is_half_lane(r))
		return i;
	if (tc_dtypes[v->dtype].bits == 32)
		return (i >> 1 & 1) * half + 2 * (i >> 2) + (i & 1);
	return (i & 1) * half + (i >> 1);
}

/* Of x<n>. */
static const char *move_opcode(struct low *l, const struct tmem_shape *s, const char *name, int n)
{
	return tc_arena_printf(l->arena, "tcgen05.%s.sync.aligned.%s.x%d%s.b32", name, s->name, n,
			       s->suffix);
}

/* ---- tcgen05.ld.red (docs/isa.md 5.1) ----------------------------------------------------- */

/*
 * The reduction along the rows that the loads make on the way: of a later op beside this one.
 * NULL: there is none, or none that the instruction makes.
 */
static const struct frag_reduce_op *reduction_of(const struct low *l, const struct op *load)
{
	const struct load_op *o = &load->u.load;
	enum dtype t = o->result->dtype;

	if (!l->c->target->load_reduces || is_half_lane(o->ref) || tc_dtypes[t].bits != 32)
		return NULL;
	for (const struct op *op = load->next; op; op = op->next) {
		const struct frag_reduce_op *r = &op->u.reduce;
		bool absolute = r->op == RO_ABSMAX || r->op == RO_ABSMIN;

		if (op->kind == OP_FRAG_REDUCE && r->arg == o->result && r->axis == 1 &&
		    r->op != RO_SUM && (!absolute || t == DT_F32))
			return r;
	}
	return NULL;
}

/* "max.abs.f32" */
static const char *reduction_text(struct low *l, const struct frag_value *v)
{
	static const char *const names[] = {[RO_MAX] = "max",
					    [RO_MIN] = "min",
					    [RO_ABSMAX] = "max.abs",
					    [RO_ABSMIN] = "min.abs"};
	char class = tc_compute_class(v->dtype);

	return tc_arena_printf(l->arena, "%s.%s", names[v->extreme_op],
			       class == 'f'   ? "f32"
			       : class == 'i' ? "s32"
					      : "u32");
}

/* A load of one register has none: its element stands for itself. */
static void load_reducing(struct low *l, struct frag_value *v, const struct tmem_shape *s,
			  struct mopnd values, int n, struct mopnd from)
{
	struct mreg extreme;

	v->extreme_reduced[v->extremes] = n > 1;
	if (n == 1) {
		v->extreme[v->extremes++] = values.list[0];
		mi(l, move_opcode(l, s, "ld", n), values, from);
		return;
	}
	extreme = mi_b32(l);
	v->extreme[v->extremes++] = R(extreme);
	mi(l,
	   tc_arena_printf(l->arena, "tcgen05.ld.red.sync.aligned.%s.x%d.%s", s->name, n,
			   reduction_text(l, v)),
	   values, R(extreme), from);
}

/* ---- loads and stores -------------------------------------------------------------------- */

/* Most registers a transfer, so that a tile takes few instructions. */
#define MOST_REGISTERS 64

static void move(struct low *l, const struct ref *r, struct frag_value *v, bool store)
{
	/* Of warpgroups that hold the same, one stores. */
	struct mreg who = store ? tc_thread_unique(l, v->distribution, (bool[2]){true, true})
				: (struct mreg){.id = 0};
	struct tmem_shape s;
	struct maddr m;
	int left, at = 0, column = 0;

	shape_of(l, r, store, &s);
	m = tmem_address(l, r, v->distribution, &s);
	for (left = v->words / s.registers; left > 0;) {
		struct mreg reg[MOST_REGISTERS];
		int n = MOST_REGISTERS / s.registers;
		struct mopnd values;
		const char *opcode;

		while (n > left)
			n /= 2;
		for (int i = 0; i < n * s.registers; i++)
			reg[i] = v->word[word_of(r, v, at + i)].reg;
		values = V(reg, n * s.registers);
		opcode = move_opcode(l, &s, store ? "st" : "ld", n);
		if (who.id)
			mi_if(l, who, opcode, M(m, column), values);
		else if (store)
			mi(l, opcode, M(m, column), values);
		else if (v->extreme)
			load_reducing(l, v, &s, values, n, M(m, column));
		else
			mi(l, opcode, values, M(m, column));
		at += n * s.registers;
		column += n * s.columns;
		left -= n;
	}
}

void tc_lower_load_tmem(struct low *l, const struct op *op)
{
	const struct load_op *o = &op->u.load;
	const struct distribution *d = tc_frag_distribution(l, o->result->id);
	struct frag_value *v = tc_value_new(l, d, o->result->dtype, (bool[2]){true, true});

	const struct frag_reduce_op *reduction = reduction_of(l, op);

	tc_low_all(l);
	tc_tmem_order(l, op);
	for (int i = 0; i < v->words; i++)
		v->word[i] = R(mi_b32(l));
	if (reduction) {
		v->extreme_op = reduction->op;
		v->extreme = tc_arena_alloc(l->arena, sizeof *v->extreme * (size_t)v->words);
		v->extreme_reduced =
			tc_arena_alloc(l->arena, sizeof *v->extreme_reduced * (size_t)v->words);
	}
	move(l, o->ref, v, false);
	l->pending_ld = true;
	v->ld_epoch = l->ld_epoch;
	tc_value_define(l, o->result, v);
}

void tc_lower_store_tmem(struct low *l, const struct op *op)
{
	const struct store_op *o = &op->u.store;
	struct distribution *d = tc_arena_alloc(l->arena, sizeof *d);
	const bool along[2] = {true, true};
	struct frag_value *v;

	tc_low_all(l);
	l->c->target->ops->tmem_distribution(l, o->ref, o->value->role, d);
	v = tc_value_stored(l, o->value, d, 1, along);
	tc_tmem_order(l, op);
	move(l, o->ref, v, true);
	l->pending_st = true;
}
