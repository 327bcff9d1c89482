---@meta tcmma
-- Made by tools/docs.lua from the documentation in the code, for editors; never loaded.

---@alias DType tcmma.dtype|string
---@alias Array tcmma.array
---@alias Barrier tcmma.barrier
---@alias Device tcmma.device
---@alias Event tcmma.event
---@alias Fragment tcmma.fragment
---@alias Function tcmma.function
---@alias Gmem tcmma.gmem
---@alias Info tcmma.info
---@alias Kernel tcmma.kernel
---@alias Module tcmma.module
---@alias Ref tcmma.ref
---@alias Report tcmma.report
---@alias Role tcmma.role
---@alias Scalar tcmma.scalar
---@alias Slice tcmma.slice
---@alias Space tcmma.space
---@alias Stream tcmma.stream
---@alias Tensormap tcmma.tensormap
---@alias Union tcmma.union
---@alias Var tcmma.var
---@alias AutotuneOptions table
---@alias MatmulOptions table

---@class tcmma
local tc = {}

---@type tcmma.dtype
tc.float64 = nil
---@type tcmma.dtype
tc.f64 = nil
---@type tcmma.dtype
tc.float32 = nil
---@type tcmma.dtype
tc.f32 = nil
---@type tcmma.dtype
tc.tfloat32 = nil
---@type tcmma.dtype
tc.tf32 = nil
---@type tcmma.dtype
tc.float16 = nil
---@type tcmma.dtype
tc.f16 = nil
---@type tcmma.dtype
tc.bfloat16 = nil
---@type tcmma.dtype
tc.bf16 = nil
---@type tcmma.dtype
tc.float8_e4m3fn = nil
---@type tcmma.dtype
tc.e4m3 = nil
---@type tcmma.dtype
tc.float8_e5m2 = nil
---@type tcmma.dtype
tc.e5m2 = nil
---@type tcmma.dtype
tc.float8_e8m0fnu = nil
---@type tcmma.dtype
tc.e8m0 = nil
---@type tcmma.dtype
tc.float6_e2m3fn = nil
---@type tcmma.dtype
tc.e2m3 = nil
---@type tcmma.dtype
tc.float6_e3m2fn = nil
---@type tcmma.dtype
tc.e3m2 = nil
---@type tcmma.dtype
tc.float4_e2m1fn = nil
---@type tcmma.dtype
tc.e2m1 = nil
---@type tcmma.dtype
tc.int64 = nil
---@type tcmma.dtype
tc.i64 = nil
---@type tcmma.dtype
tc.uint64 = nil
---@type tcmma.dtype
tc.u64 = nil
---@type tcmma.dtype
tc.int32 = nil
---@type tcmma.dtype
tc.i32 = nil
---@type tcmma.dtype
tc.uint32 = nil
---@type tcmma.dtype
tc.u32 = nil
---@type tcmma.dtype
tc.int16 = nil
---@type tcmma.dtype
tc.i16 = nil
---@type tcmma.dtype
tc.uint16 = nil
---@type tcmma.dtype
tc.u16 = nil
---@type tcmma.dtype
tc.int8 = nil
---@type tcmma.dtype
tc.i8 = nil
---@type tcmma.dtype
tc.uint8 = nil
---@type tcmma.dtype
tc.u8 = nil
---@type tcmma.dtype
tc.int4 = nil
---@type tcmma.dtype
tc.i4 = nil
---@type tcmma.dtype
tc.uint4 = nil
---@type tcmma.dtype
tc.u4 = nil
---@type tcmma.dtype
tc.uint2 = nil
---@type tcmma.dtype
tc.u2 = nil
---@type tcmma.dtype
tc.bool = nil
---@type tcmma.dtype
tc.b1 = nil
---@type tcmma.dtype
tc.s64 = nil
---@type tcmma.dtype
tc.s32 = nil
---@type tcmma.dtype
tc.s16 = nil
---@type tcmma.dtype
tc.s8 = nil
---@type tcmma.space
tc.GMEM = nil
---@type tcmma.space
tc.SMEM = nil
---@type tcmma.space
tc.TMEM = nil

---Absolute value, by elements.
---@param x number|Scalar|Fragment
---@return number|Scalar|Fragment
function tc.abs(x) end

---Whether |a - b| <= atol + rtol |b| for every element, computed in double. `b` is the reference;
---the types may differ. `rtol` is two units in the last place of the coarser type unless given,
---at least 1e-5; `atol` is 1e-5. NaN equals NaN only with `equal_nan`.
---
---The second result says how far they are apart: `max_abs_error` and `index`, its coordinates
---(from 0), with the values `a` and `b` there; `max_rel_error`; `relative_rms`, the root mean
---square of the error over that of `b`; `mismatches`, `nan_mismatches` and `first_mismatch`
---(coordinates, nil when there is none); `rtol`, `atol`, `elements`. `tostring` sums it up.
---@param a tcmma.array
---@param b tcmma.array
---@param opts? {rtol?: number, atol?: number, equal_nan?: boolean}
---@return boolean
---@return table
function tc.allclose(a, b, opts) end

---Allocates shared or tensor memory for the kernel that is being recorded.
---
---SMEM takes `swizzle` (128, 64, 32, "128B_atom_32B", which float32 operands stored with K first need, or "none"; default: the largest that divides a row) and `padded` (float4_e2m1fn: 16 elements fill 16 bytes, as a tc.mma with 8- or 6-bit elements, or without scales, wants them; in TMEM, as A of such a tc.mma, also float6_e3m2fn: each in a byte). TMEM takes `collective` (for 2-CTA MMAs), `packed` (a dtype narrower than 32 bits needs it: true for an A operand, false for an f16 accumulator) or `layout` ("m64_collective", "m64_collective_a", "scales", "b_scales_m64_collective", "sparse_metadata"). `tiling` (SMEM) states the tiles a swizzle implies, {8, 8 * swizzle / bits}; without swizzle, {8, 128 / bits} cuts rows into panels of 16 bytes, as a tc.mma wants them. `name` shows in messages and dumps.
---
---Allocations are static: one per call, whatever loop of the kernel they stand in.
---@param space Space
---@param shape integer[]
---@param dtype DType
---@param opts? {swizzle?: integer|string, tiling?: integer[], padded?: boolean, collective?: boolean, packed?: boolean, layout?: string, name?: string}
---@return Ref
function tc.allocate(space, shape, dtype, opts) end

---The numbers `start`, `start + step`, ... below `stop` (above it for a negative step). Also
---`arange(stop, dtype)` and `arange(start, stop, dtype)`.
---@param start number
---@param stop number
---@param step number
---@param dtype DType
---@param opts? {device?: tcmma.device|string}
---@return tcmma.array
function tc.arange(start, stop, step, dtype, opts) end

---Stops the kernel with the message if the condition does not hold when it runs. On a GPU the error comes at the next wait, and the process must be started again: a kernel that stops itself takes the GPU's context with it.
---@param cond boolean|Scalar
---@param message? string
function tc.assert(cond, message) end

---Copies block scales from SMEM to TMEM, in order with later MMAs of the role. `dst` is (rows, blocks), `src` (rows / 128, blocks / 4, 32, 16) as `interleave_scales` makes it.
---@param src Ref
---@param dst Ref
---@param opts? {collective_axis?: string}
function tc.async_copy_scales_to_tmem(src, dst, opts) end

---Copies a tile from SMEM to TMEM, in order with later MMAs of the role.
---@param src Ref
---@param dst Ref
---@param opts? {collective_axis?: string}
function tc.async_copy_smem_to_tmem(src, dst, opts) end

---Copies the metadata of a sparse operand from SMEM to TMEM, in order with later MMAs of the role. `dst` is (128, entries), `src` (1, entries / 64, 128, 64) as `sparsify` makes it, both of `uint2`.
---@param src Ref
---@param dst Ref
---@param opts? {collective_axis?: string}
function tc.async_copy_sparse_metadata_to_tmem(src, dst, opts) end

---Loads TMEM into a fragment, in a role of whole warpgroups. The MMAs that wrote it must have been waited for (their barrier).
---
---The fragment can be used at once. Call `tc.wait_load_tmem()` before an MMA of the same role overwrites what was loaded. Options:
---- `reduce`: of 32-bit types; there is a second result, of each row the greatest or the least element or magnitude, as `:reduce(op, 1)` of the fragment gives it. On `sm_103a` the load itself finds it (`tcgen05.ld.red`), asked for here or by `:reduce` of what was loaded, but not in 64 rows of one CTA and not the magnitudes of integers: registers do, as on other targets
---@param src Ref
---@param opts? {reduce?: "max"|"min"|"absmax"|"absmin"}
---@return Fragment
---@return Fragment?
function tc.async_load_tmem(src, opts) end

---Asks for a tile of an argument to be brought into L2, for a copy that follows later. Nothing waits for it.
---
---`collective_axes`: cluster axes whose CTAs ask for a part each of what all of them name.
---@param ref Ref
---@param opts? {collective_axes?: string|string[]}
function tc.async_prefetch(ref, opts) end

---Stores a fragment of the ref's shape and dtype into TMEM, in a role of whole warpgroups.
---
---Call `tc.commit_tmem()` before an MMA reads it.
---@param dst Ref
---@param value Fragment|Scalar|number
function tc.async_store_tmem(dst, value) end

---Adds to what memory holds, element by element and atomically: other threads, roles and CTAs may do so at the same time. Floats are added in any order, so that sums of several CTAs round differently from run to run; subnormal float32 in GMEM count as zero. What lies outside a GMEM array is left out.
---
---`ref` is in GMEM or SMEM, `value` a fragment of its shape and dtype, or one value for every element; a single element takes a recorded scalar or a number. Types: float32, float16, bfloat16, int32, uint32. Nothing is ordered by it: who reads the result waits, as for stores.
---- `old`: returns what the element was before, where it is a single one; a ticket, say
---@param ref Ref
---@param value Fragment|Scalar|number
---@param opts? {old?: boolean}
---@return Scalar?
function tc.atomic_add(ref, value, opts) end

---Keeps the bits that the value has too, atomically.
---
---`ref` is in GMEM or SMEM, `value` a fragment of its shape and dtype, or one value for every element; a single element takes a recorded scalar or a number. Types: int32, uint32. Nothing is ordered by it: who reads the result waits, as for stores.
---- `old`: returns what the element was before, where it is a single one; a ticket, say
---@param ref Ref
---@param value Fragment|Scalar|integer
---@param opts? {old?: boolean}
---@return Scalar?
function tc.atomic_and(ref, value, opts) end

---Replaces each element that is less than the value, atomically.
---
---`ref` is in GMEM or SMEM, `value` a fragment of its shape and dtype, or one value for every element; a single element takes a recorded scalar or a number. Types: int32, uint32; float16 and bfloat16 in GMEM, by pairs. Nothing is ordered by it: who reads the result waits, as for stores.
---- `old`: returns what the element was before, where it is a single one; a ticket, say
---@param ref Ref
---@param value Fragment|Scalar|number
---@param opts? {old?: boolean}
---@return Scalar?
function tc.atomic_max(ref, value, opts) end

---Replaces each element that is greater than the value, atomically.
---
---`ref` is in GMEM or SMEM, `value` a fragment of its shape and dtype, or one value for every element; a single element takes a recorded scalar or a number. Types: int32, uint32; float16 and bfloat16 in GMEM, by pairs. Nothing is ordered by it: who reads the result waits, as for stores.
---- `old`: returns what the element was before, where it is a single one; a ticket, say
---@param ref Ref
---@param value Fragment|Scalar|number
---@param opts? {old?: boolean}
---@return Scalar?
function tc.atomic_min(ref, value, opts) end

---Sets the bits of the value, atomically.
---
---`ref` is in GMEM or SMEM, `value` a fragment of its shape and dtype, or one value for every element; a single element takes a recorded scalar or a number. Types: int32, uint32. Nothing is ordered by it: who reads the result waits, as for stores.
---- `old`: returns what the element was before, where it is a single one; a ticket, say
---@param ref Ref
---@param value Fragment|Scalar|integer
---@param opts? {old?: boolean}
---@return Scalar?
function tc.atomic_or(ref, value, opts) end

---Flips the bits of the value, atomically.
---
---`ref` is in GMEM or SMEM, `value` a fragment of its shape and dtype, or one value for every element; a single element takes a recorded scalar or a number. Types: int32, uint32. Nothing is ordered by it: who reads the result waits, as for stores.
---- `old`: returns what the element was before, where it is a single one; a ticket, say
---@param ref Ref
---@param value Fragment|Scalar|integer
---@param opts? {old?: boolean}
---@return Scalar?
function tc.atomic_xor(ref, value, opts) end

---Builds every candidate with `build(candidate)`, measures what it returns with the arguments `args`, and returns the
---best candidate, what was built for it, and a list of `{config=, cost=}` or `{config=, reason=}` in the order of the
---candidates.
---
---A candidate that `build` or the compiler refuses, that does not fit, or that `check` calls wrong is skipped with the
---reason; if none is left, that is an error with all reasons. On a GPU the cost is the time in microseconds
---(`tc.bench`; the best three are measured again in turn), on the emulator the number of warp instructions. Results are
---kept in the folder of assembled kernels, by the device, the arguments and the PTX of all candidates. Options:
---- `by`: `"time"`, the name of a counter of the emulator's report, or a function of those counters
---- `check`: function(...) of the arguments after a call: whether the result is right
---- `cache` (true): whether results on disk are used and written; with a function `by` only if there is a `key`
---- `key`: text that sets results apart; `name`: text that goes into the file
---- `warmup` (1), `repetitions` (10), `rounds` (3): of the measurement
---@param candidates table[]
---@param build function
---@param args tcmma.array[]
---@param opts? {by?: string|function, check?: function, cache?: boolean, key?: string, name?: string, warmup?: integer, repetitions?: integer, rounds?: integer}
---@return table
---@return any
---@return table
function tc.autotune(candidates, build, args, opts) end

---The index of this block along an axis of the grid, or of this CTA along an axis of the cluster, by its name in `grid_names` or `cluster_names`; a number counts the grid's axes from 0.
---@param axis string|integer
---@return Scalar
function tc.axis_index(axis) end

---How long an axis of the grid or the cluster is. Raises when a function gives the grid at launch: compute the size from the named dimensions then.
---@param axis string|integer
---@return integer
function tc.axis_size(axis) end

---An mbarrier, or an array of them, in shared memory.
---
---- `num_arrivals` (1): operations as written that complete a phase; each copy, mma with `barrier=`, `tc.commit_arrive` and `tc.barrier_arrive` counts 1
---- `num_barriers` (1, at most 32): length of the array, which `barrier[i]` indexes from 0
---- `orders_tensor_core` (false): arrivals on it order tensor-core operations; needed for an MMA's barrier
---- `name`: shown in messages and dumps
---@param opts? {num_arrivals?: integer, num_barriers?: integer, orders_tensor_core?: boolean, name?: string}
---@return Barrier
function tc.barrier(opts) end

---Arrives once: what the role's threads did before is visible to those that wait. On a barrier with `orders_tensor_core`, TMEM loads and stores before it are complete too.
---@param barrier Barrier
function tc.barrier_arrive(barrier) end

---Waits for the next phase of the barrier. Phases are counted for you, per role: a role's i-th executed wait awaits the i-th completion.
---
---`parity` (0 or 1, or a recorded s32) waits for the phase of that parity instead and leaves the count alone; one role uses one of the two forms on one barrier. The first phase has parity 0; a wait for parity 1 passes while it is open.
---@param barrier Barrier
---@param opts? {parity?: integer|Scalar}
function tc.barrier_wait(barrier, opts) end

---Calls `fn` a few times without measuring (`warmup`, 3) and then `repetitions` (20) times, each call
---measured alone. The result is the median in **microseconds**, and a table: `median`, `min`, `max`,
---`mean`, `repetitions`, `times` (sorted), `quantiles` (those asked for) and `clock`.
---
---On a GPU the time is that between two events around the call (`clock` is `"device"`): the kernels and
---the gaps between them, not the recording. On the emulator it is that of the host's monotonic clock
---(`"host"`), the emulation itself.
---@param fn function
---@param opts? {warmup?: integer, repetitions?: integer, device?: tcmma.device|string, quantiles?: number[]}
---@return number
---@return table
function tc.bench(fn, opts) end

---Which block of an array a step of a pipeline works on. `index_map` gets the indices of the step in the grid, and returns
---as many block numbers as the array has dimensions; a dimension of `block_shape` is a size, `false` for one element that
---the tile lacks, or `{ element = size }`, whose index counts elements instead of blocks. Options:
---- `delay_release` (0): how many steps later the tile of an input is given back, for MMAs that still read it
---- `swizzle`: of the tile in SMEM, as for `tc.smem`
---- `collective_axes`: a cluster axis whose CTAs get the same block, by multicast (warp-specialised pipelines)
---@param block_shape table
---@param index_map function
---@param opts? {delay_release?: integer, swizzle?: integer|string, collective_axes?: string|string[]}
---@return table
function tc.block_spec(block_shape, index_map, opts) end

---a / b rounded up, for b > 0: how many tiles of b cover a. Exact for every s32.
---@param a integer|Scalar
---@param b integer|Scalar
---@return integer|Scalar
function tc.cdiv(a, b) end

---Seconds of the host's monotonic clock, to take differences of.
---@return number
function tc.clock() end

---A barrier in every CTA of the cluster: an arrival arrives at those of all CTAs along `collective_axes`.
---
---- `collective_axes` (required): a cluster axis by name, or a list. An arrival reaches the CTAs that differ from its own along one entry of the list; an entry may be a list of axes itself, and stands for all CTAs along them
---- `num_arrivals` counts the operations of one CTA: each arrives at its peers too
---- `leader_tracked` (false): arrivals reach only the first CTA along the one axis, which alone can wait
---- `num_barriers`, `orders_tensor_core`, `name`: as for `tc.barrier`
---@param opts {collective_axes: string|(string|string[])[], num_arrivals?: integer, num_barriers?: integer, orders_tensor_core?: boolean, leader_tracked?: boolean, name?: string}
---@return Barrier
function tc.cluster_barrier(opts) end

---The 16 bytes of SMEM that `tc.try_cluster_cancel` writes its answer to, or a ring of `num_buffers` of them, which
---`result[i]` indexes.
---@param num_buffers? integer
---@return Ref
function tc.cluster_cancel_result(num_buffers) end

---The same SMEM, or the same barrier, in another CTA of the cluster. `rank` counts the CTAs from 0, the last cluster axis fastest.
---
---A ref of a peer can be stored to, a barrier of a peer arrived on. Waits, loads, copies and MMAs work on the CTA's own memory.
---@param ref Ref|Barrier
---@param rank integer|Scalar
---@return Ref|Barrier
function tc.cluster_ref(ref, rank) end

---Arrives when all MMAs and SMEM-to-TMEM copies that this role has issued so far are complete. The barrier must order the tensor core.
---
---`collective_axis`: cluster axis of the 2 CTAs whose MMAs they are: the first issues the arrival, in both.
---@param barrier Barrier
---@param opts? {collective_axis?: string}
function tc.commit_arrive(barrier, opts) end

---Makes the role's stores to GMEM visible to later `tc.copy_gmem_to_smem` of this block.
function tc.commit_gmem() end

---Makes the role's stores to SMEM visible to copies and MMAs (a proxy fence and a barrier of the role).
function tc.commit_smem() end

---Makes the role's stores to TMEM visible to later MMAs.
function tc.commit_tmem() end

---Copies a tile of an argument into SMEM by TMA, asynchronously. The copy is one arrival on the barrier, whose phase completes when the bytes are there.
---
---`src` and `dst` have one shape and dtype; what lies outside the array reads as 0. Options:
---- `collective_axes`: cluster axes whose CTAs all receive the tile
---- `leader_tracked`: "replicated" or "partitioned": the first CTA's barrier alone has the arrival, and counts the bytes of both CTAs
---- `partition_axis`: dimension of `dst` that the CTAs divide among them
---@param src Ref
---@param dst Ref
---@param barrier Barrier
---@param opts? {collective_axes?: string|string[], leader_tracked?: boolean|string, partition_axis?: integer}
function tc.copy_gmem_to_smem(src, dst, barrier, opts) end

---Copies SMEM to a tile of an argument by TMA, asynchronously; what lies outside the array is not written.
---
---Call `tc.commit_smem()` between a `ref:store` and the copy that reads it, and `tc.wait_smem_to_gmem(n)` before the SMEM is written again. Options:
---- `commit_group` (true): closes the group of copies that `wait_smem_to_gmem` counts
---- `reduction_op`: what is done to the elements of GMEM with those of SMEM, each atomically: "add", "min", "max" (16-bit floats, integers of 32 and 64 bits; add also float32), "umin", "umax", "smin", "smax" (integers as if they had no sign, or one), "inc", "dec" (32 bits: up to, down from the element of SMEM, then around), "and", "or", "xor"
---@param src Ref
---@param dst Ref
---@param opts? {commit_group?: boolean, reduction_op?: string}
function tc.copy_smem_to_gmem(src, dst, opts) end

---Compiles CUDA C with NVRTC. `options` go to the compiler, `target` is the architecture (default: that of the current device), `name` the file name in its messages and in the emulator's reports, which name lines of the source unless `lineinfo = false`: the code is the same either way. The toolkit's headers are found. What the compiler rejects is an error with its log; warnings come as the second result. Without NVRTC the answer is nil, a message and the code `no-library`.
---@param source string
---@param opts? {options?: string[], target?: string, name?: string, lineinfo?: boolean}
---@return tcmma.module?
---@return string?
---@return string?
function tc.cuda(source, opts) end

---The inverse of `sparsify`: the matrix (M, K) with zeros where elements were dropped.
---@param values tcmma.array
---@param metadata tcmma.array
---@param opts? {axis?: integer, pattern?: "2:4"|"4:8"|"1:2"}
---@return tcmma.array
function tc.densify(values, metadata, opts) end

---The numbers that `quantize` made elements and scales (rows, K / block) of: element * scale (* global
---scale), rounded once to `dtype` (`float32`, or `float64`, `float16`, `bfloat16`).
---@param elements tcmma.array
---@param scales tcmma.array
---@param opts? {axis?: integer, global_scale?: number, dtype?: DType}
---@return tcmma.array
function tc.dequantize(elements, scales, opts) end

---A device by name: `"cuda:0"`, `"emulator"` (that is `"emulator:sm_100a"`), `"emulator:sm_90a"`, `"emulator:sm_103a"`. Without a name, the current device. It does not change the current device; `tc.use` does.
---
---Where this machine lacks what the name asks for, the answer is nil, a message and a code: `no-driver`, `no-device`. A name that no machine could have is an error.
---@param name? string
---@return tcmma.device?
---@return string?
---@return string?
function tc.device(name) end

---The names that `tc.device` opens here: GPUs that have a target, then the emulated devices.
---@return string[]
function tc.devices() end

---What `tc.help` and docs/reference.md are made from: a list of `{owner=, name=, doc=, value=}`,
---where `owner` is `"tcmma"` or the class and `value` the function. The entry of a class itself
---has no `name`.
---@return table[]
function tc.documentation() end

---A slice for `ref:at`: `size` indices from `start`, which may be recorded.
---@param start integer|Scalar
---@param size integer
---@param step? integer
---@return Slice
function tc.ds(start, size, step) end

---The dtype object of a name, long or short; `s8`, `s16`, `s32`, `s64` are PTX's names of the signed integers.
---@param name DType
---@return tcmma.dtype
function tc.dtype(name) end

---All element types.
---@return tcmma.dtype[]
function tc.dtypes() end

---Records a loop over the work of this CTA and of those that it takes over: the kernel is launched with a grid of all the
---work, a CTA begins with its own element of it, and asks, while that is computed, for one that has not started
---(`tc.try_cluster_cancel`). So the CTAs that run share the work as they get it done, and the loads of a tile can run
---under the epilogue of the one before.
---
---`grid_names` names every axis of the grid longer than 1. `body` gets a table: `index` (a list of recorded scalars along
---`grid_names`; `tc.axis_index` still says where this CTA began) and `local_index` (the turn). The loop stands in shared
---code, once in a kernel and in no other loop, after the roles were made: every role gets it, and a role `scheduler` of
---one warp is added that asks. In a kernel without roles, or inside a block of a role, that one asks.
---
---A cluster takes over work together; `cluster_axes`, if given, must name all its axes. `sm_90a` has no launch control:
---there each CTA does its own element and no other, with the same results.
---@param grid_names string|string[]
---@param body function
---@param opts? {cluster_axes?: string|string[]}
function tc.dynamic_scheduling_loop(grid_names, body, opts) end

---A software pipeline in one role: for every step of `grid`, in order, the last dimension fastest, `body` gets tiles in
---SMEM that hold the blocks of the inputs, and fills those of the outputs. The blocks of `max_concurrent_steps` (1) steps
---are under way at once. The result is called with the arrays, inputs first: `tc.emit_pipeline(body, opts)(a, b, out)`;
---without that call nothing would be recorded, and the kernel is refused.
---
---`body(info, tiles...)`: `info.index` is a list of recorded scalars, `info.step` counts the steps. The block of an input
---that is the same at all steps is loaded once. Steps in a row that have one output block store it at the last of them;
---its tile then holds what that step has written.
---
---An MMA that reads a tile must be waited for before the step ends, or `delay_release` steps later.
---@param body function
---@param opts {grid: (integer|Scalar)[], in_specs?: table[], out_specs?: table[], max_concurrent_steps?: integer}
---@return function
function tc.emit_pipeline(body, opts) end

---The same with the loads in a role of their own, which runs up to `max_concurrent_steps` (2) steps ahead. It stands in
---shared code. `info.compute` is the number of the compute role, from 0. Options beside those of `tc.emit_pipeline`:
---- `memory`, `compute`: the roles, where they exist; else `memory` (one warp) and `compute` (`num_compute_wgs`
---  warpgroups) are made. Several compute roles each run `body`, without outputs
---- `memory_registers`: `tc.set_max_registers` of the memory role; the compute roles get what it leaves
---- `compute_context`: gets the pipeline as a function and calls it once, in the block of the compute role: vars that it
---  makes live on over the steps
---- `manual_consumed_barriers`: `body` arrives on `info.consumed` itself, as in
---  `tc.mma(acc, a, b, { barrier = info.consumed })`
---- `turn`: a pipeline of pipelines. The pipeline stands in a loop over tiles, such as `tc.nd_loop`, and this is the turn
---  of the loop, `info.local_index`: the memory role goes on with the blocks of the next turn while the compute roles
---  finish this one. Every turn has the same grid, of known size. A number in place of a recorded scalar changes nothing
---
---Without `turn`, a run has given back all of its tiles and stored all of its outputs at its end. With it, the outputs are
---stored when the kernel ends, or behind `tc.wait_smem_to_gmem(0)` in the compute role. In a block of a role, such as the
---body of another pipeline, use `tc.emit_pipeline`.
---@param body function
---@param opts {grid: (integer|Scalar)[], in_specs?: table[], out_specs?: table[], max_concurrent_steps?: integer, memory?: Role, compute?: Role|Role[], num_compute_wgs?: integer, memory_registers?: integer, manual_consumed_barriers?: boolean, compute_context?: function, turn?: integer|Scalar}
---@return function
function tc.emit_pipeline_warp_specialized(body, opts) end

---A new array whose contents are undefined until written. On the emulator all bits of one of up to 256 MB are set, which is NaN in floats and -1 in int32, so that results show what was never written; no report speaks of it.
---@param shape integer[]
---@param dtype DType
---@param opts? {device?: tcmma.device|string}
---@return tcmma.array
function tc.empty(shape, dtype, opts) end

---A C function that calls `fn`. A tail call of a Lua function, as in `return f(x)` and in every expression at the prompt, drops the caller, and with it the line that an error or an operation belongs to; that of a C function keeps it. For libraries written on this module.
---@param fn function
---@return function
function tc.entry_point(fn) end

---e to the power of every element, of a recorded f32, or of a number, in double precision. Relative error: that of tc.exp2, and |x| 2^-23 by the rounding of x times log2 e.
---@param x number|Scalar|Fragment
---@return number|Scalar|Fragment
function tc.exp(x) end

---2 to the power of every element, of a recorded f32, or of a number, in double precision. Relative error: 2^-22.
---@param x number|Scalar|Fragment
---@return number|Scalar|Fragment
function tc.exp2(x) end

---a * b + c with one rounding.
---@param a Fragment
---@param b number|Scalar|Fragment
---@param c number|Scalar|Fragment
---@return Fragment
function tc.fma(a, b, c) end

---Metadata in the order of tensor memory, as `sparsify` makes it, from plain positions: a `uint2` array (M, K / 4, 2)
---with the positions of the two elements kept of each four (of four pairs of `float4_e2m1fn`: (M, K / 8, 2)). Of
---32-bit types (M, K / 2, 2): 0, 1 where the first of two is kept, 2, 3 where the second is. `dtype` is that of A.
---@param positions tcmma.array
---@param dtype DType
---@return tcmma.array
function tc.format_sparse_metadata(positions, dtype) end

---A new array from numbers. Without a shape it is that of the nested tables, which must be
---regular; with one, the table may be nested or flat and must have as many numbers. Values are
---converted as `dtype:encode` does; integers to 64-bit types exactly.
---@param values table
---@param dtype DType
---@param shape? integer[]
---@param opts? {device?: tcmma.device|string}
---@return tcmma.array
function tc.from_table(values, dtype, shape, opts) end

---A new array whose memory is a string of bytes, in C order and little-endian.
---@param bytes string
---@param dtype DType
---@param shape integer[]
---@param opts? {device?: tcmma.device|string}
---@return tcmma.array
function tc.frombytes(bytes, dtype, shape, opts) end

---In a recording, a fragment with one value everywhere, in role code of whole warpgroups. Outside of one, a new array with one value everywhere; `opts.device` names its device.
---@param shape integer[]
---@param value number|boolean|Scalar
---@param dtype DType
---@param opts? {device?: tcmma.device|string}
---@return Fragment|tcmma.array
function tc.full(shape, value, dtype, opts) end

---Describes a kernel argument, an array in global memory of 1 to 8 dimensions, for `args` of `tc.kernel`.
---
---A dimension may be a name (`tc.gmem({"M", "K"}, tc.f16)`): it is bound at launch from the array passed; equal names must have equal sizes. In the kernel, `ref.shape[i]` is then a recorded s32: `tc.cdiv(ref.shape[1], 128)` counts tiles of 128.
---@param shape (integer|string)[]
---@param dtype DType
---@return Gmem
function tc.gmem(shape, dtype) end

---Allows the next kernel in the stream to start, once every block has said so or ended, if it has a `tc.griddepcontrol_wait`.
function tc.griddepcontrol_launch_dependents() end

---Waits until the kernels launched before in the stream have ended and what they wrote is visible. A kernel with it is launched as soon as they allow (programmatic dependent launch), so that its start runs under their end; nothing that they write or read may be touched before. In shared code every role waits.
function tc.griddepcontrol_wait() end

---Prints the documentation of a function (`tc.help(tc.zeros)`), of a name (`tc.help "zeros"`,
---`tc.help "array:get"`), of an object and its class (`tc.help(a)`), of a subject (`tc.help "copies"`);
---without an argument, the subjects. A word that names nothing is looked for in all documentation.
---@param x? any
function tc.help(x) end

---Scales (rows, K / block) in the order of `async_copy_scales_to_tmem`: an array (rows / 128, K / block / 4, 32, 16),
---both rounded up, the rest zero bytes. Tile [i, j], element (r, 4 c + b) is the scale of row 128 i + 32 c + r
---and block 4 j + b. With the layout `b_scales_m64_collective` (B of a collective mma with M = 128) it is
---(1, K / block / 4, 64, 16): lines 0 to 31 for the first half of the rows, 32 to 63 for the second.
---@param scales tcmma.array
---@param opts? {layout?: "scales"|"b_scales_m64_collective"}
---@return tcmma.array
function tc.interleave_scales(scales, opts) end

---A fragment whose elements are their index along `axis` (0-based); int32 unless given.
---@param shape integer[]
---@param axis integer
---@param dtype? DType
---@return Fragment
function tc.iota(shape, axis, dtype) end

---Records a kernel by running `body` once, and returns it ready to call.
---
---Fields of the table:
---- `name` string, default "kernel": the name in messages and in the PTX
---- `args` list of `tc.gmem(shape, dtype)`: the arrays that a call passes, in order
---- `grid` list of integers, or `function(dims)` that returns one at launch from the named dimensions (then `grid_names` is needed); default {1}. It counts clusters; the last axis runs fastest
---- `grid_names`, `cluster_names` lists of strings for `tc.axis_index`
---- `cluster` list of up to 3 integers: blocks of a cluster
---- `target` "sm_100a", "sm_103a" or "sm_90a"; default: what the device has
---- `profile` boolean
---- `body` function(ref, ...): gets one ref per argument
---
---An error in the body goes through and leaves no recording open. At its end the whole kernel is verified: barriers on which nobody arrives, waits that never end, named barriers; what depends on the target for the one that is given, without one memory for that of the current device. A message points at the line of the op.
---@param spec {name?: string, args?: tcmma.gmem[], grid?: integer[]|function, grid_names?: string[], cluster?: integer[], cluster_names?: string[], target?: string, profile?: boolean, body: function}
---@return Kernel
function tc.kernel(spec) end

---Natural logarithm of every element, of a recorded f32, or of a number, in double precision. Error: ln 2 times that of tc.log2, and the rounding of the product.
---@param x number|Scalar|Fragment
---@return number|Scalar|Fragment
function tc.log(x) end

---Logarithm to base 2 of every element, of a recorded f32, or of a number, in double precision. Relative error: 2^-22; between 0.5 and 2 it is the absolute one.
---@param x number|Scalar|Fragment
---@return number|Scalar|Fragment
function tc.log2(x) end

---Records a loop that runs until a `tc.stop(cond)` in it holds.
---@param body function
function tc.loop(body) end

---out (M, N) = epilogue(a (M, K) @ b (K, N)), by a kernel that is made for the shape and kept; `require "tcmma.matmul"`.
---Any M, N, K whose rows are multiples of 16 bytes; float16, bfloat16 or 8-bit floats. Without `out` the result is a new
---array of the type of `a` (bfloat16 for 8-bit floats).
---
---The epilogue, in float32: times `row_scale[m]`, times `column_scale[n]`, plus `bias[n]`, then the function `epilogue`,
---then plus `residual[m][n]`; then rounded to the type of `out`. Options:
---- `transpose_b` (false): `b` is stored as (N, K); 8-bit operands on Hopper need it
---- `epilogue`: `"relu"`, `"gelu"` (the tanh form), `"silu"`, `"sigmoid"`, or a function of a fragment
---- `bias`, `column_scale` (N), `row_scale` (M), `residual` (M, N): arrays
---- `accumulate_f32` (true): false accumulates float16 operands in float16; on Hopper, true given for 8-bit operands
---  adds the tensor core's short sums to float32 after each 128 of K
---- `config`: a configuration, or a part of one, instead of the cost model's: `tile_m`, `tile_n`, `tile_k`, `stages`,
---  `group` (rows of tiles walked together), `swap` (rows of the accumulator run over N), `split_k`, `cluster` (CTAs above
---  each other that share b by multicast), `cluster_n` (CTAs beside each other that share a), `piece` (bytes of a row that
---  the epilogue moves at once), `slots` (its buffers), `ctas` (most CTAs of the grid; else as many as run
---  at once)
---@param a tcmma.array
---@param b tcmma.array
---@param out? tcmma.array
---@param opts? MatmulOptions
---@return tcmma.array
function tc.matmul(a, b, out, opts) end

---The larger one, by elements. Of a number and a NaN it is the number.
---@param a number|Scalar|Fragment
---@param b number|Scalar|Fragment
---@return number|Scalar|Fragment
function tc.max(a, b) end

---The greatest |a - b| and its coordinates (from 0); NaN where only one has a NaN.
---@param a tcmma.array
---@param b tcmma.array
---@return number
---@return integer[]
function tc.max_error(a, b) end

---The smaller one, by elements. Of a number and a NaN it is the number.
---@param a number|Scalar|Fragment
---@param b number|Scalar|Fragment
---@return number|Scalar|Fragment
function tc.min(a, b) end

---acc (M, N) = a (M, K) @ b (K, N) + acc, on the tensor core, asynchronously.
---
---`acc` is in TMEM, `a` in SMEM or TMEM, `b` in SMEM. Any K that is a multiple of the instruction's. Options:
---- `barrier`: arrives when this and all earlier MMAs of the role are complete; it needs `orders_tensor_core`
---- `accumulate` (true): boolean or recorded predicate; false overwrites `acc`
---- `depth`: multiplies only so many elements of K, the first of both operands: what lies behind is zero, or of no interest. A multiple of 32 bytes; not with scales or sparse `a`
---- `a_scale`, `b_scale`: block scales in TMEM
---- `a_sparse_metadata`: (M, entries) of `uint2` in TMEM; `a` is (M, K / 2), what `sparsify` keeps
---- `collective_axis`: cluster axis of the 2 CTAs that share the MMA; the first issues it, and the barrier arrives in both. `acc` and `a` have the rows of this CTA, `acc` the columns of both, `b` half of them
---@param acc Ref
---@param a Ref
---@param b Ref
---@param opts? {barrier?: Barrier, accumulate?: boolean|Scalar, depth?: integer, a_scale?: Ref, b_scale?: Ref, a_sparse_metadata?: Ref, collective_axis?: string}
function tc.mma(acc, a, b, opts) end

---Records a loop over an N-dimensional grid of work that the CTAs along `collective_axes` share: element t, the last
---dimension fastest, is done by worker t mod W in its turn t // W. A persistent kernel launches as many CTAs as fit, and
---loops over the tiles.
---
---`body` gets a table: `index` (a list of recorded scalars), `local_index` (the turn), `num_local_steps` (how many turns
---this worker makes). Extents may be recorded. Options:
---- `collective_axes` (required): axes of the grid or the cluster, by name
---- `tiling`: the grid is walked tile by tile; it must divide the grid
---@param grid (integer|Scalar)[]
---@param body function
---@param opts {collective_axes: string|string[], tiling?: integer[]}
function tc.nd_loop(grid, body, opts) end

---The names that are most like a misspelt word, best first, at most 3: what "did you mean" says.
---@param word string
---@param names string[]
---@return string[]
function tc.nearest(word, names) end

---A new array of ones.
---@param shape integer[]
---@param dtype DType
---@param opts? {device?: tcmma.device|string}
---@return tcmma.array
function tc.ones(shape, dtype, opts) end

---The element of a plane of `shape` that comes `lin_idx`-th, for tiles that lie near each other to be computed near each
---other in time, when their operands are still in L2.
---
---The plane is cut along `minor_dim` (0 or 1) into strips of `tile_width`; a strip is walked from one end of the other
---dimension to the opposite one, the next strip back again. The last strip may be narrower. A constant `lin_idx`
---must be of the plane; a recorded one is not looked at, and names an element outside where it is beyond.
---@param lin_idx integer|Scalar
---@param shape (integer|Scalar)[]
---@param minor_dim integer
---@param tile_width integer
---@return integer|Scalar
---@return integer|Scalar
function tc.planar_snake(lin_idx, shape, minor_dim, tile_width) end

---Prints when the kernel runs, once per block, from one thread of the role. Every `{}` in the format takes one value, of at most 8; `{{` and `}}` are braces. A fragment is printed alone.
---@param format string
---@param ... number|boolean|Scalar|Fragment
function tc.print(format, ...) end

---Raises a message of docs/errors.md, as `tc.raise_documented`, but where the recording ends, and unless the function that is returned has been called by then. For libraries whose objects must be used, such as the result of `tc.emit_pipeline`.
---@param id string
---@param ... string
---@return function
function tc.promise_documented(id, ...) end

---A module of PTX text, whoever wrote it. Its declarations are read here; the text is assembled (or loaded by the emulator) at the first launch on a device, and kept.
---@param text string
---@return tcmma.module
function tc.ptx(text) end

---A matrix (rows, K) of floating-point numbers as narrow elements and a scale for each block of K.
---Returns the elements (rows, K) and the scales (rows, K / block); of nvfp4 also the global scale.
---An element stands for element * scale (* global scale); `dequantize` computes that.
---
---| format | elements | scales | block |
---|---|---|---|---|
---| `mxfp8` | `float8_e4m3fn`, or `float8_e5m2` by `dtype` | `float8_e8m0fnu` | 32 |
---| `mxfp6` | `float6_e3m2fn`, or `float6_e2m3fn` by `dtype` | `float8_e8m0fnu` | 32 |
---| `mxfp4` | `float4_e2m1fn` | `float8_e8m0fnu` | 32 |
---| `nvfp4` | `float4_e2m1fn` | `float8_e4m3fn` | 16 |
---
---The mx formats follow the OCP Microscaling specification 1.0: the scale is the greatest power of
---two not above the block's greatest magnitude, divided by the greatest power of two of the element
---type; elements round to nearest even and saturate. With `scale_rounding = "up"` the scale is the
---least power of two with which nothing saturates. nvfp4: the global scale is the array's greatest
---magnitude over 448 * 6 as float32, unless `global_scale` gives it; a block's scale is its greatest
---magnitude over 6 and over the global scale, rounded to nearest. A block with a NaN or an infinity gets
---a scale of NaN, which makes all of it NaN; a block of zeros the least scale.
---
---`block` is another number of elements a scale, 16, 32 or 64: twice the format's for both
---operands of a sparse `mma`, 16 for mxfp4 in `kind::mxf4nvf4`. `axis` is the dimension along K, from 0; with `axis = 0` the array is (K, rows), as B of `mma` is
---written; the scales are (rows, K / block) all the same. `interleave_scales` brings them into the
---order that a kernel copies to TMEM.
---@param array tcmma.array
---@param format "mxfp8"|"mxfp6"|"mxfp4"|"nvfp4"
---@param opts? {dtype?: DType, block?: integer, axis?: integer, scale_rounding?: "down"|"up", global_scale?: number}
---@return tcmma.array
---@return tcmma.array
---@return number?
function tc.quantize(array, format, opts) end

---Reads the answer to `tc.try_cluster_cancel` after its barrier was waited for: the indices of the work that was taken over along the axes of the grid (all, or those named), and whether there was any. Without success the indices are 0.
---
---It may stand in shared code, where every role reads the answer for itself, behind a wait in each of them.
---@param result Ref
---@param grid_names? string[]
---@return Scalar[]
---@return Scalar
function tc.query_cluster_cancel(result, grid_names) end

---Raises a message of docs/errors.md at the line of the script: its id in src/errors.def, and the texts for its words. For libraries written on this module.
---@param id string
---@param ... string
function tc.raise_documented(id, ...) end

---A new array of uniform random numbers from `low` (0) to below `high` (1); rounding to a narrow
---type can reach `high`. Reproducible as `randn` is.
---@param shape integer[]
---@param dtype DType
---@param opts? {seed?: integer, low?: number, high?: number, device?: tcmma.device|string}
---@return tcmma.array
function tc.rand(shape, dtype, opts) end

---A new array of random integers, `low` (0) to `high - 1`. Reproducible as `randn` is.
---@param shape integer[]
---@param dtype DType
---@param opts {high: integer, low?: integer, seed?: integer, device?: tcmma.device|string}
---@return tcmma.array
function tc.randint(shape, dtype, opts) end

---A new array of normal random numbers. Element i depends on the seed and on i alone, and is the
---same on every machine (Philox4x32-10 and Box-Muller, without functions of libm). Arrays made
---without a seed are numbered: a script that runs again gets the same ones.
---@param shape integer[]
---@param dtype DType
---@param opts? {seed?: integer, mean?: number, std?: number, device?: tcmma.device|string}
---@return tcmma.array
function tc.randn(shape, dtype, opts) end

---`range(n, body)` or `range(lo, hi, step, body)`: records a loop over the half-open range; `body` runs once and gets the counter, a recorded s32.
---
---Bounds and step may be recorded. The step is positive: a recorded one that is 0 or less when the kernel runs makes no turn. Bounds may lie anywhere in s32. A Lua `for` unrolls instead. What the body makes is not visible after it; a `tc.var` carries a value from turn to turn.
---@param lo integer|Scalar
---@param hi integer|Scalar
---@param step integer|Scalar
---@param body function
function tc.range(lo, hi, step, body) end

---Opens a recording for the prompt: the table of `tc.kernel` without `body`. Returns the kernel and one ref per argument.
---
---Every following call is checked and appended at once; a refused call leaves the recording as it was. `k:ops()` shows it, `k:finish()` ends it. One recording is open at a time.
---@param spec {name?: string, args?: tcmma.gmem[], grid?: integer[]|function, grid_names?: string[], cluster?: integer[], cluster_names?: string[], target?: string, profile?: boolean}
---@return Kernel
---@return Ref ...
function tc.record(spec) end

---The kernel whose recording is open, nil if none is: at the prompt, where a local ends with its line, `tc.recording():close()` gives up one that nothing names.
---@return Kernel?
function tc.recording() end

---Makes a role: warps that run the role's blocks and nothing else. Call it with a function to record a block: `load(function() ... end)`.
---
---Give `warps` or `warpgroups` (4 warps each). Fragments and TMEM loads need whole warpgroups; one warp is enough to issue copies and MMAs. Blocks of a role run in program order; they do not nest.
---@param spec {name?: string, warps?: integer, warpgroups?: integer}
---@return Role
function tc.role(spec) end

---One over the square root of every element, of a recorded f32, or of a number, in double precision. Relative error: 2^-22.9.
---@param x number|Scalar|Fragment
---@return number|Scalar|Fragment
function tc.rsqrt(x) end

---Adds `inc` (1) to a semaphore, one int32 element of an argument: what the role's threads have done before is visible to those who waited for it. Copies to GMEM must have been waited for, `tc.wait_smem_to_gmem(0)`; stores that another CTA copies by TMA need `tc.commit_gmem()` first.
---
---`memory_scope`: who waits, `"sys"` (any device) or `"gpu"` (this one). The array is zero at the start.
---@param sem Ref
---@param inc? integer|Scalar
---@param opts? {memory_scope?: string}
function tc.semaphore_signal(sem, inc, opts) end

---Signals several semaphores with one fence: what the role's threads have done before is visible to all who waited for any of them. Each of `signals` is a semaphore as for `tc.semaphore_signal`, `{sem, inc}`, or a vector of them, all of whose elements are signalled: a flag for each CTA that waits. At most 64 in all.
---@param signals any[]
---@param opts? {memory_scope?: string}
function tc.semaphore_signal_parallel(signals, opts) end

---Waits until a semaphore is at least `value` (1), and takes that much off it unless `decrement = false`. The CTA that signals must be able to run: it is one of those that fit on the device together, or started before.
---
---`memory_scope` as for `tc.semaphore_signal`.
---@param sem Ref
---@param value? integer|Scalar
---@param opts? {decrement?: boolean, memory_scope?: string}
function tc.semaphore_wait(sem, value, opts) end

---Sets how many registers each thread of this role may use from here on: a multiple of 8 from 24 to 256 (`setmaxnreg`). The sum over the block's warpgroups must fit.
---@param n integer
function tc.set_max_registers(n) end

---Every field of `tc.config` in order, as tables `{field=, variable=, default=, doc=}`; `variable` is the environment variable that is read at `require`.
---@return table[]
function tc.settings() end

---`tc.allocate` in shared memory. The last two dimensions are a tile, the others count tiles (stages).
---
---SMEM takes `swizzle` (128, 64, 32, "128B_atom_32B", which float32 operands stored with K first need, or "none"; default: the largest that divides a row) and `padded` (float4_e2m1fn: 16 elements fill 16 bytes, as a tc.mma with 8- or 6-bit elements, or without scales, wants them; in TMEM, as A of such a tc.mma, also float6_e3m2fn: each in a byte). TMEM takes `collective` (for 2-CTA MMAs), `packed` (a dtype narrower than 32 bits needs it: true for an A operand, false for an f16 accumulator) or `layout` ("m64_collective", "m64_collective_a", "scales", "b_scales_m64_collective", "sparse_metadata"). `tiling` (SMEM) states the tiles a swizzle implies, {8, 8 * swizzle / bits}; without swizzle, {8, 128 / bits} cuts rows into panels of 16 bytes, as a tc.mma wants them. `name` shows in messages and dumps.
---
---Allocations are static: one per call, whatever loop of the kernel they stand in.
---@param shape integer[]
---@param dtype DType
---@param opts? {swizzle?: integer|string, tiling?: integer[], padded?: boolean, collective?: boolean, packed?: boolean, layout?: string, name?: string}
---@return Ref
function tc.smem(shape, dtype, opts) end

---Prunes a matrix (M, K) for a sparse `mma`: the greatest magnitudes of each group stay, of equal ones the
---first, NaNs before numbers. Returns the kept values (M, K / 2), and the metadata that says where they were.
---
---| pattern | keeps | of | entries of metadata |
---|---|---|---|---|
---| `2:4` | 2 of 4 elements | 16- and 8-bit types; 6- and 4-bit ones of `kind::f8f6f4` | K / 2 |
---| `4:8` | 2 of 4 pairs of neighbours, by the sum of their magnitudes | `float4_e2m1fn`, its default | K / 4 |
---| `1:2` | 1 of 2 elements | `float32`, `tfloat32` | K |
---
---The metadata is a `uint2` array (M / 128, entries / 64, 128, 64), both rounded up, in the order of tensor
---memory: what `async_copy_sparse_metadata_to_tmem` takes. `axis` is the dimension along K, from 0: with
---`axis = 0` the array is (K, M) and the values (K / 2, M).
---@param array tcmma.array
---@param opts? {axis?: integer, pattern?: "2:4"|"4:8"|"1:2"}
---@return tcmma.array
---@return tcmma.array
function tc.sparsify(array, opts) end

---Square root of every element, of a recorded f32, or of a number, in double precision. Relative error: 2^-23.
---@param x number|Scalar|Fragment
---@return number|Scalar|Fragment
function tc.sqrt(x) end

---Leaves the innermost `tc.loop` if the condition holds (always, without one). It stands in the loop itself or in a `tc.when` in it.
---@param cond? boolean|Scalar
function tc.stop(cond) end

---Hyperbolic tangent of every element, of a recorded f32, or of a number, in double precision. Relative error: 2^-11.
---@param x number|Scalar|Fragment
---@return number|Scalar|Fragment
function tc.tanh(x) end

---A tensor map for TMA, an argument of a foreign kernel. All lists are **innermost dimension first**, as in `cuTensorMapEncodeTiled`.
---
---- `box` (needed): the tile, in elements, 1 to 256 each; its inner size is a multiple of 16 bytes.
---- `dims`: sizes in elements; default: the array's shape, reversed.
---- `strides`: bytes, one fewer than `dims`; default: dense.
---- `element_strides`: 1 to 8, default 1.
---- `swizzle`: `"none"`, `"32B"`, `"64B"`, `"128B"`, `"128B_atom_32B"`, `"128B_atom_32B_flip_8B"`, `"128B_atom_64B"`.
---- `interleave`: `"none"`, or `"16B"` or `"32B"` a pixel: dimension 0 is the width then, and the last but one counts slices of channels; `l2`: `"none"`, `"64B"`, `"128B"`, `"256B"`; `oob`: `"zeros"`, `"nan"`.
---- `im2col`, in place of `box`: a table with `lower` and `upper`, the corners of the box of pixels along width, height and depth, `channels` and `pixels` of a copy, and `mode`: `"all"` (default), or `"w"` or `"w128"` along the width alone.
---- `dtype`: the map's element type, such as `"tf32"` or `"16u4_align16b"`; default: the array's; of `int4`, `uint4` and `uint2` it is `uint8`, and all sizes count bytes.
---@param array tcmma.array
---@param opts table
---@return tcmma.tensormap
function tc.tensormap(array, opts) end

---`tc.allocate` in tensor memory: 64 or 128 rows (lanes), and columns of 32 bits, 512 in all.
---
---SMEM takes `swizzle` (128, 64, 32, "128B_atom_32B", which float32 operands stored with K first need, or "none"; default: the largest that divides a row) and `padded` (float4_e2m1fn: 16 elements fill 16 bytes, as a tc.mma with 8- or 6-bit elements, or without scales, wants them; in TMEM, as A of such a tc.mma, also float6_e3m2fn: each in a byte). TMEM takes `collective` (for 2-CTA MMAs), `packed` (a dtype narrower than 32 bits needs it: true for an A operand, false for an f16 accumulator) or `layout` ("m64_collective", "m64_collective_a", "scales", "b_scales_m64_collective", "sparse_metadata"). `tiling` (SMEM) states the tiles a swizzle implies, {8, 8 * swizzle / bits}; without swizzle, {8, 128 / bits} cuts rows into panels of 16 bytes, as a tc.mma wants them. `name` shows in messages and dumps.
---
---Allocations are static: one per call, whatever loop of the kernel they stand in.
---@param shape integer[]
---@param dtype DType
---@param opts? {swizzle?: integer|string, tiling?: integer[], padded?: boolean, collective?: boolean, packed?: boolean, layout?: string, name?: string}
---@return Ref
function tc.tmem(shape, dtype, opts) end

---Asks for the work of a cluster of the same grid that has not started: that one will not start, and this one does its work. The answer is written to `result`, 16 bytes of SMEM (`tc.cluster_cancel_result`); the request is one arrival on the barrier, whose phase completes when the answer is there.
---
---Every CTA of the cluster makes the request, each with its own `result` and `barrier`: all get one answer. An answer without success is the last: do not ask again; work that is left, if any, starts by itself. `sm_90a` has no launch control; there the answer is always that nothing is left, and the grid runs as it was launched.
---@param result Ref
---@param barrier Barrier
function tc.try_cluster_cancel(result, barrier) end

---Lets allocations share storage. Each argument is one alternative: a ref, or a list of refs that stand one after the other. All are in SMEM, or all in TMEM.
---
---The refs themselves stay usable; the union has `.space`, and for TMEM `.collective` and `.layout`.
---
---Writing one member makes the others undefined: use them one after the other, with the wait between that the memory itself would want (an MMA that reads or writes a member is waited for before another member is stored to). The emulator tracks bytes and columns, not members. On `sm_90a` members in TMEM share a budget of registers.
---@param first Ref|Ref[]
---@param second Ref|Ref[]
---@param ... Ref|Ref[]
---@return Union
function tc.union(first, second, ...) end

---Makes a device the current one: new arrays live on it, and `tc.cuda` compiles for its target. Arrays made before stay where they are.
---@param device tcmma.device|string
---@return tcmma.device
function tc.use(device) end

---A variable of the kernel with that initial value; its type is that of `x` (an integer makes an s32, a float an f32).
---
---Each role has its own copy. A var that is set in a role's block belongs to that role; one that is set in shared code is set nowhere else. Fragments only in role code.
---@param x number|boolean|Scalar|Fragment
---@return Var
function tc.var(x) end

---The versions of what tcmma runs on: `lua`, `driver` (the CUDA version that the driver offers), `nvjitlink`, `nvrtc`. A field is nil where the library is missing.
---@return table
function tc.versions() end

---Waits for the role's TMEM loads, so that an MMA of this role may overwrite what they read.
function tc.wait_load_tmem() end

---Waits until at most `n` groups of this role's SMEM-to-GMEM copies are unfinished; with `wait_read_only` until their SMEM has been read. That is also enough in a kernel that never looks at what it has copied, and taken unless `wait_read_only = false` says that GMEM must be written, as before another copy to the same place.
---@param n integer
---@param opts? {wait_read_only?: boolean}
function tc.wait_smem_to_gmem(n, opts) end

---Records a branch. A Lua boolean, or a condition that is constant, records only the body that it chooses.
---@param cond boolean|Scalar
---@param body function
---@param else_body? function
function tc.when(cond, body, else_body) end

---a where the condition holds, else b, by elements; a bool fragment comes from `:lt` and so on.
---@param cond Fragment|Scalar
---@param a number|Scalar|Fragment
---@param b number|Scalar|Fragment
---@return Fragment|Scalar
function tc.where(cond, a, b) end

---A new array of zeros (in `float8_e8m0fnu`, which has none, of 2^-127).
---@param shape integer[]
---@param dtype DType
---@param opts? {device?: tcmma.device|string}
---@return tcmma.array
function tc.zeros(shape, dtype, opts) end

tc.matmul = {}

---Every configuration that fits, best first by the cost model: `{config=, microseconds=, terms=}`, to be given to
---`tc.autotune`.
---@param problem table
---@return table[]
function tc.matmul.candidates(problem) end

---The configuration that a problem gets: `tile_m`, `tile_n`, `tile_k`, `stages`, `group`, `swap`, `split_k`, `cluster`,
---`cluster_n`, `piece`, `slots`. A partial `config` is completed; `ctas` is there only if it was given.
---@param problem table
---@param config? table
---@return table
function tc.matmul.choose(problem, config) end

---A configuration in words: "128x256x64 s4 g8".
---@param config table
---@return string
function tc.matmul.describe(config) end

---The kernel for a problem without arrays, and its complete configuration. `problem` has `M`, `N`, `K`, `dtype`, and
---what differs from the defaults: `out_dtype`, `transpose_b`, `epilogue`, `target`, `accumulate_f32`, and the dtypes of
---`bias`, `residual`, `row_scale`, `column_scale`. The kernel takes the arrays a, b, those, out, in this order.
---@param problem table
---@param config? table
---@return tcmma.kernel
---@return table
function tc.matmul.kernel(problem, config) end

---Measures the model's best candidates with `tc.autotune` and makes `matmul` take the winner for this problem. Returns
---the configuration and all results.
---@param a tcmma.array
---@param b tcmma.array
---@param out tcmma.array
---@param opts? MatmulOptions
---@param tuning? AutotuneOptions
---@return table
---@return table
function tc.matmul.tune(a, b, out, opts, tuning) end

tc.npy = {}

---Reads a `.npy` file (versions 1 to 3, C order, little-endian) into a new array. nil and a message where
---the file is missing or holds something else.
---@param path string
---@param opts? {device?: tcmma.device|string}
---@return tcmma.array?
---@return string?
---@return string?
function tc.npy.load(path, opts) end

---Writes a `.npy` file of version 1.0. NumPy has no bfloat16, fp8, fp6, fp4, int4 and tf32: those are refused; use
---`tc.safetensors`, or save `array:view "u16"`. nil and a message where the file cannot be written.
---@param path string
---@param array tcmma.array
---@return tcmma.array?
---@return string?
---@return string?
function tc.npy.save(path, array) end

tc.reference = {}

---The product in double precision on the host, for tests: products are summed over ascending k,
---then `bias` (one element a column) is added, then negative results become 0 with `relu`. A
---float64 array on the device of `a`.
---@param a tcmma.array
---@param b tcmma.array
---@param opts? {transpose_a?: boolean, transpose_b?: boolean, bias?: tcmma.array, relu?: boolean}
---@return tcmma.array
function tc.reference.matmul(a, b, opts) end

tc.safetensors = {}

---Reads every array of a `.safetensors` file: a table by name, and the file's metadata. nil and a message
---where the file is missing or damaged.
---@param path string
---@param opts? {device?: tcmma.device|string}
---@return table<string, tcmma.array>?
---@return table|string
function tc.safetensors.load(path, opts) end

---Writes arrays by name into a `.safetensors` file. Every element type but tfloat32,
---int4, uint4 and uint2 has a name there.
---@param path string
---@param arrays table<string, tcmma.array>
---@param metadata? table<string, string>
---@return table?
---@return string?
function tc.safetensors.save(path, arrays, metadata) end

---Elements in the memory of a device, in C order (the last dimension is contiguous). An array
---lives on the device that was current when it was made, or on the one of the option `device`.
---Types of fewer than 8 bits are packed densely, the first element in the low bits. `#array` is the
---first size.
---
---**Coordinates of elements begin at 0**, as everything the hardware counts; the tables that go in
---and out are ordinary Lua tables and begin at 1.
---@class tcmma.array
---@field shape integer[] The sizes; a new table each time.
---@field dtype tcmma.dtype
---@field device tcmma.device
---@field rank integer Number of dimensions.
---@field elements integer Number of elements.
---@field nbytes integer Bytes of memory.
---@field address integer Address on the device.
local class_array = {}

---A converted copy on the same device. Rounds once; the rules are those of `dtype:encode`.
---@param dtype DType
---@return tcmma.array
function class_array:astype(dtype) end

---A copy on the same device.
---@return tcmma.array
function class_array:copy() end

---Overwrites every element with those of an array of the same shape (of any type and device) or
---of a table, flat or nested; returns the array.
---@param source tcmma.array|table
---@return tcmma.array
function class_array:copy_from(source) end

---Whether shape, type and every bit are the same; NaNs with the same bits are equal, 0 and -0 are
---not.
---@param other tcmma.array
---@return boolean
function class_array:equal(other) end

---Sets every element; returns the array.
---@param value number|boolean
---@return tcmma.array
function class_array:fill(value) end

---Gives the memory back now; a second call does nothing. Every later use of the array, or of a
---view of it, is an error. `local a <close> = ...` does the same at the end of the block.
function class_array:free() end

---Overwrites the memory of the array with a string of `nbytes` bytes; returns the array.
---@param bytes string
---@return tcmma.array
function class_array:frombytes(bytes) end

---One element; as many coordinates as the array has dimensions. **They begin at 0.**
---@param ... integer
---@return number|boolean
function class_array:get(...) end

---The greatest element and its coordinates (from 0), the first if there are several; NaN wins.
---@return number
---@return integer[]
function class_array:max() end

---The least element and its coordinates (from 0), the first if there are several; NaN wins.
---@return number
---@return integer[]
function class_array:min() end

---A view of the same memory with another shape of as many elements. One size may be -1.
---@param shape integer[]
---@return tcmma.array
function class_array:reshape(shape) end

---`set(i, j, value)` writes one element. **Coordinates begin at 0.** Returns the array.
---@param ... number|boolean
---@return tcmma.array
function class_array:set(...) end

---Prints the array and its elements, as `tostring_values` gives them.
---@param opts? {precision?: integer, edge?: integer}
function class_array:show(opts) end

---The sum of all elements: of floats compensated in double, in order; of integers modulo 2^64.
---@return number
function class_array:sum() end

---A copy on another device; the array itself if it is there already.
---@param device tcmma.device|string
---@return tcmma.array
function class_array:to(device) end

---The memory of the array.
---@return string
function class_array:tobytes() end

---The elements as text. Of long dimensions only `edge` elements at each end are shown (3 unless
---given); floats have `precision` digits.
---@param opts? {precision?: integer, edge?: integer}
---@return string
function class_array:tostring_values(opts) end

---The elements as nested tables, one level a dimension. Types narrower than a double come back
---exactly; a `uint64` above `math.maxinteger` as the negative integer with the same bits.
---@return table
function class_array:totable() end

---A view of the same memory with another element type: no value is converted. The last
---dimension shrinks or grows with the size of an element.
---@param dtype DType
---@return tcmma.array
function class_array:view(dtype) end

---A barrier or an array of them; `barrier[i]` is one, 0-based.
---@class tcmma.barrier
---@field num_arrivals integer
---@field num_barriers integer
---@field orders_tensor_core boolean
local class_barrier = {}

---Where arrays live and kernels run.
---@class tcmma.device
---@field name string "cuda:0", "emulator:sm_100a"
---@field target string "sm_100a"
---@field is_emulator boolean
---@field properties table `description`, `sm_count`, `max_threads`, `clock_khz`, `memory`, `memory_free`, `smem_limit` (bytes). An emulated device has the `sm_count` of an H200 (sm_90a: 132), a B200 (sm_100a: 148) or a B300 (sm_103a: 148)
local class_device = {}

---A new event, for measuring: `e:record(stream?)`, `e2:since(e1)`.
---@return tcmma.event
function class_device:event() end

---A new stream: launches on one stream run in order. On the emulator a launch is finished when it returns, whatever its stream.
---@return tcmma.stream
function class_device:stream() end

---Waits for all work on the device. A fault of a kernel that ran since the last wait is raised here and names the kernel. A kernel that does not end is named on standard error after 10 s (`TCMMA_GPU_PROGRESS`); `TCMMA_GPU_TIMEOUT` makes it an error, Ctrl-C ends the wait. So it is with everything that waits: copies, streams, events.
---@return tcmma.device
function class_device:synchronize() end

---Makes it the current device, as `tc.use` does.
---@return tcmma.device
function class_device:use() end

---The type of an element. `tc.float16`, `tc.f16`, `"float16"` and `"f16"` mean the same wherever
---a dtype is expected; there is one object of each type, so `==` compares them. `tostring` gives
---the long name.
---@class tcmma.dtype
---@field name string Long name, `"float16"`.
---@field short string Short name, `"f16"`.
---@field bits integer Bits an element, in memory.
---@field kind string `"float"`, `"int"`, `"uint"` or `"bool"`.
---@field max number Largest finite value.
---@field min number Smallest finite value: most negative, but 2^-127 in `float8_e8m0fnu`.
local class_dtype = {}

---The value of an element with these bits. A `uint64` above `math.maxinteger` comes back as
---the negative integer with the same bits.
---@param bits integer
---@return number
function class_dtype:decode(bits) end

---The bits of `x` as an element of this type. Rounds once, to nearest even.
---
---- `float16`, `bfloat16`, `tfloat32`, `float32` overflow to infinity; NaN becomes the
---  canonical NaN of `cvt` (`0x7fff`; `0x7fffffff` in f32, `0x7fffe000` in tf32).
---- fp8, fp6 and fp4 saturate, infinity too, as `cvt.rn.satfinite` does. NaN becomes `0x7f` in
---  `e4m3` and `e5m2`, and the largest value in the types that have no NaN.
---- `float8_e8m0fnu` rounds up to a power of two, as `cvt.rp.satfinite` does; zero and
---  negative numbers become 2^-127, NaN `0xff`.
---- Integers saturate; NaN becomes 0. `bool` is 1 for everything but zero.
---@param x number
---@return integer
function class_dtype:encode(x) end

---A point in the order of launches, with its time.
---@class tcmma.event
local class_event = {}

---Marks the present point of the stream, or of the device's own order of launches.
---@param stream? tcmma.stream
---@return tcmma.event
function class_event:record(stream) end

---Milliseconds from the earlier event to this one; waits for both, which were recorded.
---@param earlier tcmma.event
---@return number
function class_event:since(earlier) end

---A register tile of one role. The operators `+ - * / // % & | ~ << >>` work by elements and broadcast as in numpy; Lua numbers and recorded scalars take its dtype. float32, float16, bfloat16, int32 and uint32 are computed in. `/` is of floats, float32 within 2 ulp, exactly rounded by a constant power of two; `//` and `%`, which floor as in Lua, bits and shifts are of integers; `>>` of int32 keeps the sign.
---@class tcmma.fragment
---@field shape integer[]
---@field dtype tcmma.dtype
---@field rank integer
local class_fragment = {}

---Converted: to floats rounded to nearest even, to integers truncated. No dtype is converted silently.
---@param dtype DType
---@return Fragment
function class_fragment:astype(dtype) end

---Repeated along `axis` of `shape`: self lacks that axis or has extent 1 there. A per-row vector (m,) becomes (m, n) by `:broadcast({m, n}, 1)`.
---@param shape integer[]
---@param axis integer
---@return Fragment
function class_fragment:broadcast(shape, axis) end

---self == other by elements: a bool fragment.
---@param other number|Scalar|Fragment
---@return Fragment
function class_fragment:eq(other) end

---self >= other by elements: a bool fragment.
---@param other number|Scalar|Fragment
---@return Fragment
function class_fragment:ge(other) end

---self > other by elements: a bool fragment.
---@param other number|Scalar|Fragment
---@return Fragment
function class_fragment:gt(other) end

---self <= other by elements: a bool fragment.
---@param other number|Scalar|Fragment
---@return Fragment
function class_fragment:le(other) end

---self < other by elements: a bool fragment.
---@param other number|Scalar|Fragment
---@return Fragment
function class_fragment:lt(other) end

---self ~= other by elements: a bool fragment.
---@param other number|Scalar|Fragment
---@return Fragment
function class_fragment:ne(other) end

---Combines the elements along `axis` (0-based), which the result lacks; "absmax" and "absmin" of the magnitudes. A NaN does not count for the greatest and the least.
---@param op "max"|"sum"|"min"|"absmax"|"absmin"
---@param axis integer
---@return Fragment
function class_fragment:reduce(op, axis) end

---A kernel of a module.
---@class tcmma.function
---@field name string
---@field entry string The name in the PTX
---@field module tcmma.module
local class_function = {}

---Runs the kernel on the emulator, wherever its arrays live (they are copied there and back), and returns a report; faults are entries of the report, not errors. `trace` (mode `"check"` unless `"random"` is given) keeps what `report:trace` writes.
---@param opts? {grid?: integer[], block?: integer[], cluster?: integer[], smem?: integer, args?: any[], target?: string, mode?: string, numerics?: string, seed?: integer, max_instructions?: integer, threads?: integer, trace?: boolean}
---@return tcmma.report
function class_function:emulate(opts) end

---The entry as `module:kernels()` shows it, and what the assembler says: `registers`, `spill_stores`, `spill_loads`, `stack`, `smem` (static), `barriers`.
---@param opts? {target?: string}
---@return table?
---@return string?
---@return string?
function class_function:info(opts) end

---Launches the kernel where its arrays live. `grid` counts blocks, sizes are x, y, z and 1 where left out; `smem` is dynamic shared memory in bytes. An argument is an array, a number (converted to the parameter's PTX type, with a range check), a `tc.tensormap`, or a string with exactly the bytes of a struct. `programmatic_stream_serialization` lets a kernel with `griddepcontrol.wait` start before the launch in front of it has ended. On a GPU it returns at once; on the emulator when the grid has ended, and a fault is an error.
---@param opts? {grid?: integer[], block?: integer[], cluster?: integer[], smem?: integer, args?: any[], stream?: tcmma.stream, device?: tcmma.device|string, programmatic_stream_serialization?: boolean}
---@return tcmma.function
function class_function:launch(opts) end

---The description of a kernel argument.
---@class tcmma.gmem
local class_gmem = {}

---What a kernel takes of the machine: a table. `print(info)` is one line, `info:show()` all that is known.
---@class tcmma.info
---@field target string
---@field entry string The kernel's name in the PTX
---@field threads integer
---@field warps integer
---@field smem integer Bytes
---@field tmem_columns integer
---@field barriers integer
---@field named_barriers integer
---@field params integer
---@field text string Roles and allocations
---@field lints table[] `{rule=, message=, lua_file=, lua_line=, role=}`: what is legal and likely to be wrong, as reports of mode check list it, and `warnings`
---@field assembler string? Which one: this and the following fields are its own
---@field registers integer? Of a thread
---@field spill_stores integer? Bytes
---@field spill_loads integer? Bytes
---@field stack integer? Bytes
---@field warnings string[]? Messages of lost performance, which the first launch on a GPU tells too
---@field log string?
---@field assembler_missing string? The reason
---@field estimate table? `machine`, `ctas_per_sm`, `occupancy_limit`, `ctas`, `waves`, `clocks` of the kernel, `tensor_clocks` that its MMAs occupy the tensor core, `flop`, `k_steps` (MMAs of an SM), `bytes` and `bytes_per_k_step` of an SM and `busy` (0 to 1) by path (`dram`, `l2`, `smem`, `tmem`, `out`; `tensor`: the tensor core, which MMAs of 64 rows occupy as those of 128 do), `l2_miss`, `bound`, `utilization` (`tflops` of `peak_tflops`, the peak of the kinds that it multiplies with), `microseconds`
---@field estimate_missing string? The reason
local class_info = {}

---Prints all fields, a line each.
function class_info:show() end

---A recorded kernel. Calling it runs it.
---@class tcmma.kernel
---@field name string
---@field finished boolean The recording is closed
---@field grid_rank integer Axes of the grid
---@field cluster_rank integer Axes of the cluster, 0 without one
---@field grid_names string[] Empty where the axes have no names
---@field cluster_names string[] Empty where the axes have no names
---@field roles tcmma.role[]
---@field role tcmma.role? Whose block is being recorded
---@field in_loop boolean What is recorded now stands in a loop
local class_kernel = {}

---Gives the recording and everything compiled from it back. Its refs, barriers and so on can no longer be used. Closing twice is fine.
function class_kernel:close() end

---The assembled kernel, and the assembler's log. It needs nvJitLink but no GPU: without it, nil, a message, `no-assembler`.
---@param opts? {target?: string}
---@return string?
---@return string
---@return string?
function class_kernel:cubin(opts) end

---The kernel after a pass of the compiler: `"record"`, `"lower"`, `"roles"`, `"place"`, `"emit"`.
---@param pass string
---@param opts? {target?: string}
---@return string
function class_kernel:dump(pass, opts) end

---Runs the kernel on the emulator wherever its arrays live (they are copied there and back). `mode` is `"fast"`, `"check"` or `"random"`, else that of `tc.config`; fast looks for no races. `numerics` is `"f32"` or `"hardware"`. Hazards are in the report, not errors. `trace` keeps what `report:trace` writes, in mode `"check"` unless `"random"` is given.
---@param opts? {target?: string, mode?: string, numerics?: string, seed?: integer, max_instructions?: integer, threads?: integer, trace?: boolean}
---@param ... tcmma.array
---@return tcmma.report
function class_kernel:emulate(opts, ...) end

---Writes `path.ptx`, `path.cubin` (where there is an assembler) and `path.json` with all that a launcher in another language needs; a path that ends in `.ptx` or `.cubin` writes that file alone. Returns the files' names.
---@param path string
---@param opts? {target?: string}
---@return string[]
function class_kernel:export(path, opts) end

---Ends the recording and returns the kernel, which can then be called.
---
---Raises inside a block (`tc.range`, a role ...), on a kernel that is finished already, and where the whole kernel is at fault (see `tc.kernel`): the recording then stays open.
---@return Kernel
function class_kernel:finish() end

---What the kernel takes, and `estimate`: what it would reach on a machine of the target with TMEM, by a model that docs/performance.md describes. What uses `setmaxnreg` is assembled by `ptxas` where it is installed, and for a launch by the driver: nvJitLink does not honour it.
---@param opts? {target?: string}
---@return tcmma.info
function class_kernel:info(opts) end

---Runs the kernel on the device of its arrays, as calling it does, on a stream of that device. It is compiled at the first launch on a target and kept. Shapes and dtypes must be those of `args`; a named dimension has one size in all of them. On a GPU it returns at once; on the emulator when the grid has ended, and a hazard of severity "error" is a Lua error with the whole report.
---@param opts? {stream?: tcmma.stream, device?: tcmma.device|string}
---@param ... tcmma.array
function class_kernel:launch(opts, ...) end

---How many operations are recorded.
---@return integer
function class_kernel:len() end

---What is recorded, as text: arguments, allocations and barriers, then one line per operation with its Lua line, blocks indented.
---@return string
function class_kernel:ops() end

---Runs a kernel that was built with `profile = true`, waits for its end, and returns a report whose `:trace(path)` shows when each role did what. On a GPU the first thread of each role writes the time of its ops, in the first 64 CTAs, up to 4096 of a role; this takes some time itself. On the emulator it is `:emulate{trace = true}`. A plain launch of such a kernel writes nothing.
---@param opts? {device?: tcmma.device|string}
---@param ... tcmma.array
---@return tcmma.report
function class_kernel:profile(opts, ...) end

---The PTX for a target; without the option, for the kernel's own, else for the current device's. Works on an open recording too.
---@param opts? {target?: string}
---@return string
function class_kernel:ptx(opts) end

---The machine code as text, by `nvdisasm` or `cuobjdump`; nil, a message, `no-disassembler` where there is neither.
---@param opts? {target?: string}
---@return string?
---@return string?
---@return string?
function class_kernel:sass(opts) end

---Foreign code: a PTX text and its kernels.
---@class tcmma.module
---@field target string The text's `.target`
---@field ptx_version string The text's `.version`
local class_module = {}

---The assembled module and the assembler's log. Without nvJitLink: nil, a message, `no-assembler`.
---@param opts? {target?: string}
---@return string?
---@return string
---@return string?
function class_module:cubin(opts) end

---A kernel of the module, by the name of its entry or, where that is unique, by the plain name of a C++ function. The name may be left out when there is one kernel only.
---@param name? string
---@return tcmma.function
function class_module:kernel(name) end

---All entries: `{name=, params={{name=, type=, bytes=}}, max_threads=, required_threads=, required_cluster=}`.
---@return table[]
function class_module:kernels() end

---The PTX text.
---@return string
function class_module:ptx() end

---A view of GMEM, SMEM or TMEM. `ref[i]` indexes its first dimension, 0-based.
---@class tcmma.ref
---@field shape any[] A named dimension is a recorded s32, which can be computed with
---@field dtype tcmma.dtype
---@field space tcmma.space
---@field rank integer
---@field swizzle any? Of SMEM: bytes, or `"128B_atom_32B"`
---@field collective boolean? Of TMEM
---@field layout string? Of TMEM
local class_ref = {}

---The transpose: the view with its last two dimensions swapped. Nothing is moved. Legal on SMEM and GMEM.
---@return Ref
function class_ref:T() end

---A view: one index per dimension, 0-based; an integer or recorded value drops the dimension, `tc.ds(start, size)` and `tc.all` keep it. Missing indices are `tc.all`.
---
---Nothing is moved. TMEM is sliced along columns only.
---
---One index into an argument may be a vector of uint32, a ref in SMEM or GMEM or a fragment (which is stored to SMEM), where the last dimension is a slice and all others are integers: `x:at(rows, tc.ds(0, n))`, `x:at(batch, rows)`, `x:at(rows, head)`. The view has the rows that it names, in its order. Such a view is copied by `tc.copy_gmem_to_smem` (a gather) and `tc.copy_smem_to_gmem` (a scatter), on `sm_100a`. One thread reads the numbers, after the role's own stores of them.
---@param ... integer|Scalar|Slice|Ref|Fragment
---@return Ref
function class_ref:at(...) end

---Loads from SMEM or GMEM: one element (every dimension indexed) into a recorded scalar, a ref of 1 or 2 dimensions into a fragment.
---
---A fragment needs a role of whole warpgroups. Elements outside a GMEM array are 0. Elements of 4 bits are moved by pairs: the last dimension of the array is even, and so are start and size of the view along it. TMEM is loaded by `tc.async_load_tmem`.
---@return Scalar|Fragment
function class_ref:load() end

---Runs what is recorded so far on the emulator, prints what the ref holds at the end, and returns that as an array of the view's shape. The recording stays as it is, open or finished.
---
---- `args`: the arrays of the run, which works on copies of them; they are kept for the peeks that follow. An argument without an array gets random normal numbers (integers from -4 to 4), the same ones each time
---- `target`: the kernel's own, else that of the current device; for TMEM one that has it
---- `mode`, `numerics`, `seed`: as for `kernel:emulate`; `mode` is "fast" unless given; in the others an MMA that nobody waits for is an error
---- `cta`: the block to look at, {x, y, z} as in a report; default {0, 0, 0}
---- `quiet`: print nothing
---
---Works on TMEM, SMEM and arguments. TMEM that nobody has written holds the emulator's pattern 0x7fc0dead (a NaN) in each column. Scales and sparsity metadata, which are no rows and columns, come as they lie: uint32, 128 lanes by columns. A recording that waits for what never comes raises an error that names the barrier.
---@param opts? {args?: tcmma.array[], target?: string, mode?: string, numerics?: string, seed?: integer, cta?: integer[], quiet?: boolean}
---@return tcmma.array
function class_ref:peek(opts) end

---Stores into SMEM or GMEM: a fragment of the ref's shape and dtype, or one value into every element. `ref[i] = x` is `ref[i]:store(x)`. Elements of 4 bits are stored by pairs, as they are loaded.
---
---What lies outside a GMEM array is not written. Before TMA or an MMA reads the stored SMEM, call `tc.commit_smem()`. TMEM is stored by `tc.async_store_tmem`.
---- `barrier`: for SMEM of another CTA (`tc.cluster_ref`) with elements of 32 bits. The store is asynchronous, and one arrival on that CTA's barrier, whose phase completes when the values are there: no arrival of the role and no fence is needed
---@param value Fragment|Scalar|number
---@param opts? {barrier?: Barrier}
function class_ref:store(value, opts) end

---The tile number `index` of size `shape`, both per dimension: it starts at index * shape.
---
---A tile of GMEM may overhang the array: loads give 0 there, stores are clipped.
---@param index (integer|Scalar)[]
---@param shape integer[]
---@return Ref
function class_ref:tile(index, shape) end

---What an emulated run left behind: a table.
---@class tcmma.report
---@field completed boolean False where an error stopped the grid
---@field hazards table[] `{rule=, severity=, message=, ptx_line=, lua_file=, lua_line=, other_lua_file=, other_lua_line=, cta={x, y, z}, warp=, role=, count=}`; severity is "error" or "lint". The other line is that of the earlier access. Of foreign code with line information (`tc.cuda`, PTX with `.loc`) `file=, line=, other_file=, other_line=` in place of Lua's, `inlined_at={{file=, line=}}` and `other_inlined_at`: the calls of a function that was inlined, from the nearest on; `text` and `other_text`: what stands there in the source that `tc.cuda` was given. One hazard for each rule and pair of lines, `count` times seen. Lints of the recording, which `k:info()` lists too, have neither PTX line nor warp
---@field counters table Instructions, bytes by space, MMA flops, `seconds`
---@field output string What the kernel printed
---@field trace_text string? The trace that `trace` writes, of a run with `trace = true`
---@field kernel string
---@field target string
---@field device string
---@field mode string? "fast", "check" or "random"; nil of a GPU
local class_report = {}

---Prints the hazards with their places, the counters, and what the kernel printed.
function class_report:show() end

---The hazards with their places, as `show` prints them; `tostring` of a report is one line.
---@return string
function class_report:text() end

---Writes what the run's roles and engines did, and what they waited for, as a trace that ui.perfetto.dev and chrome://tracing show: a process for each CTA, a track for each role (its first warp), for copies in, copies out and the tensor core. The time is emulated, by the costs of docs/performance.md; each cluster begins at 0. The run needs `trace = true`.
---@param path string
---@return tcmma.report
function class_report:trace(path) end

---A role; called with a function it records a block.
---@class tcmma.role
---@field name string
---@field warps integer In all; a warpgroup is 4
local class_role = {}

---A recorded scalar: s32, f32 or a predicate. Operators record. Of s32: `+ - * // % & | ~ << >>`, which wrap; `//` and `%` floor as in Lua, `>>` keeps the sign (in Lua it does not). Of f32: `+ - * /`, `/` within 2 ulp. Of predicates: `& | ~`. It has no value while recording.
---@class tcmma.scalar
---@field dtype tcmma.dtype `tc.int32`, `tc.float32` or `tc.bool`
local class_scalar = {}

---Converted to tc.float32 (rounded to nearest), tc.int32 (truncated) or tc.bool (not 0).
---@param dtype DType
---@return Scalar
function class_scalar:astype(dtype) end

---Records the comparison self == other; the result is a predicate, for `tc.when`, `tc.stop`, `:select`.
---@param other number|Scalar
---@return Scalar
function class_scalar:eq(other) end

---Records the comparison self >= other; the result is a predicate, for `tc.when`, `tc.stop`, `:select`.
---@param other number|Scalar
---@return Scalar
function class_scalar:ge(other) end

---Records the comparison self > other; the result is a predicate, for `tc.when`, `tc.stop`, `:select`.
---@param other number|Scalar
---@return Scalar
function class_scalar:gt(other) end

---Both predicates hold.
---@param other boolean|Scalar
---@return Scalar
function class_scalar:land(other) end

---Records the comparison self <= other; the result is a predicate, for `tc.when`, `tc.stop`, `:select`.
---@param other number|Scalar
---@return Scalar
function class_scalar:le(other) end

---The predicate does not hold.
---@return Scalar
function class_scalar:lnot() end

---One of the predicates holds.
---@param other boolean|Scalar
---@return Scalar
function class_scalar:lor(other) end

---Records the comparison self < other; the result is a predicate, for `tc.when`, `tc.stop`, `:select`.
---@param other number|Scalar
---@return Scalar
function class_scalar:lt(other) end

---Records the comparison self ~= other; the result is a predicate, for `tc.when`, `tc.stop`, `:select`.
---@param other number|Scalar
---@return Scalar
function class_scalar:ne(other) end

---a where the predicate self holds, else b; both are computed.
---@param a number|Scalar
---@param b number|Scalar
---@return Scalar
function class_scalar:select(a, b) end

---A slice for `ref:at`.
---@class tcmma.slice
local class_slice = {}

---A memory space: `tc.GMEM` (global), `tc.SMEM` (shared) or `tc.TMEM` (tensor memory). The names
---as strings mean the same.
---@class tcmma.space
local class_space = {}

---An order of launches on a device.
---@class tcmma.stream
local class_stream = {}

---Waits for the stream's work.
---@return tcmma.stream
function class_stream:synchronize() end

---How TMA sees an array: made by `tc.tensormap`.
---@class tcmma.tensormap
local class_tensormap = {}

---Allocations that share storage.
---@class tcmma.union
---@field space tcmma.space
---@field collective boolean? Of TMEM
---@field layout string? Of TMEM
local class_union = {}

---A variable of the kernel.
---@class tcmma.var
local class_var = {}

---The value at this place.
---@return Scalar|Fragment
function class_var:get() end

---Gives the var a new value of its type (for a fragment: of its shape and dtype).
---@param x number|boolean|Scalar|Fragment
function class_var:set(x) end

return tc
