/* Boxes of tensor maps: which bytes of global memory meet which of shared memory (8.2). */
#include "tensor.h"

#include "number.h"

#include <string.h>

/* No shared memory holds as many; their bytes can be counted in 32 bits. */
enum {
	most_rows = 1 << 18
};

/*
 * In an interleaved layout dimension 0 is the width, the last but one counts slices of 16 or 32
 * bytes of channels, and memory holds a slice a pixel.  A box has one slice.
 */
static uint32_t unit_bits(const struct emu_tensormap *map)
{
	return map->interleave ? 128u * (uint32_t)map->interleave
			       : (uint32_t)emu_tensormap_element_bits(map->type);
}

/* The step of a box along dimension i. */
static uint32_t step(const struct emu_tensormap *map, int i)
{
	return i == 0 && !map->interleave ? 1 : map->element_strides[i];
}

static bool is_slice(const struct emu_tensormap *map, int i)
{
	return map->interleave && i == map->rank - 2;
}

static bool padded(const struct emu_tensormap *map)
{
	return map->type == EMU_TM_16U4_ALIGN16B || map->type == EMU_TM_16U6_ALIGN16B;
}

/* Rows shorter than what the swizzle spans begin a span each. */
static uint32_t pitch(const struct emu_tensormap *map, uint32_t row)
{
	static const uint32_t spans[] = {0, 32, 64, 128, 128, 128, 128};
	uint32_t span = map->swizzle < EMU_TM_SWIZZLE_96 ? spans[map->swizzle] : 0;

	return !map->interleave && row < span ? span : row;
}

static void shape_rows(const struct emu_tensormap *map, struct emu_box *box)
{
	box->unit_bits = unit_bits(map);
	box->row_global = box->count[0] * box->unit_bits / 8;
	box->row_shared = padded(map) ? box->count[0] : box->row_global;
	box->row_pitch = pitch(map, box->row_shared);
	box->footprint = (box->rows - 1) * box->row_pitch + box->row_shared;
	box->transaction = box->rows * box->row_global;
}

void emu_box_shape(const struct emu_tensormap *map, struct emu_box *box)
{
	uint64_t rows = 1;

	for (int i = 0; i < EMU_MAX_RANK; i++) {
		box->count[i] = i < map->rank && !is_slice(map, i)
					? (map->box[i] + step(map, i) - 1) / step(map, i)
					: 1;
		if (i > 0)
			rows *= box->count[i];
	}
	box->rows = rows < most_rows ? (uint32_t)rows : most_rows;
	shape_rows(map, box);
}

/* Clips `count` elements from coordinate c on to [0, dim). */
static void clip(int64_t c, uint32_t count, uint32_t stride, uint64_t dim, uint32_t *first,
		 uint32_t *inside)
{
	int64_t low = c < 0 ? (-c + stride - 1) / stride : 0;
	int64_t high = c >= (int64_t)dim ? 0 : ((int64_t)dim - c + stride - 1) / stride;

	if (low > count)
		low = count;
	if (high > count)
		high = count;
	*first = (uint32_t)low;
	*inside = high > low ? (uint32_t)(high - low) : 0;
}

static uint64_t element_address(const struct emu_tensormap *map, uint64_t row, int64_t column)
{
	return row + (uint64_t)(column * (int64_t)unit_bits(map) / 8);
}

bool emu_box_walk(const struct emu_tensormap *map, const int32_t *coordinates,
		  emu_box_visitor *visit, void *context)
{
	struct emu_box box;
	struct emu_box_row row = {0};
	uint32_t first, inside, index[EMU_MAX_RANK] = {0};

	emu_box_shape(map, &box);
	row.step = step(map, 0);
	clip(coordinates[0], box.count[0], row.step, map->dims[0], &first, &inside);
	for (uint32_t n = 0; n < box.rows; n++) {
		uint64_t base = map->address;
		bool outside = false;

		for (int i = 1; i < map->rank; i++) {
			int64_t c = (int64_t)coordinates[i] + (int64_t)index[i] * step(map, i);
			outside |= c < 0 || c >= (int64_t)map->dims[i];
			base += (uint64_t)c * map->strides[i - 1];
		}
		row.offset = n * box.row_pitch;
		row.first = first;
		row.inside = outside ? 0 : inside;
		row.address =
			element_address(map, base, coordinates[0] + (int64_t)first * step(map, 0));
		if (!visit(context, &row))
			return false;
		for (int i = 1; i < map->rank && ++index[i] == box.count[i]; i++)
			index[i] = 0;
	}
	return true;
}

bool emu_box_walk_rows(const struct emu_tensormap *map, const int32_t coordinates[5],
		       emu_box_visitor *visit, void *context)
{
	struct emu_box box;
	struct emu_box_row row = {0};
	uint32_t first, inside;

	emu_box_shape(map, &box);
	row.step = 1;
	clip(coordinates[0], box.count[0], 1, map->dims[0], &first, &inside);
	for (int n = 0; n < 4; n++) {
		int64_t c = coordinates[1 + n];

		row.offset = (uint32_t)n * box.row_pitch;
		row.first = first;
		row.inside = c < 0 || c >= (int64_t)map->dims[1] ? 0 : inside;
		row.address = element_address(map, map->address + (uint64_t)c * map->strides[0],
					      coordinates[0] + (int64_t)first);
		if (!visit(context, &row))
			return false;
	}
	return true;
}

/* ---- im2col (8.2) ------------------------------------------------------------------- */

static bool wide(const struct emu_tensormap *map)
{
	return map->mode != EMU_TM_IM2COL;
}

int emu_box_width(const struct emu_tensormap *map)
{
	return map->interleave ? 0 : 1;
}

void emu_box_shape_pixels(const struct emu_tensormap *map, const struct emu_pixels *pixels,
			  struct emu_box *box)
{
	uint32_t units = map->interleave ? 1 : map->channels;

	*box = (struct emu_box){.count = {units, 1, 1, 1, 1}, .rows = map->pixels};
	if (map->mode == EMU_TM_IM2COL_W)
		box->rows += pixels->offsets[0];
	if (map->mode == EMU_TM_IM2COL_W128)
		box->rows = 128 + 4 * pixels->offsets[0];
	shape_rows(map, box);
}

/* A walk over pixels: the position in the box, without the offsets of the filter. */
struct walk {
	const struct emu_tensormap *map;
	int64_t at[EMU_MAX_RANK];
	int64_t shift[EMU_MAX_RANK]; /* of what is read against the position */
	struct emu_box box;
	struct emu_box_row row;
	uint32_t first, inside;
	emu_box_visitor *visit;
	void *context;
};

/* The pixel at the position, `beyond` steps further along the width; the next row of the copy. */
static bool visit_pixel(struct walk *w, uint32_t beyond)
{
	const struct emu_tensormap *map = w->map;
	uint64_t base = map->address;
	int64_t column = w->at[0] + w->first;
	bool outside = false;

	for (int i = emu_box_width(map); i < map->rank; i++) {
		int64_t c = w->at[i] + w->shift[i];

		if (wide(map) && i == 1)
			c += (int64_t)beyond * map->element_strides[1];
		outside |= c < 0 || c >= (int64_t)map->dims[i];
		if (i == 0)
			column = c;
		else
			base += (uint64_t)c * map->strides[i - 1];
	}
	w->row.first = w->first;
	w->row.inside = outside ? 0 : w->inside;
	w->row.address = element_address(map, base, column);
	if (!w->visit(w->context, &w->row))
		return false;
	w->row.offset += w->box.row_pitch;
	return true;
}

/* Width first, then height and depth where they take part, then the next image. */
static void next_pixel(struct walk *w)
{
	const struct emu_tensormap *map = w->map;
	int turning = wide(map) ? 1 : map->rank - 2;

	for (int corner = 0; corner < turning; corner++) {
		int i = emu_box_width(map) + corner;

		w->at[i] += map->element_strides[i];
		if (w->at[i] <= (int64_t)map->dims[i] - 1 + map->upper[corner])
			return;
		w->at[i] = map->lower[corner];
	}
	w->at[map->rank - 1]++;
}

bool emu_box_walk_pixels(const struct emu_tensormap *map, const struct emu_pixels *pixels,
			 emu_box_visitor *visit, void *context)
{
	struct walk w = {.map = map, .row.step = 1, .visit = visit, .context = context};
	uint32_t count = map->mode == EMU_TM_IM2COL_W128 ? 128 : map->pixels;
	uint32_t halo = wide(map) ? pixels->offsets[0] : 0;
	uint32_t run = map->mode == EMU_TM_IM2COL_W128 ? 32 : count;

	emu_box_shape_pixels(map, pixels, &w.box);
	for (int i = 0; i < map->rank; i++)
		w.at[i] = pixels->coordinates[i];
	if (wide(map))
		w.shift[1] = pixels->offsets[1];
	for (int i = 0; !wide(map) && i < map->rank - 2; i++)
		w.shift[emu_box_width(map) + i] = pixels->offsets[i];
	if (map->interleave)
		w.inside = 1;
	else
		clip(w.at[0], w.box.count[0], 1, map->dims[0], &w.first, &w.inside);
	for (uint32_t n = 1; n <= count; n++) {
		if (!visit_pixel(&w, 0))
			return false;
		for (uint32_t h = 1; n % run == 0 && h <= halo; h++)
			if (!visit_pixel(&w, h))
				return false;
		next_pixel(&w);
	}
	return true;
}

/* Payload bytes of a padded 16-byte unit: 8 for fp4, 12 for fp6. */
static uint32_t payload(const struct emu_tensormap *map)
{
	return (uint32_t)emu_tensormap_element_bits(map->type) * 2;
}

void emu_box_unpack_row(const struct emu_tensormap *map, const struct emu_box *box,
			const uint8_t *packed, uint8_t *shared)
{
	uint32_t bytes = payload(map);

	if (!padded(map)) {
		memcpy(shared, packed, box->row_global);
		return;
	}
	for (uint32_t u = 0; u * 16 < box->row_shared; u++) {
		memcpy(shared + u * 16, packed + u * bytes, bytes);
		memset(shared + u * 16 + bytes, 0, 16 - bytes);
	}
}

void emu_box_pack_row(const struct emu_tensormap *map, const struct emu_box *box,
		      const uint8_t *shared, uint8_t *packed)
{
	uint32_t bytes = payload(map);

	if (!padded(map)) {
		memcpy(packed, shared, box->row_global);
		return;
	}
	for (uint32_t u = 0; u * 16 < box->row_shared; u++)
		memcpy(packed + u * bytes, shared + u * 16, bytes);
}

/* The types that flush do so in reductions; a load moves subnormals as they are. */
void emu_box_convert(int type, uint8_t *bytes, uint32_t size)
{
	if (type != EMU_TM_TF32 && type != EMU_TM_TF32_FTZ)
		return;
	for (uint32_t i = 0; i + 4 <= size; i += 4) {
		uint32_t word;
		float value;

		memcpy(&word, bytes + i, 4);
		value = emu_f32_of_bits(word);
		word = value == value ? emu_bits_of_f32(emu_tf32_round(value)) : 0x7fffe000;
		memcpy(bytes + i, &word, 4);
	}
}

void emu_box_fill(const struct emu_tensormap *map, uint8_t *bytes, uint32_t size)
{
	if (!map->oob_fill) {
		memset(bytes, 0, size);
		return;
	}
	/* A NaN of every type, that fma.oob knows. */
	for (uint32_t i = 0; i < size; i += 2)
		memcpy(bytes + i, (const uint8_t[]){0xf7, 0x7f}, 2);
}

uint32_t emu_box_swizzle(int swizzle, uint32_t address)
{
	uint32_t line = address >> 7;

	switch (swizzle) {
	case 1:
	case EMU_TM_SWIZZLE_96:
		return address ^ (line & 1) << 4;
	case 2:
		return address ^ (line & 3) << 4;
	case 3:
		return address ^ (line & 7) << 4;
	case 4:
		return address ^ (line & 3) << 5;
	case 5:
		return address ^ (line & 3) << 5 ^ (line & 1) << 3;
	case 6:
		return address ^ (line & 1) << 6;
	default:
		return address;
	}
}

uint32_t emu_box_swizzle_run(int swizzle)
{
	static const uint32_t run[] = {128, 16, 16, 16, 32, 8, 64, 16};

	return run[swizzle];
}
