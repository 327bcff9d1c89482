/*
 * What a kernel would do on a machine that is not here: a walk through the recorded ops with a
 * clock for each role, engine and barrier.
 */
#ifndef TCMMA_ESTIMATE_H
#define TCMMA_ESTIMATE_H

#include "tc.h"

struct machine {
	const char *target, *name;
	int sms;
	double mhz, tflops;
	double l2_bytes, dram_gbps;
	const char *source;
};
extern const struct machine tc_machines[];
extern const int tc_machine_count;
const struct machine *tc_machine_of(const struct target *t); /* NULL: none is modelled */

struct machine_cost {
#define COST(id, value, meaning) double id;
#include "estimate.def"
};
extern const struct machine_cost tc_cost;

enum estimate_path {
	PATH_DRAM, /* DRAM to L2 */
	PATH_L2,   /* L2 to SMEM */
	PATH_SMEM, /* SMEM to the tensor core */
	PATH_TMEM, /* TMEM to and from registers */
	PATH_OUT,  /* SMEM to L2 */
	PATH_COUNT
};
extern const char *const tc_path_names[PATH_COUNT];

/* Of one SM in the time that the kernel takes, unless it says otherwise. */
struct estimate {
	const struct machine *machine;
	int ctas_per_sm;
	const char *occupancy_limit; /* "SMEM", "TMEM", "threads" */
	int64_t ctas;                /* of the grid */
	double waves;
	double clocks;        /* of the kernel */
	double tensor_clocks; /* that MMAs occupy the tensor core */
	double full_clocks; /* that they would, were all its rows in use: of their FLOP at the peak
			     */
	double flop;        /* of the grid */
	double bytes[PATH_COUNT];
	double k_steps;          /* MMAs as recorded */
	double miss;             /* share of the bytes from L2 that come out of DRAM */
	double busy[PATH_COUNT]; /* share of the time that the path is in use */
	double tensor_busy;
	double utilization; /* of the peak at the nominal clock, throttling included */
	double tflops, peak_tflops,
		microseconds; /* the peak: of the kinds that it multiplies with */
	const char *bound;
};

/* Fails by tc_fail on `err` with the reason where there is no estimate. */
void tc_estimate(struct kern *k, const struct program *p, const struct machine *m, struct err *err,
		 struct arena *arena, struct estimate *out);

/* ---- estimate_walk.c: the ops that one role of one CTA runs, in their order ------------------ */

struct known {
	int64_t i;
	bool known;
};
struct walk_frame {
	const struct scope *scope;
	const struct op *next, *owner; /* owner: a range or loop that repeats the scope, or NULL */
	int64_t i, end, step;
};
struct walk {
	struct kern *kern;
	struct err *err;
	const struct role *role;
	int64_t axis[TC_MAX_RANK + 3]; /* of the grid, then of the cluster */
	struct known *leaf, *var;      /* by val id, by var id */
	struct {
		int stamp;
		struct known value;
	} * memo; /* by val id */
	int stamp;
	struct walk_frame frame[48];
	int depth;
	int64_t *steps; /* counted down; shared by all walks of an estimate */
};
/* Room for walks of a kernel; tc_walk_begin may be called again and again. */
void tc_walk_init(struct walk *w, struct kern *k, struct err *err, struct arena *arena,
		  const struct role *role, int64_t *steps);
void tc_walk_begin(struct walk *w, int64_t cluster, int rank);
const struct op *tc_walk_next(struct walk *w);                   /* NULL: the role has ended */
struct known tc_walk_value(struct walk *w, const struct val *v); /* NULL is 0 */
int64_t tc_walk_clusters(const struct kern *k);
/* What query_cluster_cancel gives: this cluster, or nothing (-1). */
void tc_walk_answer(struct walk *w, const struct query_cancel_op *q, int64_t cluster);
int64_t tc_ref_bytes(struct walk *w, const struct ref *r);
/* What this CTA asks L2 for. */
double tc_own_bytes(struct walk *w, const struct copy_op *o);

/* ---- estimate_cache.c -------------------------------------------------------------------------
 */

/* Share of the bytes of all copies into SMEM that L2 does not hold, `resident` clusters at a time.
 */
double tc_estimate_misses(struct kern *k, struct err *err, struct arena *arena, double l2_bytes,
			  int64_t resident);

/* ---- estimate_run.c ---------------------------------------------------------------------------
 */

/* Completes clocks, tensor_clocks, full_clocks, flop, bytes and k_steps. */
void tc_estimate_run(struct kern *k, struct err *err, struct arena *arena, struct estimate *e);

#endif
