-- atom and red: every operation and type in global, shared and distributed shared memory, each thread on a cell of
-- its own
-- (what it returns and what it leaves), and many threads on one cell where the order does not matter.
local kernels = require "spec.device.kernels"
local operands = require "spec.device.operands"

local ROWS = 2048

local registers = { [16] = "%h", [32] = "%r", [64] = "%rd", [128] = "%q" }

-- operation, suffix in front of the type, types
local forms = {
  { "add", "", { "u32", "s32", "u64", "f32", "f64" } },
  { "add", "noftz.", { "f16", "f16x2", "bf16", "bf16x2" } },
  { "min", "", { "u32", "s32", "u64", "s64" } }, { "max", "", { "u32", "s32", "u64", "s64" } },
  { "inc", "", { "u32" } }, { "dec", "", { "u32" } },
  { "and", "", { "b32", "b64" } }, { "or", "", { "b32", "b64" } }, { "xor", "", { "b32", "b64" } },
  { "exch", "", { "b32", "b64", "b128" } }, { "cas", "", { "b16", "b32", "b64", "b128" } },
}

local vectors = {
  { "add", "", { "f32" }, { 2, 4 } },
  { "add", "noftz.", { "f16", "bf16" }, { 2, 4, 8 } }, { "min", "noftz.", { "f16", "bf16" }, { 2, 4, 8 } },
  { "max", "noftz.", { "f16", "bf16" }, { 2, 4, 8 } },
  { "add", "noftz.", { "f16x2", "bf16x2" }, { 2, 4 } }, { "min", "noftz.", { "f16x2", "bf16x2" }, { 2, 4 } },
  { "max", "noftz.", { "f16x2", "bf16x2" }, { 2, 4 } },
}

local function width_of(type) return type == "b128" and 128 or operands.bits[type] end

-- Registers `from` on as an operand of `items`.
local function names(type, items, from)
  local list = {}
  for i = 1, items do list[i] = ("%s%d"):format(registers[width_of(type)], from + i - 1) end
  return items == 1 and list[1] or "{" .. table.concat(list, ", ") .. "}"
end

-- offset: of the operand in the row of the thread.
local function load(type, items, from, offset)
  local width, text = width_of(type), {}
  for i = 1, items do
    text[i] = width == 128
      and (" ld.global.v2.b64 {%%rd30, %%rd31}, [%%rd1+%d]; mov.b128 %%q%d, {%%rd30, %%rd31};"):format(offset, from)
      or (" ld.global.b%d %s%d, [%%rd1+%d];"):format(width, registers[width], from + i - 1,
        offset + (i - 1) * width // 8)
  end
  return table.concat(text, "\n")
end

local function keep(type, items, from)
  local width, text = width_of(type), {}
  for i = 1, items do
    text[i] = width == 128
      and (" mov.b128 {%%rd30, %%rd31}, %%q%d; st.global.v2.b64 [%%rd2], {%%rd30, %%rd31};"):format(from)
      or (" st.global.b%d [%%rd2+%d], %s%d;"):format(width, (i - 1) * width // 8, registers[width], from + i - 1)
  end
  return table.concat(text, "\n")
end

-- Where the cell is: text that puts the address into a register, its name, and the state space of instructions.
local places = {
  global = { "", "[%rd2+16]", ".global", ".global" },
  generic = { "", "[%rd2+16]", "", "" },
  shared = { " .shared .align 16 .b8 cells[4096];\n mov.u32 %r70, %tid.x; mov.u32 %r71, cells;"
    .. " mad.lo.u32 %r71, %r70, 16, %r71;", "[%r71]", ".shared", ".shared" },
  cluster = { " .shared .align 16 .b8 cells[4096];\n mov.u32 %r70, %tid.x; mov.u32 %r71, cells;"
    .. " mad.lo.u32 %r71, %r70, 16, %r71; mov.u32 %r72, %cluster_ctarank; xor.b32 %r72, %r72, 1;"
    .. " mapa.shared::cluster.u32 %r71, %r71, %r72;", "[%r71]", ".shared::cluster", ".shared::cluster" },
}

local rendezvous = " barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"

local function text_of(instruction, operation, type, items, where, returns)
  local place = places[where]
  local cas = operation == "cas"
  local apart = where == "cluster" and rendezvous or ""
  return kernels.entry(48, 32, table.concat({
    place[1],
    " mov.u64 %rd5, 0; st.global.v2.b64 [%rd2], {%rd5, %rd5};",
    apart,
    " ld.global.v2.b64 {%rd6, %rd7}, [%rd1];",
    (" st%s.v2.b64 %s, {%%rd6, %%rd7};"):format(place[3], place[2]),
    load(type, items, 10, 16),
    cas and load(type, 1, 5, 32) or "",
    -- every other comparison succeeds
    cas and " and.b32 %r60, %r1, 1; setp.eq.u32 %p4, %r60, 0;\n @!%p4 bra UNEQUAL;\n"
      .. load(type, 1, 10, 0) .. "\nUNEQUAL:" or "",
    apart,
    (" %s %s%s, %s%s;"):format(instruction, returns and names(type, items, 20) .. ", " or "", place[2],
      names(type, items, 10), cas and ", " .. names(type, 1, 5) or ""),
    returns and keep(type, items, 20) or "",
    apart,
    (" ld%s.v2.b64 {%%rd6, %%rd7}, %s;"):format(place[3], place[2]),
    " st.global.v2.b64 [%rd2+16], {%rd6, %rd7};",
    apart,
  }, "\n"))
end

local function own_cells(add)
  local function both(operation, suffix, type, items)
    local vector = items > 1 and ("v%d."):format(items) or ""
    local element = type == "b128" and "b64" or type
    local input = operands.packed(element, ROWS * 48 * 8 // operands.bits[element], operands.seed_of(operation))
    local tail = ("%s.%s%s%s"):format(operation, suffix, vector, type)
    for _, where in ipairs { "global", "generic", "shared", "cluster" } do
      for _, returns in ipairs { true, false } do
        local name = ("%s%s.%s"):format(returns and "atom" or "red", places[where][4], tail)
        local text = text_of(name, operation, type, items, where, returns)
        add { name = where == "generic" and name .. " (generic)" or name, text = text, stride = 32, block = { 256 },
          grid = { ROWS // 256 }, cluster = where == "cluster" and { 2 } or nil,
          args = { { input = input }, { output = ROWS * 32 } } }
      end
    end
  end
  for _, form in ipairs(forms) do
    for _, type in ipairs(form[3]) do both(form[1], form[2], type, 1) end
  end
  for _, form in ipairs(vectors) do
    for _, type in ipairs(form[3]) do
      for _, items in ipairs(form[4]) do both(form[1], form[2], type, items) end
    end
  end
end

local function semantics(add)
  local input = operands.packed("u32", ROWS * 12, 5)
  for _, order in ipairs { "relaxed", "acquire", "release", "acq_rel" } do
    for _, scope in ipairs { "cta", "cluster", "gpu", "sys" } do
      for _, returns in ipairs { true, false } do
        local name = ("%s.%s.%s.global.add.u32"):format(returns and "atom" or "red", order, scope)
        add { name = name, text = text_of(name, "add", "u32", 1, "global", returns), stride = 32, block = { 256 },
          grid = { ROWS // 256 }, args = { { input = input }, { output = ROWS * 32 } } }
      end
    end
  end
end

-- Every operation with orders and scopes that its own cases lack.
local function ordered(add)
  for number, order in ipairs { "relaxed.cta", "acq_rel.gpu", "acquire.cluster", "release.sys" } do
    for _, list in ipairs { forms, vectors } do
      for _, form in ipairs(list) do
        for _, type in ipairs(form[3]) do
          local items = list == vectors and form[4][number % #form[4] + 1] or 1
          local element = type == "b128" and "b64" or type
          local input = operands.packed(element, ROWS * 48 * 8 // operands.bits[element], number)
          for _, where in ipairs(items > 1 and { "global" } or { "global", "generic", "shared", "cluster" }) do
            local reduces = form[1] ~= "exch" and form[1] ~= "cas" and not order:match "^ac"
            for _, returns in ipairs(reduces and { true, false } or { true }) do
              local name = ("%s.%s%s.%s.%s%s%s"):format(returns and "atom" or "red", order, places[where][4], form[1],
                form[2], items > 1 and ("v%d."):format(items) or "", type)
              -- semantics() has them with other operands
              local again = where == "global" and form[1] == "add" and type == "u32" and " again" or ""
              add { name = where == "generic" and name .. " (generic)" or name .. again, stride = 32, block = { 256 },
                text = text_of(name, form[1], type, items, where, returns), grid = { ROWS // 256 },
                cluster = where == "cluster" and { 2 } or nil,
                args = { { input = input }, { output = ROWS * 32 } } }
            end
          end
        end
      end
    end
  end
end

-- All threads on one cell: integers, in any order the same.
local function one_cell(add)
  for _, form in ipairs { "add.u32", "add.s32", "add.u64", "min.u32", "min.s32", "min.u64", "min.s64", "max.u32",
    "max.s32",
    "max.u64", "max.s64", "and.b32", "and.b64", "or.b32", "or.b64", "xor.b32", "xor.b64", "inc.u32", "dec.u32" } do
    local type = form:match "%.(.*)"
    local register = width_of(type) == 64 and "%rd10" or "%r10"
    local bounded = form:match "^inc" or form:match "^dec"
    for _, space in ipairs { "global", "shared" } do
      local body
      local load_operand = bounded and " mov.u32 %r10, 1000;" or (" ld.global.%s %s, [%%rd1];"):format(type, register)
      if space == "global" then
        body = (" ld.param.u64 %%rd2, [out];\n%s\n red.global.%s [%%rd2], %s;"):format(load_operand, form, register)
      else
        body = ([[
 .shared .align 16 .b8 cells[16];
 mov.u32 %%r71, cells; mov.u32 %%r70, %%tid.x; setp.eq.u32 %%p1, %%r70, 0; mov.u64 %%rd5, 0x123456789;
 @%%p1 st.shared.b64 [%%r71], %%rd5;
 bar.sync 0;
%s
 red.shared.%s [%%r71], %s;
 bar.sync 0;
 ld.shared.b64 %%rd5, [%%r71]; st.global.b64 [%%rd2], %%rd5;]]):format(load_operand, form, register)
      end
      add { name = ("red.%s.%s of all threads"):format(space, form), stride = 8, block = { 256 },
        grid = { ROWS // 256 },
        text = kernels.entry(16, 8, body),
        args = { { input = operands.packed(type, ROWS * 128 // operands.bits[type], 9) },
          { output = ROWS * 8, initial = ("\x37"):rep(ROWS * 8) } } }
    end
  end
end

return function()
  local cases = {}
  local function add(case)
    case.family = case.name:match "^%w+"
    cases[#cases + 1] = case
  end
  own_cells(add)
  semantics(add)
  one_cell(add)
  ordered(add)
  return cases
end
