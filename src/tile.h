/* The memory side of an access of a fragment: addresses and guards. */
#ifndef TCMMA_TILE_H
#define TCMMA_TILE_H

#include "frag.h"

enum tile_role {
	TILE_NONE,   /* the fragment has no index along this axis */
	TILE_LEAD,   /* an axis before the last two */
	TILE_ROW,    /* of the stored tile */
	TILE_COLUMN, /* contiguous */
};

/* Index tested against a GMEM dimension. */
struct tile_bound {
	bool checked;
	struct mopnd start, dim;
	struct interval range;
	int64_t size; /* -1: named */
};

/*
 * The memory side of one access of a fragment.  Elements of 4 bits are accessed two at a time, as
 * bytes, by a value and a distribution of bytes: tc_bytes_of.
 */
struct tile {
	struct low *l;
	const struct distribution *d;
	const char *space;
	int bits;
	int unit; /* elements of a byte, for types of 4 bits; else 1: what indices and sizes count
		   */
	bool along[2];
	enum tile_role role[2];
	int64_t lead_bytes[2];
	int aligned; /* units that memory's alignment allows at once */
	/* SMEM */
	struct smem_view view;
	struct mreg base;    /* of the tile, without its symbol's and its own offset */
	struct mreg counted; /* mbarrier of another CTA that counts what is stored, or none */
	struct mopnd row_start, column_start;
	int64_t row_offset, column_offset;
	/* GMEM */
	bool global;
	struct mreg address;
	struct mopnd stride[2]; /* bytes, 64 bits */
	struct tile_bound bound[2];
	/* guards: of the access, and by register along each axis */
	struct mreg guard;
	struct axis_guards {
		struct mreg *guard;
		bool *known;
	} guards[2];
};

/* lower_frag_address.c */
/* Largest power of two up to `most` that divides n. */
int tc_power_of_two_in(int64_t n, int most);
struct tile *tc_tile_new(struct low *l, const struct distribution *d, enum dtype dtype,
			 const bool along[2]);
struct tile *tc_tile_of(struct low *l, const struct ref *r, const struct distribution *d,
			const bool along[2], int vector_axis);
/* Address of the thread's element whose registers stand for these offsets. */
struct maddr tc_tile_address(struct tile *t, const int off[2]);
/* True where registers j hold an element that exists; id 0: in every thread. */
struct mreg tc_tile_guard(struct tile *t, const int j[2]);

/* The value in the same registers, with two elements of 4 bits as one of 8; its threads have two
 * neighbours at least. */
struct frag_value *tc_bytes_of(struct low *l, const struct frag_value *v);

/* lower_frag_memory.c */
/* Elements one instruction may move: contiguous in memory and in registers, and whole registers,
 * else one. */
int tc_tile_width(const struct tile *t, const struct frag_value *v);
/* One access: elements of a value from `element` on, at an address, where the guard holds. */
struct tile_access {
	struct maddr address;
	struct mreg guard; /* id 0: everywhere */
	int element, width;
};
typedef void tile_access_fn(struct tile *t, struct frag_value *v, const struct tile_access *a,
			    void *arg);
/* Calls fn for all accesses of the thread, `width` elements each. */
void tc_tile_accesses(struct tile *t, struct frag_value *v, int width, tile_access_fn *fn,
		      void *arg);

/* lower_atomic.c */
struct atomic_update;
/* red or atom of an element, or of `words` registers of 32 bits; 0: one element of 16 bits. */
const char *tc_atomic_opcode(struct low *l, const struct atomic_update *u, const char *verb,
			     const char *space, enum dtype t, int words);

#endif
