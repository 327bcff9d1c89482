/* Distributions of a register tile over the threads of a role. */
#include "frag.h"

#include <string.h>

#define WARPGROUP 128

static void add_field(struct axis_map *m, int shift, int values, int stride)
{
	if (values > 1)
		m->field[m->field_count++] = (struct thread_field){shift, values, stride};
}

/* Warpgroups take pieces of the columns where these are whole granules, else
 * each has them all. */
static int cut_columns(struct distribution *d, int columns, int warpgroups, int granule)
{
	int pieces = columns % (warpgroups * granule) == 0 ? warpgroups : 1;
	int piece = columns / pieces;

	d->threads = warpgroups * WARPGROUP;
	d->fast = 1;
	d->axis[1].extent = columns;
	add_field(&d->axis[1], 7, pieces, piece);
	d->replica = (struct thread_field){7, pieces == 1 ? warpgroups : 1, 0};
	return piece;
}

void tc_distribution_row(struct distribution *d, int columns, int warpgroups, int granule)
{
	int piece;

	memset(d, 0, sizeof *d);
	d->kind = DIST_ROW;
	piece = cut_columns(d, columns, warpgroups, granule);
	d->axis[1].vector = d->axis[1].step = d->axis[1].count = piece;
	d->axis[0].extent = WARPGROUP;
	d->axis[0].vector = d->axis[0].step = d->axis[0].count = 1;
	add_field(&d->axis[0], 0, WARPGROUP, 1);
}

void tc_distribution_halves(struct distribution *d, int columns, int warpgroups, int granule)
{
	int half = columns / 2, piece;

	memset(d, 0, sizeof *d);
	d->kind = DIST_HALVES;
	piece = cut_columns(d, half, warpgroups, granule);
	d->axis[1].extent = columns;
	d->axis[1].vector = d->axis[1].step = d->axis[1].count = piece;
	add_field(&d->axis[1], 6, 2, half);
	d->axis[0].extent = WARPGROUP / 2;
	d->axis[0].vector = d->axis[0].step = d->axis[0].count = 1;
	add_field(&d->axis[0], 0, WARPGROUP / 2, 1);
}

void tc_distribution_twice(struct distribution *d, int columns, int warpgroups, int granule)
{
	tc_distribution_row(d, columns, warpgroups, granule);
	d->axis[0].extent = WARPGROUP / 2;
	d->axis[0].field[0].values = WARPGROUP / 2;
}

void tc_distribution_mma(struct distribution *d, int columns, int warpgroups, int vector)
{
	struct axis_map *row = &d->axis[0], *column = &d->axis[1];
	int piece;

	memset(d, 0, sizeof *d);
	d->kind = DIST_MMA;
	piece = cut_columns(d, columns, warpgroups, 4 * vector);
	column->vector = vector;
	column->step = 4 * vector;
	column->count = piece / 4;
	add_field(column, 0, 4, vector);
	row->extent = 64;
	row->vector = 1;
	row->step = 8;
	row->count = 2;
	add_field(row, 2, 8, 1);
	add_field(row, 5, 4, 16);
}

static int power_of_two_from(int n)
{
	int p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* Fewer elements of a row a thread are not worth that warps meet for it. */
#define LEAST_ACROSS_WARPS 8

/* Threads along an axis that is reduced: of one warp, but of several where rows are too few. */
static int threads_reduced(int threads, int rows, int columns)
{
	int most = threads / power_of_two_from(rows);

	while (most > 32 && most * LEAST_ACROSS_WARPS > columns)
		most /= 2;
	return most > 32 ? most : 32;
}

void tc_distribution_linear(struct distribution *d, const int extent[2], int threads, int fast,
			    int vector, bool reduced)
{
	struct axis_map *f = &d->axis[fast], *s = &d->axis[1 - fast];
	int along = power_of_two_from((extent[fast] + vector - 1) / vector);
	int most = threads & -threads;
	int across;

	if (reduced && most > 32)
		most = threads_reduced(most, extent[1 - fast], extent[fast]);
	memset(d, 0, sizeof *d);
	d->kind = DIST_LINEAR;
	d->threads = threads;
	d->fast = fast;
	if (along > most)
		along = most;
	across = threads / along;
	f->extent = extent[fast];
	f->vector = vector;
	f->step = along * vector;
	f->count = (extent[fast] + f->step - 1) / f->step * vector;
	add_field(f, 0, along, vector);
	s->extent = extent[1 - fast];
	s->vector = 1;
	s->step = across;
	s->count = (s->extent + across - 1) / across;
	add_field(s, __builtin_ctz((unsigned)along), across, 1);
	d->replica = (struct thread_field){0, 1, 0};
}

static bool axis_equal(const struct axis_map *a, const struct axis_map *b)
{
	if (a->extent != b->extent || a->field_count != b->field_count || a->vector != b->vector ||
	    a->count != b->count)
		return false;
	if (a->count > a->vector && a->step != b->step)
		return false;
	return memcmp(a->field, b->field, (size_t)a->field_count * sizeof a->field[0]) == 0;
}

void tc_distribution_cut_rows(struct distribution *d, int warpgroups)
{
	add_field(&d->axis[0], 7, warpgroups, 64);
	d->axis[0].extent = 64 * warpgroups;
	d->threads = warpgroups * WARPGROUP;
}

bool tc_distribution_equal(const struct distribution *a, const struct distribution *b)
{
	return a->threads == b->threads && a->fast == b->fast &&
	       axis_equal(&a->axis[0], &b->axis[0]) && axis_equal(&a->axis[1], &b->axis[1]);
}

bool tc_distribution_alike(const struct distribution *a, const struct distribution *b,
			   const bool along[2])
{
	if (a->threads != b->threads || (along[0] && along[1] && a->fast != b->fast))
		return false;
	for (int i = 0; i < 2; i++)
		if (along[i] && !axis_equal(&a->axis[i], &b->axis[i]))
			return false;
	return true;
}

int tc_axis_offset(const struct axis_map *m, int j)
{
	return j / m->vector * m->step + j % m->vector;
}

int tc_axis_thread_limit(const struct axis_map *m)
{
	int most = 0;

	for (int i = 0; i < m->field_count; i++)
		most += (m->field[i].values - 1) * m->field[i].stride;
	return most;
}

int tc_axis_limit(const struct axis_map *m)
{
	return tc_axis_thread_limit(m) + tc_axis_offset(m, m->count - 1) + 1;
}
