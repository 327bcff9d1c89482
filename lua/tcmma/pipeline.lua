--- Software pipelines over a grid of blocks: tc.emit_pipeline in one role, tc.emit_pipeline_warp_specialized in two.
--
-- A block of an input that changes from step to step has a ring of `max_concurrent_steps` tiles in SMEM; one that
-- stays the same has one tile, loaded once.  Each run of a pipeline awaits every phase of its barriers, so that a
-- pipeline may stand in a loop or in another pipeline; with `turn`, the ring goes on where the run of the turn before
-- has left it instead, and the memory role awaits a tile only where it loads the next one.

local arguments = require "tcmma.arguments"
local core = require "tcmma.core"
local documentation = require "tcmma.documentation"
local grids = require "tcmma.grid"
local tc = require "tcmma"

local pipeline = {}

local all_of, is_a, unravel = grids.all_of, grids.is_a, grids.unravel

local MOST_PROBED = 4096 -- points of a grid at which an index_map is tried

local fail = arguments.documented

local function at_least(least)
  return { function(value) return math.type(value) == "integer" and value >= least end,
    ("an integer >= %d"):format(least) }
end

local is_boolean = { function(value) return type(value) == "boolean" end, "a boolean" }

-- ---- blocks ---------------------------------------------------------------------------------------------------

local SPEC = { -- the metatable of specs
  __tostring = function(spec)
    arguments.check(type(spec) == "table", 1, "tostring", "table", spec)
    local fields = {}
    for _, name in ipairs { "shape", "delay_release", "swizzle", "collective_axes" } do
      local value = rawget(spec, name)
      if value ~= nil then fields[#fields + 1] = name .. " = " .. tostring(value) end
    end
    return "block_spec {" .. table.concat(fields, ", ") .. "}"
  end,
}

local function is_size(size)
  if size == false then return true end
  if type(size) == "table" then size = size.element end
  return math.type(size) == "integer" and size >= 1
end

local spec_options = {
  collective_axes = { grids.are_names, "the name of a cluster axis, or a list of them" },
  delay_release = at_least(0),
  swizzle = { function(value) return value == 32 or value == 64 or value == 128 or value == "none" end,
    "32, 64, 128 or \"none\"" },
}

function pipeline.block_spec(block_shape, index_map, opts)
  arguments.check(type(block_shape) == "table" and #block_shape > 0 and all_of(block_shape, is_size), 1, "block_spec",
    "block_shape: a list of sizes, false, or { element = size }", block_shape)
  arguments.check(type(index_map) == "function", 2, "block_spec", "index_map: function", index_map)
  opts = arguments.check_options(opts, 3, "block_spec", spec_options)
  local axes = opts.collective_axes and grids.as_list(opts.collective_axes)
  return setmetatable({
    shape = arguments.shown { table.unpack(block_shape) }, index_map = index_map,
    delay_release = opts.delay_release or 0, swizzle = opts.swizzle,
    collective_axes = axes and arguments.shown { table.unpack(axes) },
  }, SPEC)
end

--- What the tile in SMEM keeps of the block: squeezed dimensions are gone.
local function tile_shape(spec)
  local shape = {}
  for _, size in ipairs(spec.shape) do
    if size then shape[#shape + 1] = type(size) == "table" and size.element or size end
  end
  return shape
end

--- Known indices are numbers to the index_map, unless it calls methods of recorded scalars.
local function mapped(spec, at)
  if not spec.records and all_of(at, math.type) then
    local index = table.pack(pcall(spec.index_map, table.unpack(at)))
    if index[1] then return table.pack(table.unpack(index, 2, index.n)) end
    spec.records = true
  end
  for d = 1, spec.records and #at or 0 do
    if math.type(at[d]) then at[d] = tc.var(at[d]):get() end
  end
  return table.pack(spec.index_map(table.unpack(at)))
end

local function index_of(spec, at)
  local index = mapped(spec, at)
  if index.n ~= #spec.shape then
    fail("PIPELINE_INDEX_MAP", #spec.shape, index.n)
  end
  return index
end

--- The block of an array at an index of the grid.
local function block_of(ref, spec, at)
  local index = index_of(spec, at)
  local slices, tile, shape, kept, elements, squeezed = {}, {}, {}, {}, false, false
  for d, size in ipairs(spec.shape) do
    local is_element = type(size) == "table"
    slices[d] = is_element and tc.ds(index[d], size.element) or tc.all
    tile[d] = is_element and 0 or index[d]
    shape[d] = is_element and size.element or size or 1
    kept[d] = size and tc.all or 0
    elements, squeezed = elements or is_element, squeezed or not size
  end
  if elements then ref = ref:at(table.unpack(slices)) end
  ref = ref:tile(tile, shape)
  return squeezed and ref:at(table.unpack(kept)) or ref
end

-- ---- the grid -------------------------------------------------------------------------------------------------

local function same(a, b)
  for d = 1, a.n do
    if not rawequal(a[d], b[d]) and not (math.type(a[d]) and a[d] == b[d]) then return false end
  end
  return true
end

--- Tries an index_map over the grid: whether its block is always the same, and whether it is another one at each step.
local function probe(spec, grid)
  local steps = grids.size(grid)
  if steps == 1 then return false, true end
  if not math.type(steps) or steps > MOST_PROBED then return false, false end
  local first = index_of(spec, unravel(0, grid))
  local before, constant, moving = first, true, all_of(first, math.type)
  for step = 1, steps - 1 do
    if not constant and not moving then break end
    local here = index_of(spec, unravel(step, grid))
    constant = constant and same(first, here)
    moving = moving and all_of(here, math.type) and not same(before, here)
    before = here
  end
  return constant, moving
end

-- ---- what both pipelines take ---------------------------------------------------------------------------------

local function are_specs(list)
  return getmetatable(list) ~= SPEC and all_of(list, function(spec) return getmetatable(spec) == SPEC end)
end

local common = {
  grid = { function(list) return type(list) == "table" and #list > 0 and all_of(list, grids.is_index) end,
    "a list of integers or recorded scalars" },
  in_specs = { are_specs, "a list of specs: { tc.block_spec(...) }" },
  out_specs = { are_specs, "a list of specs: { tc.block_spec(...) }" },
  max_concurrent_steps = at_least(1),
}

--- The options complete, with what the grid says about them.
local function plan_of(body, opts, name, known, standard_steps)
  arguments.check(type(body) == "function", 1, name, "body: function", body)
  opts = arguments.check_options(opts, 2, name, known)
  if not opts.grid then arguments.fail("bad argument #2 to '%s' (option 'grid' is missing)", name) end
  for _, extent in ipairs(opts.grid) do
    if math.type(extent) and extent < 1 then
      fail("PIPELINE_GRID", grids.show(opts.grid))
    end
  end
  grids.check_size(opts.grid, 2, name)
  for _, spec in ipairs(opts.out_specs or {}) do
    if spec.collective_axes then fail "PIPELINE_OUT_COLLECTIVE" end
    if spec.delay_release > 0 then fail "PIPELINE_OUT_DELAY" end
  end
  local plan = { body = body, grid = opts.grid, steps = grids.size(opts.grid), opts = opts, name = name,
    inputs = opts.in_specs or {}, outputs = opts.out_specs or {}, tiles = {}, barriers = {} }
  plan.slots = opts.max_concurrent_steps or standard_steps
  plan.used = tc.recording() and tc.promise_documented("PIPELINE_UNUSED", name) or function() end
  return plan
end

local function shrink(plan)
  if math.type(plan.steps) then plan.slots = math.min(plan.slots, plan.steps) end
end

local function ring(spec, dtype, slots)
  local shape = tile_shape(spec)
  return tc.smem(slots and { slots, table.unpack(shape) } or shape, dtype, spec.swizzle and { swizzle = spec.swizzle })
end

--- The tiles of operand i: those of an earlier run, where they fit.
local function tiles_of(plan, i, operand)
  local kept = plan.tiles[i]
  if not kept or kept.still ~= operand.still or kept.smem.dtype ~= operand.ref.dtype then
    kept = { still = operand.still,
      smem = ring(operand.spec, operand.ref.dtype, not operand.still and plan.slots or nil) }
    plan.tiles[i] = kept
  end
  return kept.smem
end

--- Makes the operands of a run from the arrays.
local function bind(plan, refs)
  local inputs, outputs = #plan.inputs, #plan.outputs
  if refs.n ~= inputs + outputs then
    fail("PIPELINE_REFS", plan.name, inputs, outputs, refs.n)
  end
  local run = { moving = {}, still = {}, inputs = {}, outputs = {}, one_group = true }
  for i = 1, refs.n do
    local spec, ref = plan.inputs[i] or plan.outputs[i - inputs], refs[i]
    if not is_a(ref, "ref") then
      fail("PIPELINE_REF", plan.name, i, arguments.describe(ref))
    end
    if #ref.shape ~= #spec.shape then
      fail("PIPELINE_RANK", plan.name, i, #ref.shape, #spec.shape)
    end
    local constant, moving = probe(spec, plan.grid)
    local operand = { ref = ref, spec = spec, still = constant, moving = moving }
    operand.smem = tiles_of(plan, i, operand)
    function operand.tile(slot) return constant and operand.smem or operand.smem[slot] end
    local list = i <= inputs and run.inputs or run.outputs
    list[#list + 1] = operand
    if i <= inputs then
      list = constant and run.still or run.moving
      list[#list + 1] = operand
    else
      run.one_group = run.one_group and moving
    end
  end
  return run
end

local function tiles_at(run, slot)
  local tiles = {}
  for i, operand in ipairs(run.inputs) do tiles[i] = operand.tile(slot) end
  for _, operand in ipairs(run.outputs) do tiles[#tiles + 1] = operand.tile(slot) end
  return tiles
end

local function load(plan, operand, step, slot, barrier)
  tc.copy_gmem_to_smem(block_of(operand.ref, operand.spec, unravel(step, plan.grid)), operand.tile(slot), barrier,
    operand.spec.collective_axes and { collective_axes = operand.spec.collective_axes } or nil)
end

--- Calls fn for 0 .. count - 1: unrolled where the count is known.
local function each(count, fn)
  if not math.type(count) then return tc.range(count, fn) end
  for i = 0, count - 1 do fn(i) end
end

local function least(a, b)
  return math.type(a) and math.type(b) and math.min(a, b) or tc.min(a, b)
end

--- A barrier of the pipeline, made once for each count of arrivals.
local function barrier_of(plan, make, spec)
  local key = spec.name .. spec.num_arrivals
  plan.barriers[key] = plan.barriers[key] or make(spec)
  return plan.barriers[key]
end

-- ---- outputs --------------------------------------------------------------------------------------------------

--- The slot of a step, and how many steps of a run precede it, counted up to `slots`.
local function slot_of(plan, step)
  if plan.slots == 1 then return 0 end
  local turn = plan.turn
  local shift = turn and plan.steps % plan.slots or 0
  if shift ~= 0 then step = step + turn % plan.slots * shift end
  return step % plan.slots
end

--- A condition: this step's slot held a tile before.
local function is_used_before(plan, step)
  local turn = plan.turn
  if not turn then return step:ge(plan.slots) end
  return (step + least(turn, plan.slots) * plan.steps):ge(plan.slots)
end

--- The slot of this step may be written again.
local function await_stores(plan, run)
  if #run.outputs > 0 then
    tc.wait_smem_to_gmem(run.one_group and plan.slots - 1 or 0, { wait_read_only = true })
  end
end

--- A recorded condition: the block is another one at the next step, or there is none.
local function is_last_of_block(plan, operand, step)
  local here = index_of(operand.spec, unravel(step, plan.grid))
  local after = index_of(operand.spec, unravel(step + 1, plan.grid))
  local last = (step + 1):eq(plan.steps)
  for d = 1, here.n do
    if not rawequal(here[d], after[d]) and not (math.type(here[d]) and here[d] == after[d]) then
      last = last:lor(math.type(here[d]) and after[d]:ne(here[d]) or here[d]:ne(after[d]))
    end
  end
  return last
end

local function store(plan, operand, step, slot, is_last)
  tc.copy_smem_to_gmem(operand.tile(slot), block_of(operand.ref, operand.spec, unravel(step, plan.grid)),
    { commit_group = is_last })
end

--- Stores what the step has made; one group of copies where every step stores every output.
local function store_step(plan, run, step, slot)
  if #run.outputs == 0 then return end
  tc.commit_smem()
  for i, operand in ipairs(run.outputs) do
    if run.one_group then
      store(plan, operand, step, slot, i == #run.outputs)
    elseif operand.moving then
      store(plan, operand, step, slot, true)
    elseif not operand.still then
      tc.when(is_last_of_block(plan, operand, step), function() store(plan, operand, step, slot, true) end)
    end
  end
end

local function finish_stores(plan, run)
  for _, operand in ipairs(run.outputs) do
    if operand.still then store(plan, operand, 0, 0, true) end
  end
  if #run.outputs > 0 and not plan.turn then tc.wait_smem_to_gmem(0, { wait_read_only = false }) end
end

-- ---- one role -------------------------------------------------------------------------------------------------

local function check_delays(plan)
  local levels, seen = {}, {}
  for _, spec in ipairs(plan.inputs) do
    if spec.collective_axes then fail "PIPELINE_COLLECTIVE" end
    if not seen[spec.delay_release] then levels[#levels + 1] = spec.delay_release end
    seen[spec.delay_release] = true
  end
  table.sort(levels)
  if #levels > 0 and plan.slots <= levels[#levels] then
    fail("PIPELINE_STEPS", plan.slots, "[" .. table.concat(levels, ", ") .. "]")
  end
end

--- How many steps an operand is loaded ahead.
local function ahead(plan, operand)
  return math.max(1, plan.slots - operand.spec.delay_release)
end

local function run_alone(plan, run)
  local ready = #run.moving > 0 and barrier_of(plan, tc.barrier,
    { name = "pipeline_ready", num_arrivals = #run.moving, num_barriers = plan.slots })
  local released = #run.inputs > 0 and barrier_of(plan, tc.barrier, { name = "pipeline_released", num_arrivals = 1 })
  local still = #run.still > 0 and barrier_of(plan, tc.barrier,
    { name = "pipeline_loaded", num_arrivals = #run.still })
  local function release()
    if released then
      tc.barrier_arrive(released)
      tc.barrier_wait(released)
    end
  end
  for _, operand in ipairs(run.still) do load(plan, operand, 0, 0, still) end
  for _, operand in ipairs(run.moving) do
    each(least(plan.steps, ahead(plan, operand)), function(step)
      load(plan, operand, step, step % plan.slots, ready[step % plan.slots])
    end)
  end
  if still then tc.barrier_wait(still) end
  tc.range(plan.steps, function(step)
    local slot = plan.slots == 1 and 0 or step % plan.slots
    if ready then tc.barrier_wait(ready[slot]) end
    await_stores(plan, run)
    plan.body({ index = unravel(step, plan.grid), step = step }, table.unpack(tiles_at(run, slot)))
    store_step(plan, run, step, slot)
    release()
    for _, operand in ipairs(run.moving) do
      local later = step + ahead(plan, operand)
      tc.when(later:lt(plan.steps), function()
        load(plan, operand, later, later % plan.slots, ready[later % plan.slots])
      end)
    end
  end)
  finish_stores(plan, run)
end

function pipeline.emit_pipeline(body, opts)
  local plan = plan_of(body, opts, "emit_pipeline", common, 1)
  check_delays(plan)
  shrink(plan)
  return core.entry_point(function(...)
    run_alone(plan, bind(plan, table.pack(...)))
    plan.used()
  end)
end

-- ---- two roles ------------------------------------------------------------------------------------------------

local function is_role(value) return is_a(value, "role") end

local specialized = {
  compute = { function(value)
    return is_role(value) or type(value) == "table" and #value > 0 and all_of(value, is_role)
  end, "a role, or a list of them" },
  compute_context = { function(value) return type(value) == "function" end, "a function" },
  manual_consumed_barriers = is_boolean,
  memory = { is_role, "a role" },
  memory_registers = { function(value)
    return math.type(value) == "integer" and value >= 24 and value <= 240 and value % 8 == 0
  end, "a multiple of 8 from 24 to 240" },
  num_compute_wgs = at_least(1),
  turn = { function(value) return grids.is_index(value) and not (math.type(value) and value < 0) end,
    "an integer >= 0 or a recorded s32" },
}
for name, option in pairs(common) do specialized[name] = option end

local function check_inputs(plan)
  local delay, axes
  for _, spec in ipairs(plan.inputs) do
    if spec.collective_axes and #spec.collective_axes ~= 1 then
      fail("PIPELINE_ONE_AXIS", grids.show(spec.collective_axes))
    end
    delay = delay or spec.delay_release
    if spec.delay_release ~= delay then
      fail("PIPELINE_DELAYS", spec.delay_release, delay)
    end
    if spec.collective_axes then
      axes = axes or {}
      axes[spec.collective_axes[1]] = true
    end
  end
  plan.delay = delay or 0
  if plan.slots <= plan.delay then
    fail("PIPELINE_DELAY", plan.slots, plan.delay)
  end
  for axis in pairs(axes or {}) do
    plan.axes = plan.axes or {}
    table.insert(plan.axes, axis)
  end
  if plan.axes then table.sort(plan.axes) end
end

--- A role of that name, which an earlier pipeline may have made.
local function role_of(name, warps)
  local kernel = tc.recording()
  for _, role in ipairs(kernel and kernel.roles or {}) do
    if role.name == name and role.warps == warps then return role end
  end
  if warps % 4 == 0 then return tc.role { name = name, warpgroups = warps // 4 } end
  return tc.role { name = name, warps = warps }
end

local function roles_of(plan)
  local opts, compute = plan.opts, plan.opts.compute
  if compute and opts.num_compute_wgs then
    fail "PIPELINE_ROLES"
  end
  plan.compute = compute and (is_role(compute) and { compute } or compute)
    or { role_of("compute", 4 * (opts.num_compute_wgs or 1)) }
  -- Registers are moved between whole warpgroups.
  plan.memory = opts.memory or role_of("memory", opts.memory_registers and 4 or 1)
  if #plan.compute > 1 and #plan.outputs > 0 then
    fail "PIPELINE_OUTPUTS"
  end
end

--- Registers of a thread of the compute roles, when the memory role gives its own away.
local function compute_registers(plan)
  local warps = 0
  for _, role in ipairs(plan.compute) do warps = warps + role.warps end
  return math.min(240, (512 - plan.opts.memory_registers) * 4 // warps // 8 * 8)
end

--- The last tiles of a run have been given back.
local function await_tiles(plan, made)
  if made.ready then
    local last = least(plan.steps, plan.slots)
    each(last, function(i) tc.barrier_wait(made.consumed[(plan.steps - last + i) % plan.slots]) end)
  end
  if made.still_ready then tc.barrier_wait(made.still_consumed) end
end

local function memory_role(plan, run, made)
  if plan.opts.memory_registers then tc.set_max_registers(plan.opts.memory_registers) end
  local turn = plan.turn
  if turn and made.still_ready then
    tc.when(turn:gt(0), function() tc.barrier_wait(made.still_consumed) end)
  end
  for _, operand in ipairs(run.still) do load(plan, operand, 0, 0, made.still_ready) end
  if made.ready then
    tc.range(plan.steps, function(step)
      local slot = slot_of(plan, step)
      tc.when(is_used_before(plan, step), function() tc.barrier_wait(made.consumed[slot]) end)
      for _, operand in ipairs(run.moving) do load(plan, operand, step, slot, made.ready[slot]) end
    end)
  end
  if not turn then await_tiles(plan, made) end
end

local function compute_steps(plan, run, made, which)
  local delay = plan.delay
  if made.still_ready then tc.barrier_wait(made.still_ready) end
  tc.range(plan.steps, function(step)
    local slot = slot_of(plan, step)
    if made.ready then tc.barrier_wait(made.ready[slot]) end
    await_stores(plan, run)
    local info = { index = unravel(step, plan.grid), step = step, compute = which }
    if plan.opts.manual_consumed_barriers and made.ready then info.consumed = made.consumed[slot] end
    plan.body(info, table.unpack(tiles_at(run, slot)))
    if made.ready and not plan.opts.manual_consumed_barriers then
      if delay == 0 then
        tc.barrier_arrive(made.consumed[slot])
      else
        tc.when(step:ge(delay), function() tc.barrier_arrive(made.consumed[slot_of(plan, step - delay)]) end)
      end
    end
    store_step(plan, run, step, slot)
  end)
  if made.ready and not plan.opts.manual_consumed_barriers then
    local rest = least(plan.steps, delay)
    each(rest, function(i) tc.barrier_arrive(made.consumed[slot_of(plan, plan.steps - rest + i)]) end)
  end
  if made.still_ready then tc.barrier_arrive(made.still_consumed) end
  finish_stores(plan, run)
end

local function compute_role(plan, run, made, which)
  if plan.opts.memory_registers then tc.set_max_registers(compute_registers(plan)) end
  local context = plan.opts.compute_context
  if not context then return compute_steps(plan, run, made, which) end
  local called = false
  context(function()
    if called then fail "PIPELINE_TWICE" end
    called = true
    compute_steps(plan, run, made, which)
  end, which)
  if not called then fail "PIPELINE_NOT_CALLED" end
end

--- Runs that follow each other in one ring have to count their steps alike, in a place that all roles pass.  A turn
--- that is a number is that of no recorded loop: the run is one by itself.
local function take_turn(plan)
  local kernel = tc.recording()
  if kernel and kernel.role then fail("PIPELINE_IN_ROLE", kernel.role.name) end
  local turn = plan.opts.turn
  if not turn or math.type(turn) then return end
  if not math.type(plan.steps) then fail "PIPELINE_TURN_GRID" end
  plan.turn = turn
end

local function released_by(plan, name, slots)
  return barrier_of(plan, plan.axes and tc.cluster_barrier or tc.barrier, {
    name = name, num_arrivals = #plan.compute, num_barriers = slots,
    orders_tensor_core = plan.opts.manual_consumed_barriers,
    collective_axes = plan.axes and { plan.axes } or nil,
  })
end

function pipeline.emit_pipeline_warp_specialized(body, opts)
  local plan = plan_of(body, opts, "emit_pipeline_warp_specialized", specialized, 2)
  check_inputs(plan)
  take_turn(plan)
  if not plan.turn then shrink(plan) end
  plan.delay = math.min(plan.delay, plan.slots - 1)
  roles_of(plan)
  local called = false
  return core.entry_point(function(...)
    if called and plan.turn then fail "PIPELINE_TURN_TWICE" end
    local run, made = bind(plan, table.pack(...)), {}
    if #run.moving > 0 then
      made.ready = barrier_of(plan, tc.barrier,
        { name = "pipeline_ready", num_arrivals = #run.moving, num_barriers = plan.slots })
      made.consumed = released_by(plan, "pipeline_consumed", plan.slots)
    end
    if #run.still > 0 then
      made.still_ready = barrier_of(plan, tc.barrier, { name = "pipeline_loaded", num_arrivals = #run.still })
      made.still_consumed = released_by(plan, "pipeline_released", 1)
    end
    if #run.inputs > 0 then plan.memory(function() memory_role(plan, run, made) end) end
    for i, role in ipairs(plan.compute) do
      role(function() compute_role(plan, run, made, i - 1) end)
    end
    called = true
    plan.used()
  end)
end

arguments.public(pipeline)

documentation.add("tcmma", {
  { "block_spec", pipeline.block_spec, "block_spec(block_shape: table, index_map: function, opts?: {delay_release?: "
    .. "integer, swizzle?: integer|string, collective_axes?: string|string[]}) -> table" .. [[

Which block of an array a step of a pipeline works on. `index_map` gets the indices of the step in the grid, and returns
as many block numbers as the array has dimensions; a dimension of `block_shape` is a size, `false` for one element that
the tile lacks, or `{ element = size }`, whose index counts elements instead of blocks. Options:
- `delay_release` (0): how many steps later the tile of an input is given back, for MMAs that still read it
- `swizzle`: of the tile in SMEM, as for `tc.smem`
- `collective_axes`: a cluster axis whose CTAs get the same block, by multicast (warp-specialised pipelines)]] },
  { "emit_pipeline", pipeline.emit_pipeline, "emit_pipeline(body: function, opts: {grid: (integer|Scalar)[], "
    .. "in_specs?: table[], out_specs?: table[], max_concurrent_steps?: integer}) -> function" .. [[

A software pipeline in one role: for every step of `grid`, in order, the last dimension fastest, `body` gets tiles in
SMEM that hold the blocks of the inputs, and fills those of the outputs. The blocks of `max_concurrent_steps` (1) steps
are under way at once. The result is called with the arrays, inputs first: `tc.emit_pipeline(body, opts)(a, b, out)`;
without that call nothing would be recorded, and the kernel is refused.

`body(info, tiles...)`: `info.index` is a list of recorded scalars, `info.step` counts the steps. The block of an input
that is the same at all steps is loaded once. Steps in a row that have one output block store it at the last of them;
its tile then holds what that step has written.

An MMA that reads a tile must be waited for before the step ends, or `delay_release` steps later.]] },
  { "emit_pipeline_warp_specialized", pipeline.emit_pipeline_warp_specialized, "emit_pipeline_warp_specialized(body: "
    .. "function, opts: {grid: (integer|Scalar)[], in_specs?: table[], out_specs?: table[], max_concurrent_steps?: "
    .. "integer, memory?: Role, compute?: Role|Role[], num_compute_wgs?: integer, memory_registers?: integer, "
    .. "manual_consumed_barriers?: boolean, compute_context?: function, turn?: integer|Scalar}) -> function" .. [[

The same with the loads in a role of their own, which runs up to `max_concurrent_steps` (2) steps ahead. It stands in
shared code. `info.compute` is the number of the compute role, from 0. Options beside those of `tc.emit_pipeline`:
- `memory`, `compute`: the roles, where they exist; else `memory` (one warp) and `compute` (`num_compute_wgs`
  warpgroups) are made. Several compute roles each run `body`, without outputs
- `memory_registers`: `tc.set_max_registers` of the memory role; the compute roles get what it leaves
- `compute_context`: gets the pipeline as a function and calls it once, in the block of the compute role: vars that it
  makes live on over the steps
- `manual_consumed_barriers`: `body` arrives on `info.consumed` itself, as in
  `tc.mma(acc, a, b, { barrier = info.consumed })`
- `turn`: a pipeline of pipelines. The pipeline stands in a loop over tiles, such as `tc.nd_loop`, and this is the turn
  of the loop, `info.local_index`: the memory role goes on with the blocks of the next turn while the compute roles
  finish this one. Every turn has the same grid, of known size. A number in place of a recorded scalar changes nothing

Without `turn`, a run has given back all of its tiles and stored all of its outputs at its end. With it, the outputs are
stored when the kernel ends, or behind `tc.wait_smem_to_gmem(0)` in the compute role. In a block of a role, such as the
body of another pipeline, use `tc.emit_pipeline`.]] },
})

return pipeline
