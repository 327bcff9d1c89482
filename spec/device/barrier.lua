-- mbarrier: random scripts of legal operations.  The state word is opaque, so what is compared is what can be asked
-- of it:
-- test_wait of states and parities, try_wait, pending counts.
local kernels = require "spec.device.kernels"
local operands = require "spec.device.operands"

-- A barrier as the manual describes it, to know which operation is legal next.
local function model(count)
  local m = { expected = count, pending = count, tx = 0, phase = 0 }
  function m.settle()
    if m.pending == 0 and m.tx == 0 then
      m.phase, m.pending = m.phase + 1, m.expected
    end
  end
  return m
end

-- Forms of one operation, chosen by a random number.
local function spelled(pick, list) return list[pick % #list + 1] end

local scopes = { "", ".release.cta", ".release.cluster", ".relaxed.cta", ".relaxed.cluster" }
local spaces = { ".shared", ".shared::cta" }

-- Later scripts spell operations in more ways: without an order, with one and a hint, dropping and expecting at once.
local function script(seed)
  local random = operands.stream(seed)
  local function pick(n) return (random() >> 20 & 0xffffff) % math.max(n, 1) end
  local count = ({ 1, 2, 3, 5, 17, 1000, (1 << 20) - 1 })[pick(7) + 1]
  local m, lines, results, states = model(count), {}, 0, 0
  local function emit(...) lines[#lines + 1] = " " .. string.format(...) end
  local function result(register)
    emit("st.global.b32 [%%rd2+%d], %s;", 4 * results, register)
    results = results + 1
  end
  local function asked()
    emit("selp.u32 %%r20, 1, 0, %%p1;")
    result "%r20"
  end
  local function arrived()
    states = states + 1
    emit("mov.b64 %%rd%d, %%rd4;", 20 + states % 8)
    emit("mbarrier.pending_count.b64 %%r20, %%rd4;")
    result "%r20"
    m.settle()
  end
  local space = spelled(pick(2), spaces)
  emit("mbarrier.init%s.b64 [%%r3], %d;", space, count)
  for i = 0, 7 do emit("mov.b64 %%rd%d, 0;", 20 + i) end
  local since = {}
  local more = seed > 200
  local function order() return spelled(pick(more and 3 or 2), { ".relaxed.cta", ".relaxed.cluster", "" }) end
  for _ = 1, 40 do
    local kind, scope = pick(more and 13 or 10), spelled(pick(5), scopes)
    local most = m.pending
    if kind <= 2 then
      local n = m.tx == 0 and pick(3) == 0 and most or 1 + pick(math.min(most, 6))
      -- the last arrival waits until the transactions that are due have come
      if n <= most and (n < most or m.tx >= 0) then
        emit("mbarrier.arrive%s%s.b64 %%rd4, [%%r3]%s;", scope, space, n == 1 and pick(2) == 0 and "" or ", " .. n)
        since[(states + 1) % 8] = m.phase
        m.pending = m.pending - n
        arrived()
      end
    elseif kind == 3 and m.expected > 1 and most > 1 then
      emit("mbarrier.arrive_drop%s%s.b64 %%rd4, [%%r3];", scope, space)
      since[(states + 1) % 8] = m.phase
      m.pending, m.expected = m.pending - 1, m.expected - 1
      arrived()
    elseif kind == 4 and most > 0 then
      local bytes = 1 + pick(5000)
      emit("mbarrier.arrive.expect_tx%s%s.b64 %%rd4, [%%r3], %d;", scope, space, bytes)
      since[(states + 1) % 8] = m.phase
      m.tx, m.pending = m.tx + bytes, m.pending - 1
      arrived()
    elseif kind == 5 and most > 0 then
      local bytes = 1 + pick(5000)
      emit("mbarrier.expect_tx%s%s.b64 [%%r3], %d;", order(), space, bytes)
      m.tx = m.tx + bytes
    elseif kind == 6 and m.tx > 0 then
      local bytes = pick(2) == 0 and m.tx or 1 + pick(m.tx)
      emit("mbarrier.complete_tx%s%s.b64 [%%r3], %d;", order(), space, bytes)
      m.tx = m.tx - bytes
      m.settle()
    elseif kind == 7 and most > 1 then
      emit("mbarrier.arrive.noComplete%s%s.b64 %%rd4, [%%r3], 1;", spelled(pick(2), { "", ".release.cta" }), space)
      since[(states + 1) % 8] = m.phase
      m.pending = m.pending - 1
      arrived()
    end
    if kind == 10 and m.expected > 1 and most > 1 then
      local bytes = 1 + pick(5000)
      emit("mbarrier.arrive_drop.expect_tx%s%s.b64 %%rd4, [%%r3], %d;", scope, space, bytes)
      since[(states + 1) % 8] = m.phase
      m.tx, m.pending, m.expected = m.tx + bytes, m.pending - 1, m.expected - 1
      arrived()
    elseif kind == 11 and m.expected > 1 and most > 1 then
      emit("mbarrier.arrive_drop.noComplete%s%s.b64 %%rd4, [%%r3], 1;", spelled(pick(2), { "", ".release.cta" }), space)
      since[(states + 1) % 8] = m.phase
      m.pending, m.expected = m.pending - 1, m.expected - 1
      arrived()
    elseif kind == 12 and m.phase > 0 then
      emit("mbarrier.try_wait.parity%s%s.b64 %%p1, [%%r3], %d, 1000;", spelled(pick(3), { "", ".acquire.cta",
        ".relaxed.cluster" }), space, m.phase - 1 & 1)
      asked()
      emit("mbarrier.test_wait.parity.relaxed.cluster%s.b64 %%p1, [%%r3], %d;", space, m.phase & 1)
      asked()
    end
    local wait = spelled(pick(4), { "test_wait", "test_wait.acquire.cta", "test_wait.acquire.cluster",
      "test_wait.relaxed.cta" })
    for parity = 0, 1 do
      emit("mbarrier.%s%s%s.b64 %%p1, [%%r3], %d;", wait:gsub("_wait", "_wait.parity"), "", space, parity)
      asked()
    end
    -- a state is good for the current phase and the one before
    local slot = states % 8
    if states > 0 and since[slot] and m.phase - since[slot] <= 1 then
      emit("mbarrier.%s%s.b64 %%p1, [%%r3], %%rd%d;", wait, space, 20 + slot)
      asked()
    end
    if m.phase > 0 then
      emit("mbarrier.try_wait.parity%s.b64 %%p1, [%%r3], %d;", space, m.phase - 1 & 1)
      asked()
    end
  end
  -- an inval and a new life
  emit("mbarrier.inval%s.b64 [%%r3]; mbarrier.init%s.b64 [%%r3], 1; mbarrier.arrive%s.b64 _, [%%r3];", space, space,
    space)
  emit("mbarrier.test_wait.parity%s.b64 %%p1, [%%r3], 0;", space)
  asked()
  return " .shared .align 8 .b64 bar;\n mov.u32 %r3, bar;\n" .. table.concat(lines, "\n"), results
end

return function()
  local cases = {}
  for seed = 1, 400 do
    local body, results = script(seed)
    cases[seed] = { name = ("script %d"):format(seed), family = "script", text = kernels.entry(0, 0, body), stride = 4,
      block = { 1 },
      args = { { input = "\0\0\0\0" }, { output = 4 * results } } }
  end
  return cases
end
