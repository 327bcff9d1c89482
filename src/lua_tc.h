/*
 * The border between Lua and the core: only lua_*.c include this and lua.h.
 *
 * Rules of the border:
 *  - A C function first turns its Lua arguments into C values (every argument
 *    checked here or by check.c), then calls the core through tc_call.  No Lua
 *    function is called inside the core.
 *  - A public function has its documentation beside it, in a string whose first
 *    line is its signature; tc_functions registers both.  help(), the manual and
 *    the editor stubs are made from these strings.
 *  - Objects are full userdata made by tc_new_object; children keep their
 *    parents alive through user values.
 */
#ifndef TCMMA_LUA_TC_H
#define TCMMA_LUA_TC_H

#include "tc.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

/* Class names: what luaL_checkudata and error messages show. */
#define TC_REF       "tcmma.ref"
#define TC_SLICE     "tcmma.slice"
#define TC_BARRIER   "tcmma.barrier"
#define TC_SCALAR    "tcmma.scalar"
#define TC_FRAGMENT  "tcmma.fragment"
#define TC_VAR       "tcmma.var"
#define TC_ROLE      "tcmma.role"
#define TC_KERNEL    "tcmma.kernel"
#define TC_DTYPE     "tcmma.dtype"
#define TC_SPACE     "tcmma.space"
#define TC_GMEM      "tcmma.gmem"
#define TC_ARRAY     "tcmma.array"
#define TC_DEVICE    "tcmma.device"
#define TC_MODULE    "tcmma.module"
#define TC_FUNCTION  "tcmma.function"
#define TC_TENSORMAP "tcmma.tensormap"

struct tc_function {
	const char *name;
	lua_CFunction function;
	/*
	 * "name(a: Ref, b?: integer) -> Array\n" and then Markdown: what it does, shapes,
	 * dtypes, units, errors raised, source.  Types as in LuaCATS.
	 */
	const char *doc;
};

/* lua_class.c */

/* Adds the functions of a NULL-terminated list to the table on top of the stack;
 * `owner` ("tcmma", "tcmma.array") files their documentation. */
void tc_functions(lua_State *L, const char *owner, const struct tc_function *list);
/*
 * Makes the metatable of a class, with the table of its methods as __methods.  What is no method
 * is asked of `field` (NULL: there are none), which pushes the value and returns 1, or returns 0:
 * then indexing raises, with the nearest of the methods and of the `---@field` names of `doc`,
 * which describes the class.  Leaves nothing on the stack.
 */
void tc_class(lua_State *L, const char *name, const char *doc, const struct tc_function *methods,
	      const luaL_Reg *meta, int (*field)(lua_State *L));
/* The entry of a C function, and whose it is; NULL if it is not registered. */
const struct tc_function *tc_find_function(lua_State *L, lua_CFunction f, const char **owner);
/* Pushes "did you mean 'a' or 'b'?", or "ALL: a, b, c" where no name of the list is near. */
const char *tc_push_advice(lua_State *L, const char *word, const char *const *names,
			   const char *all);

/* lua_shown.c */

/* tostring of the table on top shows its values, in one line. */
void tc_set_shown(lua_State *L);
/* Pushes the first line of a text, cut after so many bytes. */
void tc_push_start(lua_State *L, const char *text, int longest);

/* lua_aux.c */

/* New userdata of a class, zeroed, with n user values. */
void *tc_new_object(lua_State *L, const char *name, size_t size, int uservalues);
/* Like luaL_checkudata, but a wrong self names `method` and the colon. */
void *tc_check_object(lua_State *L, int arg, const char *name);
void *tc_test_object(lua_State *L, int arg, const char *name);
/* "integer 5", "string \"f16\"", "tcmma.ref (smem f16[...])": what an argument is. */
const char *tc_describe(lua_State *L, int index);

/* Position of the user: first frame that is not in tcmma's own Lua files. */
void tc_position(lua_State *L, struct srcpos *pos);
/* Pushes "file:line", or "the prompt". */
const char *tc_push_place(lua_State *L, struct srcpos pos);
/* luaL_error at the user's position. */
int tc_error(lua_State *L, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "bad argument #2 to 'mma' (...)" at the user's position. */
int tc_argerror(lua_State *L, int arg, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Raises what the core left in e. */
int tc_raise(lua_State *L, struct err *e);
/* Runs fn(arg) under e, with e->pos set to the user's line, and raises on failure. */
void tc_call(lua_State *L, struct err *e, void (*fn)(void *), void *arg);
/* A documented message (errors.def) that needs no kernel, at the user's position: text[0] are
 * further lines, the others the words of the message. */
int tc_raise_documented(lua_State *L, enum tc_error id, const char *const *text);
#define tc_documented_error(L, id, ...)                                                            \
	tc_raise_documented(L, ERROR_##id, (const char *const[]){__VA_ARGS__, NULL})
/* The environment's mistake: pushes nil, message, code and returns 3. */
int tc_failure(lua_State *L, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Options table at `arg` (absent or nil is fine): unknown keys are errors with a
 * near miss.  `names` is NULL-terminated.  True when there is a table. */
bool tc_options(lua_State *L, int arg, const char *const *names);
/* Fields of an options table; absent or nil gives the default. */
bool tc_option_boolean(lua_State *L, int arg, const char *name, bool standard);
lua_Integer tc_option_integer(lua_State *L, int arg, const char *name, lua_Integer standard,
			      lua_Integer low, lua_Integer high);
const char *tc_option_string(lua_State *L, int arg, const char *name, const char *standard);
/* One of a NULL-terminated list of words, NULL where the option is absent. */
const char *tc_option_word(lua_State *L, int arg, const char *name, const char *const *words);
/* Pushes the list: "a", "b", "c". */
const char *tc_push_words(lua_State *L, const char *const *words);
/* Fields of the table on top. */
void tc_set_integer(lua_State *L, const char *name, int64_t value);
void tc_set_number(lua_State *L, const char *name, double value);
void tc_set_string(lua_State *L, const char *name, const char *value);
/* Pushes the field and says whether it is there (pushes nothing if not). */
bool tc_option_push(lua_State *L, int arg, const char *name);

/* A string that C can take whole: without a zero byte. */
bool tc_is_text(lua_State *L, int index);

/* An integer argument in [low, high]; floats with integral values count. */
lua_Integer tc_check_integer(lua_State *L, int arg, lua_Integer low, lua_Integer high);
/* A dtype object, its name or its short name. */
enum dtype tc_check_dtype(lua_State *L, int arg);
/* The field of an options table; absent gives the default. */
void tc_push_dtype(lua_State *L, enum dtype t);
/* A space object or its name, "SMEM" or "smem". */
enum space tc_check_space(lua_State *L, int arg);
void tc_push_space(lua_State *L, enum space s);
/* Shape {128, 64}: integers >= low; returns the rank. */
int tc_check_shape(lua_State *L, int arg, int64_t *shape, int max_rank, int64_t low);
/* The same of the list on top, which is `what` of that argument. */
int tc_check_sizes(lua_State *L, int arg, const char *what, int64_t *size, int max_rank,
		   int64_t low);

/* Each adds its part to the module table on top of the stack (lua_core.c calls them). */
void tc_open_class(lua_State *L);    /* lua_class.c */
void tc_open_dtype(lua_State *L);    /* lua_dtype.c: dtypes and spaces */
void tc_open_array(lua_State *L);    /* lua_array.c */
void tc_open_host(lua_State *L);     /* lua_host.c: randn, allclose ... */
void tc_open_quantize(lua_State *L); /* lua_quantize.c: block-scaled and sparse operands */
void tc_open_device(lua_State *L);   /* lua_dev.c */
void tc_open_module(lua_State *L);   /* lua_module.c: tc.ptx, tc.cuda, tensormap */
void tc_open_kernel(lua_State *L);   /* lua_kern.c: class of kernels */
void tc_open_record(lua_State *L);   /* lua_record.c: kernel, record */
/* Ends the open recording, or says at which line it is at fault. */
void tc_finish_recording(lua_State *L);
void tc_open_ref(lua_State *L);      /* lua_ref.c */
void tc_open_barrier(lua_State *L);  /* lua_barrier.c */
void tc_open_control(lua_State *L);  /* lua_control.c: roles, range, when */
void tc_open_var(lua_State *L);      /* lua_var.c */
void tc_open_axis(lua_State *L);     /* lua_axis.c */
void tc_open_scalar(lua_State *L);   /* lua_scalar.c */
void tc_open_fragment(lua_State *L); /* lua_frag.c */
void tc_open_op(lua_State *L);       /* lua_op.c: mma, copies, TMEM, prints */
void tc_open_schedule(lua_State *L); /* lua_schedule.c: work between CTAs, kernels */
void tc_open_launch(lua_State *L);   /* lua_launch.c: methods of a kernel that run it */

/* lua_dev.c */
struct device;
/* The device that new arrays live on; opens the default at first use, raises when it cannot. */
struct device *tc_current_device(lua_State *L);
/* The target of the current device, which stays open to choice; NULL where there is none. */
const struct target *tc_likely_target(lua_State *L);
/* A device object or its name: the device; raises when this machine lacks it. */
struct device *tc_to_device(lua_State *L, int arg);
void tc_push_device(lua_State *L, struct device *d);
/* Memory on d, after a full collection and a second try where the first fails; raises. */
uint64_t tc_device_alloc(lua_State *L, struct device *d, uint64_t bytes, const char *name);

/* lua_kern.c: the recording that is open in this state; raises when none is. */
struct kern *tc_current_kernel(lua_State *L);
/* The kernel behind a userdata; raises if `arg` is none. */
struct kern *tc_check_kernel(lua_State *L, int arg);

/*
 * The userdata of a kernel.  User value 1: the function that gives the grid at
 * launch, or nil; 2: the table of arrays that ref:peek was last given, or nil;
 * 3: the guard of the innermost block whose callback runs, or nil.
 */
struct lua_kernel {
	struct kern *kern;   /* NULL once closed */
	struct guard *guard; /* of the innermost block; lua_recording.c's */
	void *programs;      /* lua_launch.c's: freed by its function when the kernel goes */
	void (*free_programs)(void *programs);
	int holds;           /* a report is being made of names and lines that belong to it */
	struct kern *closed; /* while they lasted; goes with the last one */
};
/* The kernel of a checked object; an error if it was closed. */
struct kern *tc_live_kernel(lua_State *L, struct lua_kernel *owner);
#define TC_KERNEL_GRID  1
#define TC_KERNEL_PEEK  2
#define TC_KERNEL_GUARD 3

/*
 * Anything that belongs to a recording: ref, barrier, scalar, fragment, var, role,
 * union.  User value 1 is the kernel.
 */
struct lua_recorded {
	struct lua_kernel *owner;
	void *item; /* struct ref *, barrier_ref *, val *, frag *, var *, role * ... */
};
#define TC_UNION "tcmma.union"

/* lua_recording.c */

/* The open recording; NULL when there is none. */
struct lua_kernel *tc_open_recording(lua_State *L);
void tc_push_open_recording(lua_State *L); /* nil if there is none */
/* Makes the kernel at `index` the open recording; 0: none is open. */
void tc_set_open_recording(lua_State *L, int index);
/* Raises when a recording is open that somebody still holds. */
void tc_check_none_open(lua_State *L);
/* Frees the kernel and its programs. */
void tc_release_kernel(struct lua_kernel *owner);
/* What is closed in between, as by a finalizer, stays until tc_drop_kernel. */
void tc_hold_kernel(struct lua_kernel *owner);
void tc_drop_kernel(struct lua_kernel *owner);
/* Like tc_push_guard, but the whole kernel at `kernel_index` goes when the block fails. */
bool *tc_push_kernel_guard(lua_State *L, int kernel_index);
void tc_open_recordings(lua_State *L);

/* New object of the open recording, on top of the stack. */
void tc_push_recorded(lua_State *L, const char *class_name, void *item);
/* The same of the kernel at an index, open or not. */
void tc_push_part(lua_State *L, int kernel_index, const char *class_name, void *item);
/* The same of the recording that the object at `index` belongs to, open or not. */
void tc_push_related(lua_State *L, int index, const char *class_name, void *item);
/* The item at `arg`; raises unless it is of that class and of the open recording. */
void *tc_check_recorded(lua_State *L, int arg, const char *class_name);
/* The same, but NULL when it is of another class. */
void *tc_test_recorded(lua_State *L, int arg, const char *class_name);
/* To read from: the recording may be finished. */
void *tc_read_recorded(lua_State *L, int arg, const char *class_name, struct kern **k);
/* tc_class, with a __tostring that knows objects of closed kernels, and an __index that tries
 * methods, then `field` (stack: object, key; pushes and returns 1, or returns 0), then raises. */
void tc_recorded_class(lua_State *L, const char *name, const char *doc,
		       const struct tc_function *methods, const luaL_Reg *meta,
		       int (*field)(lua_State *L));
/* Runs fn(arg) on the open recording, which is as before when it fails. */
void tc_record_call(lua_State *L, void (*fn)(struct kern *k, void *arg), void *arg);
/* The same on the kernel k, open or not, to make text. */
void tc_text_call(lua_State *L, struct kern *k, void (*fn)(struct kern *k, void *arg), void *arg);
/* Pushes two values: the kernel, and a to-be-closed guard that takes the recording back to this
 * point unless it is told that all went well; returns what to set to true then. */
bool *tc_push_guard(lua_State *L);

/* lua_peek.c: ref:peek, a method of refs */
extern const char tc_peek_doc[];
int tc_ref_peek(lua_State *L);

/* Elements of an array: products of sizes cannot overflow. */
#define TC_LARGEST_ARRAY (INT64_C(1) << 46)

/* lua_alloc.c */
void tc_open_alloc(lua_State *L);
/* tc.gmem(shape, dtype).  User value 1 holds the names. */
struct lua_gmem {
	enum dtype dtype;
	int rank;
	int64_t size[TC_MAX_RANK]; /* -1: named */
	const char *name[TC_MAX_RANK];
};

/* lua_scalar.c: a Lua value as an operand. */
struct lua_value {
	char kind;     /* 'i' integer, 'f' float, 'b' boolean, 'v' scalar, 't' fragment, 0 none */
	bool integral; /* 'f': `i` has the same value */
	int64_t i;
	double f;
	struct val *val;
	struct frag *frag;
};
bool tc_read_value(lua_State *L, int arg, struct lua_value *v);
/* An integer or a recorded s32; check: raises with `what` ("index"). */
bool tc_test_index_value(lua_State *L, int arg, struct lua_value *v);
void tc_check_index_value(lua_State *L, int arg, struct lua_value *v, const char *what);
/* A boolean or a recorded predicate. */
void tc_check_condition(lua_State *L, int arg, struct lua_value *v);
/* Any of them, or raises. */
void tc_check_value(lua_State *L, int arg, struct lua_value *v);
/* In the core: the value as a node ('i', 'f', 'b', 'v'). */
struct val *tc_value_node(struct kern *k, const struct lua_value *v);
void tc_push_scalar(lua_State *L, struct val *v);
int tc_raise_power(lua_State *L); /* the metamethod __pow */

/* lua_ref.c: what is stored, or atomically combined with memory. */
/* In the core: the shape of a fragment as large as a ref of GMEM or SMEM. */
void tc_fragment_shape(struct kern *k, const struct ref *r, int shape[2]);
/* In the core: the value as one element of that type. */
struct val *tc_element_value(struct kern *k, const struct lua_value *v, enum dtype t);

/* lua_atomic.c */
void tc_open_atomic(lua_State *L);

/* lua_op.c: an option that names cluster axes, one string or a list; false if absent. */
struct lua_axes {
	int count;
	const char *name[3];
};
bool tc_option_axes(lua_State *L, int arg, const char *option, struct lua_axes *axes);

/* lua_frag.c: the operator between values of which one is a fragment. */
int tc_fragment_operator(lua_State *L, enum frag_op op, int count);

/* lua_array.c: an array of a device. */
struct array {
	struct device *device;
	enum dtype dtype;
	int rank;
	int64_t shape[TC_MAX_RANK];
	int64_t elements, bytes;
	uint64_t address;    /* on the device; 0 once freed */
	struct array *owner; /* whose memory a view shares; NULL: its own */
};
/* A live array: raises on one that was freed, or whose device is closed. */
struct array *tc_check_array(lua_State *L, int arg);
/* The array is not freed, and its device not closed. */
void tc_check_live(lua_State *L, const struct array *a);
/* A new, undefined array on a device; raises on failure. */
struct array *tc_new_array_on(lua_State *L, struct device *d, enum dtype t, int rank,
			      const int64_t *shape);
/* The device of the option, else the current one. */
struct device *tc_option_device(lua_State *L, int arg, const char *name);
/*
 * The contents, to read only; pushes one value.  They may be those of the device: good until Lua
 * allocates again, which may run a finalizer that frees the array.
 */
const void *tc_array_data(lua_State *L, const struct array *a);
/* The same, good as long as the value that it pushes. */
const void *tc_array_copy(lua_State *L, const struct array *a);
/* Memory for new contents of the array, on the stack; then tc_array_write copies it there. */
void *tc_array_stage(lua_State *L, const struct array *a);
/*
 * The same for all of the contents of an array that nothing else reads meanwhile: the device's own
 * memory where the host sees it, good as long as tc_check_live says so.  Its last byte is zero.
 */
void *tc_array_open(lua_State *L, const struct array *a);
void tc_array_write(lua_State *L, const struct array *a, const void *data);
/* tc.full outside of a recording: full(shape, value, dtype, opts?) -> array. */
int tc_array_full(lua_State *L);
/* Pushes "f16[512, 512]". */
const char *tc_array_text(lua_State *L, const struct array *a);

/* lua_values.c: values of Lua in and out of arrays; the methods for them. */
void tc_open_values(lua_State *L);
/* The bits of a number or boolean at an index; false if it is none for that type. */
bool tc_element_from_lua(lua_State *L, int index, enum dtype t, uint64_t *bits);
void tc_push_element(lua_State *L, enum dtype t, uint64_t bits);

#endif
