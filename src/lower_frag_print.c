/* Printing of fragments: through SMEM scratch, by the leader. */
#include "frag.h"

/* A corner of the tile is shown, a row a line. */
#define MOST_SHOWN 16

static enum dtype printed_dtype(enum dtype t)
{
	char class = tc_compute_class(t);

	return class == 'f' ? DT_F32 : class == 'u' ? DT_U32 : DT_I32;
}

static struct frag_value *widened(struct low *l, const struct frag_value *v)
{
	enum dtype t = printed_dtype(v->dtype);
	struct frag_value *w = tc_value_new(l, v->distribution, t, v->along);
	int per_word = tc_dtype_per_word(v->dtype);

	for (int i = 0; i < v->elements; i += per_word)
		tc_unpack_word(l, v->dtype, v->word[i / per_word], &w->word[i],
			       v->elements - i < per_word ? v->elements - i : per_word);
	for (int i = 0; i < v->elements; i++)
		w->word[i] = tc_convert_class(l, tc_compute_class(v->dtype), tc_compute_class(t),
					      w->word[i]);
	return w;
}

static const char *row_format(struct low *l, int index, int rows, int shown, int columns,
			      char class)
{
	const char *text = rows > 1 ? tc_arena_printf(l->arena, "  [%d]", index) : " ";

	for (int i = 0; i < shown; i++)
		text = tc_arena_printf(l->arena, "%s %s", text,
				       class == 'f'   ? "%g"
				       : class == 'u' ? "%u"
						      : "%d");
	return tc_arena_printf(l->arena, "%s%s\n", text, shown < columns ? " ..." : "");
}

/* "{}" stands for the fragment's type and shape; the values follow on their own lines. */
static const char *header(struct low *l, const struct print_op *p)
{
	const char *text, *name = tc_frag_text(l->c->kern, p->frag);
	struct strbuf b = {.arena = l->arena};

	for (const char *s = p->format ? p->format : ""; *s; s++) {
		char one[2] = {*s, 0};

		if (s[0] == '{' && s[1] == '}' && name) {
			tc_puts(&b, name);
			name = NULL;
			s++;
			continue;
		}
		tc_puts(&b, *s == '%' ? "%%" : one);
		if ((s[0] == '{' || s[0] == '}') && s[1] == s[0])
			s++;
	}
	if (name)
		tc_printf(&b, "%s%s", b.length ? " " : "", name);
	tc_puts(&b, "\n");
	text = tc_arena_strdup(l->arena, b.text);
	tc_strbuf_free(&b);
	return text;
}

static void print_row(struct low *l, const struct frag_node *n, const struct frag_value *v, int row,
		      struct maddr at)
{
	struct mopnd value[MOST_SHOWN];
	bool is_float[MOST_SHOWN];
	int shown = n->extent[1] < MOST_SHOWN ? n->extent[1] : MOST_SHOWN;

	for (int i = 0; i < shown; i++) {
		is_float[i] = v->dtype == DT_F32;
		if (!v->distribution) {
			value[i] = R(tc_word_register(l, v->word[0]));
		} else {
			struct mreg r = mi_b32(l);

			mi(l, "ld.shared.b32", R(r), M(at, 4 * i));
			value[i] = R(r);
		}
	}
	tc_low_printf(
		l,
		row_format(l, row, n->extent[0], shown, n->extent[1], tc_compute_class(v->dtype)),
		value, is_float, shown);
}

void tc_lower_frag_print(struct low *l, const struct op *op)
{
	const struct print_op *p = &op->u.print;
	const struct frag_node *n = &tc_frag_plan(l)->node[p->frag->id];
	const struct distribution *d = tc_frag_distribution(l, p->frag->id);
	bool along[2] = {n->extent[0] > 1, n->extent[1] > 1};
	struct frag_value *v;
	struct maddr scratch = {.offset = 0};
	int64_t row_bytes = 0;

	tc_low_all(l);
	v = tc_value_in(l, p->frag, d, n->axis);
	if (v->distribution)
		v = tc_value_spread(l, v, d, along);
	v = widened(l, v);
	if (v->distribution)
		scratch = tc_value_to_scratch(l, v, n->extent, &row_bytes);
	tc_low_first_leader(l);
	tc_low_printf(l, header(l, p), NULL, NULL, 0);
	for (int row = 0; row < n->extent[0] && row < MOST_SHOWN; row++) {
		struct maddr at = scratch;

		at.offset += row * row_bytes;
		print_row(l, n, v, row, at);
	}
	if (n->extent[0] > MOST_SHOWN)
		tc_low_printf(l, "  ...\n", NULL, NULL, 0);
	tc_low_all(l);
}
