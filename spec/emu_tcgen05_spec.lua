-- tcgen05 on the emulator: where D lies for each shape, what the forms of ld and st move, which
-- faults are reported.  Expected positions are the tables of the instruction set, written out here.
local tc = require "tcmma"
local frame = require "tcgen05_frame"

local NAN = 0x7fc0dead -- what fresh tensor memory holds

local SETUP = "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r7, [idesc];"

-- A kernel that runs `body` over an image of shared memory.
local function dump_kernel(options)
  return frame.text { group = options.group, body = options.body, setup = SETUP,
    parameters = ", .param .u64 a, .param .u64 b, .param .u32 idesc" }
end

local function run(options, image, a, b, idesc)
  local ctas = options.group == 2 and 2 or 1
  local out = tc.full({ ctas * 128, 512 }, 0, tc.i32)
  local report = tc.ptx(dump_kernel(options)):kernel("k"):emulate {
    grid = { ctas }, block = { 128 }, cluster = { ctas }, args = { image, out, a, b, idesc }, mode = options.mode,
  }
  return report, out
end

-- ---- images: K-major without swizzle, 8 x 16 bytes a core matrix ------------------------------------

local A_AT, B_AT = 0, 16384 -- in the image
local BASE = 0x400          -- of the first shared variable

-- Rows of 16 f16 values: leading 128 bytes (the second half of K), stride 256 (8 rows).
local function put_rows(bytes, at, rows)
  for r, row in ipairs(rows) do
    for k, value in ipairs(row) do
      local offset = at + (r - 1) % 8 * 16 + (r - 1) // 8 * 256 + (k - 1) // 8 * 128 + (k - 1) % 8 * 2
      bytes[offset // 2 + 1] = value
    end
  end
end

local function descriptor(at)
  return 1 << 46 | 256 >> 4 << 32 | 128 >> 4 << 16 | (BASE + at) >> 4
end

local function images(list)
  local all = {}
  for c, image in ipairs(list) do
    for i = 1, 16384 do all[(c - 1) * 16384 + i] = image[i] or 0 end
  end
  return tc.from_table(all, tc.f16)
end

local function idesc(m, n, d) return m >> 4 << 24 | n >> 3 << 17 | (d or 1) << 4 end

-- A[m][0] = m + 1, A[m][1] = 1; B[n][0] = 1, B[n][1] = n / 256: D[m][n] = m + 1 + n / 256 names its place.
local function name_of(m, n) return m + 1 + n / 256 end

local function row_of_a(m) return { m + 1, 1 } end
local function row_of_b(n) return { 1, n / 256 } end

local function rows(first, count, fn)
  local list = {}
  for i = 0, count - 1 do list[i + 1] = fn(first + i) end
  return list
end

local function single_image(m, n)
  local image = {}
  put_rows(image, A_AT, rows(0, m, row_of_a))
  put_rows(image, B_AT, rows(0, n, row_of_b))
  return images { image }
end

-- Each CTA of a pair holds its half of the rows of A and its half of the columns of B.
local function pair_images(m, n)
  local list = {}
  for c = 0, 1 do
    list[c + 1] = {}
    put_rows(list[c + 1], A_AT, rows(c * m // 2, m // 2, row_of_a))
    put_rows(list[c + 1], B_AT, rows(c * n // 2, n // 2, row_of_b))
  end
  return images(list)
end

local function f32(bits) return (string.unpack("<f", string.pack("<i4", bits))) end

-- place(m, n) -> cta, lane, column; nothing else may have been written.
local function check_places(out, m_count, n_count, place)
  local cells = out:totable()
  for m = 0, m_count - 1 do
    for n = 0, n_count - 1 do
      local cta, lane, column = place(m, n)
      local row = cells[cta * 128 + lane + 1]
      if f32(row[column + 1]) ~= name_of(m, n) then
        error(("D(%d, %d) at CTA %d lane %d column %d: %s, expected %s"):format(m, n, cta, lane, column,
          f32(row[column + 1]), name_of(m, n)))
      end
      row[column + 1] = NAN
    end
  end
  for lane, row in ipairs(cells) do
    for column, bits in ipairs(row) do
      if bits ~= NAN then error(("lane %d column %d was written"):format(lane - 1, column - 1)) end
    end
  end
end

local MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd1, %rd2, %r7, 0;"

describe("the accumulator of tcgen05.mma", function()
  local function case(title, options, m, n, place)
    it(title, function()
      local image = (options.group == 2 and pair_images or single_image)(m, n)
      local report, out = run(options, image, descriptor(A_AT), descriptor(B_AT), idesc(m, n))
      -- All columns are read and stored, to see which of them are written.
      for _, hazard in ipairs(report.hazards) do
        assert.is_true(hazard.severity == "lint" or hazard.rule == "undefined-value", hazard.message)
      end
      check_places(out, m, n, place)
      assert.equal(2 * m * n * 16, report.counters.mma_flops)
    end)
  end

  case("layout D: M = 128", { body = MMA }, 128, 96, function(m, n) return 0, m, n end)
  case("layout F: M = 64, half of each window", { body = MMA }, 64, 72,
    function(m, n) return 0, m % 16 + 32 * (m // 16), n end)
  case("layout F from lane 16 on", { body = "add.u32 %r11, %r6, 1048576;\n" .. MMA:gsub("%%r6", "%%r11") }, 64, 40,
    function(m, n) return 0, m % 16 + 32 * (m // 16) + 16, n end)
  local WS = MMA:gsub("mma%.", "mma.ws.")
  case("layout D: .ws, M = 128", { body = WS }, 128, 64, function(m, n) return 0, m, n end)
  case("layout E: .ws, M = 64", { body = WS }, 64, 128, function(m, n) return 0, m + 64 * (n // 64), n % 64 end)
  case("layout G: .ws, M = 32", { body = WS }, 32, 64, function(m, n) return 0, m + 32 * (n // 16), n % 16 end)
  local PAIR = MMA:gsub("group::1", "group::2")
  case("layout A: a pair, M = 256", { body = PAIR, group = 2 }, 256, 64,
    function(m, n) return m // 128, m % 128, n end)
  case("layout B: a pair, M = 128", { body = PAIR, group = 2 }, 128, 96,
    function(m, n) return m // 64, m % 64 + 64 * (n // 48), n % 48 end)
  case("collector hints change nothing", { body = MMA:gsub("f16", "f16.collector::a::fill") }, 128, 32,
    function(m, n) return 0, m, n end)
  case("work as late as possible", { body = MMA, mode = "check" }, 128, 64, function(m, n) return 0, m, n end)
end)

describe("operands of tcgen05.mma", function()
  local function values(options, image, bits, pick)
    local report, out = run(options, image, descriptor(A_AT), descriptor(B_AT), bits)
    assert.same({}, report.hazards)
    local cells, list = out:totable(), {}
    for i, at in ipairs(pick) do list[i] = f32(cells[at[1] + 1][at[2] + 1]) end
    return list
  end

  it("accumulates, scales D and leaves disabled lanes alone", function()
    local image = single_image(128, 64)
    local twice = MMA .. "\n" .. MMA:gsub(", 0;", ", 1;")
    assert.same({ 2 * name_of(5, 7) }, values({ body = twice }, image, idesc(128, 64), { { 5, 7 } }))
    local quarter = MMA .. "\n" .. MMA:gsub(", 0;", ", 1, 2;")
    assert.same({ 1.25 * name_of(5, 7) }, values({ body = quarter }, image, idesc(128, 64), { { 5, 7 } }))
    local masked = MMA .. "\nmov.u32 %r12, 32; mov.u32 %r13, 0;\n"
      .. MMA:gsub(", 0;", ", {%%r12, %%r13, %%r13, %%r12}, 1;")
    assert.same({ name_of(5, 7), 2 * name_of(6, 7), 2 * name_of(37, 1), name_of(101, 1) },
      values({ body = masked }, image, idesc(128, 64), { { 5, 7 }, { 6, 7 }, { 37, 1 }, { 101, 1 } }))
  end)

  it("negates", function()
    local image = single_image(128, 64)
    assert.same({ -name_of(9, 3) }, values({ body = MMA }, image, idesc(128, 64) | 1 << 13, { { 9, 3 } }))
    assert.same({ name_of(9, 3) }, values({ body = MMA }, image, idesc(128, 64) | 3 << 13, { { 9, 3 } }))
  end)

  it("takes A from tensor memory", function()
    local body = [[
 add.u32 %r11, %r6, 256;
 tcgen05.cp.cta_group::1.128x256b [%r11], %rd1;
 tcgen05.mma.cta_group::1.kind::f16 [%r6], [%r11], %rd2, %r7, 0;]]
    assert.same({ name_of(0, 0), name_of(77, 33), name_of(127, 63) },
      values({ body = body }, single_image(128, 64), idesc(128, 64), { { 0, 0 }, { 77, 33 }, { 127, 63 } }))
  end)

  it("keeps an f16 accumulator in the low halves", function()
    local report, out = run({ body = MMA }, single_image(128, 64), descriptor(A_AT), descriptor(B_AT),
      idesc(128, 64, 0))
    assert.same({}, report.hazards)
    assert.equal(0x4600, out:totable()[6][1]) -- 6.0
  end)
end)

describe("tcgen05.cp", function()
  -- The image as 16-byte rows: row i begins at (i % 8) * 16 + (i // 8) * 128, marked by its number.
  local function marked()
    local words = {}
    for i = 0, 8191 do words[i + 1] = i end
    return tc.from_table(words, tc.i32)
  end
  local rows16 = 1 << 46 | 128 >> 4 << 32 | BASE >> 4

  local function copied(form)
    local report, out = run({ body = "tcgen05.cp.cta_group::1." .. form .. " [%r6], %rd1;" }, marked(), rows16, 0, 0)
    assert.same({}, report.hazards)
    return out:totable()
  end

  -- rows_of(lane) -> the row whose 4 words the lane got, or nil.
  local function check(form, rows_of)
    local cells = copied(form)
    for lane = 0, 127 do
      local row = rows_of(lane)
      for column = 0, 3 do assert.equal(row and 4 * row + column or NAN, cells[lane + 1][column + 1]) end
      assert.equal(NAN, cells[lane + 1][5])
    end
  end

  it("128x128b", function() check("128x128b", function(lane) return lane end) end)
  it("64x128b.warpx2::02_13", function() check("64x128b.warpx2::02_13", function(lane) return lane % 64 end) end)
  it("64x128b.warpx2::01_23", function()
    check("64x128b.warpx2::01_23", function(lane) return lane % 32 + 32 * (lane // 64) end)
  end)
  it("32x128b.warpx4", function() check("32x128b.warpx4", function(lane) return lane % 32 end) end)
end)

-- ---- ld and st -----------------------------------------------------------------------------------------

-- Writes cell (lane, column) = lane * 1000 + column with 32x32b stores, then one load of another shape.
local function move_kernel(load, count)
  local registers, stores = {}, {}
  for i = 1, count do registers[i] = "%r" .. 39 + i end
  for i = 1, count do stores[i] = ("st.global.b32 [%%rd3+%d], %%r%d;"):format(4 * (i - 1), 39 + i) end
  return ([[
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .pred %p<4>; .reg .b32 %r<200>; .reg .b64 %rd<8>;
 .shared .align 4 .b32 slot;
 mov.u32 %r0, %tid.x;
 shr.u32 %r1, %r0, 5;
 mov.u32 %r5, slot;
 setp.eq.u32 %p0, %r1, 0;
 @%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r5], 256;
 bar.sync 0;
 ld.shared.b32 %r6, [slot];
 shl.b32 %r9, %r1, 21;
 add.u32 %r9, %r9, %r6;
 mov.u32 %r8, %r9;
 mul.lo.u32 %r10, %r0, 1000;
 mov.u32 %r11, 0;
fill:
 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8], {%r10};
 add.u32 %r8, %r8, 1;
 add.u32 %r10, %r10, 1;
 add.u32 %r11, %r11, 1;
 setp.lt.u32 %p1, %r11, 256;
 @%p1 bra fill;
 tcgen05.wait::st.sync.aligned;
 LOAD
 tcgen05.wait::ld.sync.aligned;
 ld.param.u64 %rd3, [out];
 mad.wide.u32 %rd3, %r0, BYTES, %rd3;
 STORES
 bar.sync 0;
 @%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 256;
 ret;
}
]]):gsub("%u%u%u%u%u?%u?", {
    LOAD = load:gsub("REGS", function() return "{" .. table.concat(registers, ",") .. "}" end),
    BYTES = tostring(4 * count), STORES = table.concat(stores, "\n "),
  })
end

describe("tcgen05.ld", function()
  local function case(shape, count, place, extra)
    it(shape, function()
      local out = tc.zeros({ 128, count }, tc.i32)
      local load = "tcgen05.ld.sync.aligned." .. shape .. ".b32 REGS, [%r9]" .. (extra or "") .. ";"
      local report = tc.ptx(move_kernel(load, count)):kernel("k"):emulate { grid = { 1 }, block = { 128 },
          args = { out } }
      assert.same({}, report.hazards)
      for thread, row in ipairs(out:totable()) do
        local warp, t = (thread - 1) // 32, (thread - 1) % 32
        for r = 0, count - 1 do assert.equal(place(32 * warp, t, r), row[r + 1]) end
      end
    end)
  end
  local function at(lane, column) return lane * 1000 + column end

  case("32x32b.x8", 8, function(w, t, r) return at(w + t, r) end)
  case("16x64b.x4", 4, function(w, t, r) return at(w + (t >> 2) + 8 * (t & 1), 2 * r + (t >> 1 & 1)) end)
  case("16x128b.x2", 4, function(w, t, r) return at(w + (t >> 2) + 8 * (r & 1), 4 * (r >> 1) + (t & 3)) end)
  case("16x256b.x2", 8, function(w, t, r)
    return at(w + (t >> 2) + 8 * (r >> 1 & 1), 8 * (r >> 2) + 2 * (t & 3) + (r & 1))
  end)
  case("16x32bx2.x4", 4, function(w, t, r) return at(w + t % 16, r + (t < 16 and 0 or 64)) end, ", 64")
  case("32x32b.x4.pack::16b", 4, function(w, t, r)
    local value = (at(w + t, 2 * r) & 0xffff) | (at(w + t, 2 * r + 1) & 0xffff) << 16
    return value >= 1 << 31 and value - (1 << 32) or value
  end)

  it("stays inside the warp's window of lanes", function()
    local load = "add.u32 %r9, %r6, 2097152;\n tcgen05.ld.sync.aligned.32x32b.x1.b32 REGS, [%r9];"
    local report = tc.ptx(move_kernel(load, 1)):kernel("k"):emulate {
      grid = { 1 }, block = { 128 }, args = { tc.zeros({ 128 }, tc.i32) } }
    assert.is_false(report.completed)
    assert.equal("tmem-window", report.hazards[1].rule)
    assert.matches("names lane 32", report.hazards[1].message, 1, true)
  end)

  it("stays inside the allocation", function()
    local load = "tcgen05.ld.sync.aligned.32x32b.x4.b32 REGS, [%r9+254];"
    local report = tc.ptx(move_kernel(load, 4)):kernel("k"):emulate {
      grid = { 1 }, block = { 128 }, args = { tc.zeros({ 128, 4 }, tc.i32) } }
    assert.equal("tmem-unallocated", report.hazards[1].rule)
    assert.matches("column 256 is not allocated", report.hazards[1].message, 1, true)
  end)
end)

-- ---- the allocator --------------------------------------------------------------------------------------

describe("the allocator of tensor memory", function()
  local function report_of(body, options)
    options = options or {}
    local text = ([[
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k()
{
 .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<4>;
 .shared .align 8 .b32 slot[4];
 mov.u32 %r1, slot;
 BODY
 ret;
}
]]):gsub("BODY", function() return body end)
    return tc.ptx(text):kernel("k"):emulate {
      grid = { options.ctas or 1 }, block = { options.threads or 32 }, cluster = { options.ctas or 1 } }
  end
  local function alloc(columns) return " tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], "
      .. columns .. ";\n" end
  local function dealloc(columns)
    return " ld.shared.b32 %r2, [%r1];\n tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, " .. columns .. ";\n"
  end
  local function refused(title, rule, words, body, options)
    it(title, function()
      local report = report_of(body, options)
      assert.is_false(report.completed)
      assert.equal(rule, report.hazards[1].rule)
      assert.matches(words, report.hazards[1].message, 1, true)
    end)
  end

  refused("reports what is never freed", "tmem-leak", "tcgen05.dealloc is missing", alloc(64))
  refused("refuses 48 columns", "tmem-columns", "32, 64, 128, 256 or 512", "mov.u32 %r3, 48;\n" .. alloc "%r3")
  refused("refuses another size when freeing", "tmem-dealloc", "64 were allocated", alloc(64) .. dealloc(32))
  refused("refuses to free twice", "tmem-dealloc", "free already", alloc(64) .. dealloc(64) .. dealloc(64))
  refused("refuses after relinquish_alloc_permit", "tmem-relinquished", "relinquish_alloc_permit (PTX line",
    alloc(64) .. " tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" .. alloc(32))
  refused("reports a request that can never be met", "deadlock", "free columns of tensor memory", alloc(512)
      .. alloc(32))
  refused("a pair needs a cluster", "cta-pair", "even number of CTAs", (alloc(64):gsub("group::1", "group::2")))
  refused("a pair needs both", "deadlock", "peer CTA", [[
 mov.u32 %r4, %cluster_ctarank;
 setp.eq.u32 %p0, %r4, 1;
 @%p0 ret;
]] .. alloc(64):gsub("group::1", "group::2"), { ctas = 2 })

  it("lets another warp wait until there is room", function()
    local report = report_of([[
 mov.u32 %r5, %tid.x;
 setp.ge.u32 %p0, %r5, 32;
 @%p0 bra second;
]] .. alloc(512) .. " nanosleep.u32 100;\n" .. dealloc(512) .. [[
 bra end;
second:
 add.u32 %r1, %r1, 8;
]] .. alloc(256) .. dealloc(256) .. "end:", { threads = 64 })
    assert.is_true(report.completed)
    assert.same({}, report.hazards)
  end)
end)

-- ---- faults ---------------------------------------------------------------------------------------------

describe("a fault of tcgen05", function()
  local function refused(title, rule, words, options, a, b, bits)
    it(title, function()
      local report = run(options, single_image(128, 64), a or descriptor(A_AT), b or descriptor(B_AT), bits
          or idesc(128, 64))
      assert.is_false(report.completed)
      assert.equal(rule, report.hazards[1].rule)
      assert.equal("error", report.hazards[1].severity)
      assert.matches(words, report.hazards[1].message, 1, true)
      assert.is_true(report.hazards[1].ptx_line > 0)
    end)
  end

  refused("an illegal M", "instruction-descriptor", "M = 192", { body = MMA }, nil, nil, idesc(192, 64))
  refused("an illegal N", "instruction-descriptor", "N = 0", { body = MMA }, nil, nil, idesc(128, 0))
  refused("a descriptor without its constant bits", "smem-descriptor", "0b001", { body = MMA },
    descriptor(A_AT) & ~(1 << 46))
  refused("a swizzle mode that does not exist", "smem-descriptor", "swizzle mode", { body = MMA }, nil,
    descriptor(B_AT) | 3 << 61)
  local absolute = descriptor(A_AT) | 2 << 61 | 1 << 52
  refused("an absolute leading address", "smem-descriptor", "belongs to K = 96 on sm_103a; here K is 16",
    { body = MMA }, absolute)
  refused("a copy with an absolute leading address", "smem-descriptor", "belongs to tcgen05.mma with K = 96", {
    body = "tcgen05.cp.cta_group::1.128x128b [%r6], %rd1;\ntcgen05.commit.cta_group::1"
      .. ".mbarrier::arrive::one.shared::cluster.b64 [%r3];" }, absolute)
  refused("an operand outside shared memory", "smem-descriptor", "shared address", { body = MMA },
    descriptor(0x30000))
  refused("an accumulator that does not fit", "tmem-unallocated", "column 512", {
    body = "add.u32 %r6, %r6, 480;\n" .. MMA })
  refused("a lane the layout cannot begin at", "tmem-address", "lane 0", {
    body = "add.u32 %r11, %r6, 1048576;\n" .. MMA:gsub("%%r6", "%%r11") })
  refused("a commit to a barrier that does not exist", "mbarrier-not-initialised", "mbarrier.init", {
    body = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];" })
end)
