--- Which CTA does which tile: loops over work that is given out, and orders to walk in.

local arguments = require "tcmma.arguments"
local documentation = require "tcmma.documentation"
local grids = require "tcmma.grid"
local tc = require "tcmma"

local are_names, as_list, is_index, show = grids.are_names, grids.as_list, grids.is_index, grids.show

local schedule = {}

-- ---- numbers of Lua and of the kernel alike -------------------------------------------------------------------

local function is_less(a, b)
  if math.type(a) and math.type(b) then return a < b end
  return math.type(a) and b:gt(a) or a:lt(b)
end

local function choose(condition, a, b)
  if type(condition) == "boolean" then return condition and a or b end
  return condition:select(a, b)
end

--- A list of extents.
local function is_extents(list)
  return type(list) == "table" and #list > 0 and grids.all_of(list, function(extent)
    return is_index(extent) and not (math.type(extent) and extent < 1)
  end)
end

-- ---- static scheduling ----------------------------------------------------------------------------------------

--- The number of this worker among those along the axes, and how many there are.
local function worker_of(axes)
  local worker, workers, seen = 0, 1, {}
  for _, axis in ipairs(axes) do
    if seen[axis] then arguments.documented("LOOP_AXIS_TWICE", axis) end
    seen[axis] = true
    local size = tc.axis_size(axis)
    worker = size == 1 and worker or worker * size + tc.axis_index(axis)
    workers = workers * size
  end
  return worker, workers
end

local loop_options = {
  collective_axes = { are_names, "the name of an axis, or a list of them" },
  tiling = { function(value)
    return grids.all_of(value, function(size) return math.type(size) == "integer" and size >= 1 end)
  end, "a list of integers >= 1" },
}

local function check_tiling(tiling, grid)
  if #tiling ~= #grid then
    arguments.documented("LOOP_TILING_RANK", show(tiling), show(grid))
  end
  for i, size in ipairs(tiling) do
    if math.type(grid[i]) and grid[i] % size ~= 0 then
      arguments.documented("LOOP_TILING", show(tiling), show(grid))
    end
  end
end

function schedule.nd_loop(grid, body, opts)
  arguments.check(is_extents(grid), 1, "nd_loop", "grid: a list of integers >= 1 or recorded scalars", grid)
  grids.check_size(grid, 1, "nd_loop")
  arguments.check(type(body) == "function", 2, "nd_loop", "body: function", body)
  opts = arguments.check_options(opts, 3, "nd_loop", loop_options)
  if not opts.collective_axes then
    arguments.documented "LOOP_AXES"
  end
  local walked, total = grid, grids.size(grid)
  if opts.tiling then
    check_tiling(opts.tiling, grid)
    walked = {}
    for i, extent in ipairs(grid) do walked[i] = extent // opts.tiling[i] end
    table.move(opts.tiling, 1, #grid, #grid + 1, walked)
  end
  local worker, workers = worker_of(as_list(opts.collective_axes))
  local steps = (total + (workers - 1) - worker) // workers
  if math.type(total) and total % workers == 0 then steps = total // workers end
  tc.range(steps, function(step)
    local index = grids.unravel(workers == 1 and step or step * workers + worker, walked)
    if opts.tiling then
      local whole = {}
      for d, size in ipairs(opts.tiling) do whole[d] = index[d] * size + index[#grid + d] end
      index = whole
    end
    body { index = index, local_index = step, num_local_steps = steps }
  end)
end

--- Of what is known: a number of an element of the plane.
local function check_lin_idx(lin_idx, shape)
  if not math.type(lin_idx) then return end
  local count = grids.all_of(shape, math.type) and shape[1] * shape[2]
  if lin_idx < 0 or count and lin_idx >= count then
    arguments.documented("SNAKE_INDEX", lin_idx, show(shape))
  end
end

function schedule.planar_snake(lin_idx, shape, minor_dim, tile_width)
  arguments.check(is_index(lin_idx), 1, "planar_snake", "lin_idx: integer or recorded s32", lin_idx)
  arguments.check(is_extents(shape) and #shape == 2, 2, "planar_snake",
    "shape: a list of two integers >= 1 or recorded scalars", shape)
  arguments.check(minor_dim == 0 or minor_dim == 1, 3, "planar_snake", "minor_dim: 0 or 1", minor_dim)
  arguments.check(math.type(tile_width) == "integer" and tile_width >= 1, 4, "planar_snake",
    "tile_width: an integer >= 1", tile_width)
  check_lin_idx(lin_idx, shape)
  local minor_size, major_size = shape[minor_dim + 1], shape[2 - minor_dim]
  local strip = lin_idx // (major_size * tile_width)
  local within = lin_idx - strip * (major_size * tile_width)
  local width = tile_width
  if not math.type(minor_size) or minor_size % tile_width ~= 0 then
    -- The last strip is narrower.
    local full = minor_size // tile_width
    local rest = minor_size - full * tile_width
    if not math.type(rest) then rest = tc.max(rest, 1) end
    width = choose(is_less(strip, full), tile_width, rest)
  end
  local minor, major = strip * tile_width + within % width, within // width
  local odd = strip % 2
  major = choose(is_less(0, odd), major_size - 1 - major, major)
  if minor_dim == 0 then return minor, major end
  return major, minor
end

-- ---- dynamic scheduling ---------------------------------------------------------------------------------------

function schedule.cluster_cancel_result(num_buffers)
  arguments.check(num_buffers == nil or math.type(num_buffers) == "integer" and num_buffers >= 1, 1,
    "cluster_cancel_result", "num_buffers: an integer >= 1", num_buffers)
  return tc.smem(num_buffers and { num_buffers, 16 } or { 16 }, tc.uint8,
    { swizzle = "none", name = "cluster_cancel_result" })
end

--- The axes of a cluster of several CTAs, which all take part; nil without one.
local function cluster_of(kernel, given)
  local axes, known = {}, {}
  for _, name in ipairs(as_list(given or {})) do known[name] = true end
  if #kernel.cluster_names < kernel.cluster_rank then arguments.documented "LOOP_CLUSTER_NAMES" end
  for _, name in ipairs(kernel.cluster_names) do
    if given and not known[name] and tc.axis_size(name) > 1 then
      arguments.documented("LOOP_CLUSTER_AXES", name)
    end
    known[name] = nil
    if tc.axis_size(name) > 1 then axes[#axes + 1] = name end
  end
  local unknown = next(known)
  if unknown then arguments.documented("LOOP_UNKNOWN_AXIS", unknown) end
  return #axes > 0 and axes or nil
end

--- An element of the work is one of the whole grid: every axis of it counts.
local function check_grid_names(kernel, names)
  local named = {}
  for _, name in ipairs(names) do
    if named[name] then arguments.documented("LOOP_AXIS_TWICE", name) end
    named[name] = true
  end
  local known_names = kernel.grid_names
  for axis = 0, kernel.grid_rank - 1 do
    local name = known_names[axis + 1]
    local known, size = pcall(tc.axis_size, axis)
    if not (name and named[name]) and not (known and size == 1) then
      arguments.documented("LOOP_GRID_NAMES", name and "'" .. name .. "'" or "number " .. axis)
    end
  end
end

local function at_once(fn) fn() end

-- By kernel that has a dynamic loop, how many operations stand before it; no more, where it was taken back.
local before = setmetatable({}, { __mode = "k" })

local SLOTS = 2 -- answers that may be under way

--- The roles that read an answer, and the one that asks: a role of its own where there are roles.
local function readers_of(kernel)
  if kernel.role or #kernel.roles == 0 then return { at_once }, at_once end
  local readers = kernel.roles
  local asking = tc.role { name = "scheduler", warps = 1 }
  readers[#readers + 1] = asking
  return readers, asking
end

function schedule.dynamic_scheduling_loop(grid_names, body, opts)
  arguments.check(are_names(grid_names), 1, "dynamic_scheduling_loop", "grid_names: a list of names of grid axes",
    grid_names)
  arguments.check(type(body) == "function", 2, "dynamic_scheduling_loop", "body: function", body)
  opts = arguments.check_options(opts, 3, "dynamic_scheduling_loop", {
    cluster_axes = { are_names, "the name of a cluster axis, or a list of them" },
  })
  grid_names = as_list(grid_names)
  local kernel = tc.recording()
  if not kernel then arguments.documented "LOOP_NO_RECORDING" end
  if before[kernel] and #kernel > before[kernel] then arguments.documented "LOOP_TWICE" end
  if kernel.in_loop then arguments.documented "LOOP_NESTED" end
  local axes = cluster_of(kernel, opts.cluster_axes)
  check_grid_names(kernel, grid_names)
  local index = {}
  for i, name in ipairs(grid_names) do index[i] = tc.var(tc.axis_index(name)) end
  local readers, asking = readers_of(kernel)
  local results = schedule.cluster_cancel_result(SLOTS)
  local answered = tc.barrier { name = "answered", num_barriers = SLOTS }
  local read = (axes and tc.cluster_barrier or tc.barrier) {
    name = "answer_read", num_arrivals = #readers, num_barriers = SLOTS, collective_axes = axes and { axes } or nil,
  }
  local turn = tc.var(0)
  before[kernel] = #kernel
  tc.loop(function()
    local t = turn:get()
    local slot = t % SLOTS
    local here = {}
    for i, var in ipairs(index) do here[i] = var:get() end
    asking(function()
      tc.when(t:ge(SLOTS), function() tc.barrier_wait(read[slot]) end)
      tc.try_cluster_cancel(results[slot], answered[slot])
    end)
    body { index = here, local_index = t }
    for _, reader in ipairs(readers) do reader(function() tc.barrier_wait(answered[slot]) end) end
    local taken, success = tc.query_cluster_cancel(results[slot], grid_names)
    for _, reader in ipairs(readers) do reader(function() tc.barrier_arrive(read[slot]) end) end
    tc.stop(success:lnot())
    for i, var in ipairs(index) do var:set(taken[i]) end
    turn:set(t + 1)
  end)
end

arguments.public(schedule)

documentation.add("tcmma", {
  { "nd_loop", schedule.nd_loop, "nd_loop(grid: (integer|Scalar)[], body: function, opts: {collective_axes: "
    .. "string|string[], tiling?: integer[]})" .. [[

Records a loop over an N-dimensional grid of work that the CTAs along `collective_axes` share: element t, the last
dimension fastest, is done by worker t mod W in its turn t // W. A persistent kernel launches as many CTAs as fit, and
loops over the tiles.

`body` gets a table: `index` (a list of recorded scalars), `local_index` (the turn), `num_local_steps` (how many turns
this worker makes). Extents may be recorded. Options:
- `collective_axes` (required): axes of the grid or the cluster, by name
- `tiling`: the grid is walked tile by tile; it must divide the grid]] },
  { "planar_snake", schedule.planar_snake, "planar_snake(lin_idx: integer|Scalar, shape: (integer|Scalar)[], "
    .. "minor_dim: integer, tile_width: integer) -> integer|Scalar, integer|Scalar" .. [[

The element of a plane of `shape` that comes `lin_idx`-th, for tiles that lie near each other to be computed near each
other in time, when their operands are still in L2.

The plane is cut along `minor_dim` (0 or 1) into strips of `tile_width`; a strip is walked from one end of the other
dimension to the opposite one, the next strip back again. The last strip may be narrower. A constant `lin_idx`
must be of the plane; a recorded one is not looked at, and names an element outside where it is beyond.]] },
  { "cluster_cancel_result", schedule.cluster_cancel_result, "cluster_cancel_result(num_buffers?: integer) -> Ref"
    .. [[

The 16 bytes of SMEM that `tc.try_cluster_cancel` writes its answer to, or a ring of `num_buffers` of them, which
`result[i]` indexes.]] },
  { "dynamic_scheduling_loop", schedule.dynamic_scheduling_loop, "dynamic_scheduling_loop(grid_names: "
    .. "string|string[], body: function, opts?: {cluster_axes?: string|string[]})" .. [[

Records a loop over the work of this CTA and of those that it takes over: the kernel is launched with a grid of all the
work, a CTA begins with its own element of it, and asks, while that is computed, for one that has not started
(`tc.try_cluster_cancel`). So the CTAs that run share the work as they get it done, and the loads of a tile can run
under the epilogue of the one before.

`grid_names` names every axis of the grid longer than 1. `body` gets a table: `index` (a list of recorded scalars along
`grid_names`; `tc.axis_index` still says where this CTA began) and `local_index` (the turn). The loop stands in shared
code, once in a kernel and in no other loop, after the roles were made: every role gets it, and a role `scheduler` of
one warp is added that asks. In a kernel without roles, or inside a block of a role, that one asks.

A cluster takes over work together; `cluster_axes`, if given, must name all its axes. `sm_90a` has no launch control:
there each CTA does its own element and no other, with the same results.]] },
})

return schedule
