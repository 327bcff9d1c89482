-- ldmatrix and stmatrix of bytes, and tensor maps that a kernel changes and publishes.
local tc = require "tcmma"

local function run(target, body, input, count)
  local text = ([[
.version 8.6
.target %s
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
 .reg .b32 %%r<40>; .reg .b64 %%rd<8>;
 .shared .align 16 .b8 tile[1024];
 mov.u32 %%r0, %%tid.x; mov.u32 %%r1, tile;
 ld.param.u64 %%rd1, [in]; ld.param.u64 %%rd2, [out];
 mad.wide.u32 %%rd3, %%r0, 32, %%rd1; mad.lo.u32 %%r2, %%r0, 32, %%r1;
 ld.global.v4.b32 {%%r10,%%r11,%%r12,%%r13}, [%%rd3]; ld.global.v4.b32 {%%r14,%%r15,%%r16,%%r17}, [%%rd3+16];
 st.shared.v4.b32 [%%r2], {%%r10,%%r11,%%r12,%%r13}; st.shared.v4.b32 [%%r2+16], {%%r14,%%r15,%%r16,%%r17};
 bar.warp.sync -1;
 mad.lo.u32 %%r3, %%r0, 16, %%r1;
%s
 bar.warp.sync -1;
 mad.wide.u32 %%rd3, %%r0, %d, %%rd2;
%s
 ret;
}]]):format(target, body, 4 * count, (function()
    local lines = {}
    for i = 0, count - 1 do lines[i + 1] = (" st.global.b32 [%%rd3+%d], %%r%d;"):format(4 * i, 20 + i) end
    return table.concat(lines, "\n")
  end)())
  local out = tc.zeros({ 32, count }, tc.i32)
  local report = tc.ptx(text):kernel("k"):emulate { block = { 32 }, args = { tc.from_table(input, tc.u8), out } }
  assert.is_true(report.completed, report:text())
  local words = out:totable()
  for lane = 1, 32 do
    if type(words[lane]) == "number" then words[lane] = { words[lane] } end
    for i = 1, count do words[lane][i] = words[lane][i] & 0xffffffff end
  end
  return words
end

-- Rows of 16 bytes.
local function bytes()
  local list = {}
  for i = 0, 1023 do list[i + 1] = (i * 37 + i // 16 * 5) & 255 end
  return list
end

-- Element i of a row: a byte, or packed bits.
local function element(image, row, i, bits)
  local at = 16 * row * 8 + i * bits
  return (image[at // 8 + 1] | (image[at // 8 + 2] or 0) << 8) >> at % 8 & (1 << bits) - 1
end

describe("ldmatrix", function()
  for suffix, bits in pairs { b8 = 8, ["b8x16.b4x16_p64"] = 4, ["b8x16.b6x16_p32"] = 6 } do
    it("m16n16, transposed, of " .. suffix, function()
      local image = bytes()
      for _, count in ipairs { 1, 2 } do
        local vector = count == 1 and "{%r20,%r21}" or "{%r20,%r21,%r22,%r23}"
        local words = run("sm_100a", (" ldmatrix.sync.aligned.m16n16.x%d.trans.shared.%s %s, [%%r3];")
          :format(count, suffix, vector), image, 2 * count)
        for lane = 0, 31 do
          local g, q = lane // 4, lane % 4
          for r = 0, 2 * count - 1 do
            for j = 0, 3 do
              assert.equal(element(image, r // 2 * 16 + 4 * q + j, g + 8 * (r % 2), bits),
                words[lane + 1][r + 1] >> 8 * j & 255)
            end
          end
        end
      end
    end)
  end

  for suffix, bits in pairs { ["b4x16_p64"] = 4, ["b6x16_p32"] = 6 } do
    it("m8n16 of " .. suffix, function()
      local image = bytes()
      for count, vector in pairs { [1] = "{%r20}", [2] = "{%r20,%r21}", [4] = "{%r20,%r21,%r22,%r23}" } do
        local words = run("sm_100a", (" ldmatrix.sync.aligned.m8n16.x%d.shared.b8x16.%s %s, [%%r3];")
          :format(count, suffix, vector), image, count)
        for lane = 0, 31 do
          local g, q = lane // 4, lane % 4
          for r = 0, count - 1 do
            for j = 0, 3 do
              assert.equal(element(image, 8 * r + g, 4 * q + j, bits), words[lane + 1][r + 1] >> 8 * j & 255)
            end
          end
        end
      end
    end)
  end
end)

describe("stmatrix", function()
  it("m16n8, transposed, of bytes", function()
    local image = bytes()
    for count, vector in pairs { [1] = "{%r10}", [2] = "{%r10,%r11}", [4] = "{%r10,%r11,%r12,%r13}" } do
      local words = run("sm_100a", ((" stmatrix.sync.aligned.m16n8.x%d.trans.shared.b8 [%%r3], %s;")
        :format(count, vector)) .. "\n bar.warp.sync -1; ld.shared.v4.b32 {%r20,%r21,%r22,%r23}, [%r3];", image, 4)
      -- Register r of a lane was its word r of the image, of 32 bytes a lane; row s of 16 bytes is what lane s reads.
      for lane = 0, 31 do
        local g, q = lane // 4, lane % 4
        for r = 0, count - 1 do
          for j = 0, 3 do
            local row, column = 8 * r + 2 * q + j % 2, g + 8 * (j // 2)
            assert.equal(image[32 * lane + 4 * r + j + 1], words[row + 1][column // 4 + 1] >> column % 4 * 8 & 255)
          end
        end
      end
    end
  end)
end)

describe("tensormap.cp_fenceproxy", function()
  for _, scope in ipairs { "cta", "cluster", "gpu", "sys" } do
    it("publishes a map changed in shared memory, scope " .. scope, function()
      local text = ([[
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 other, .param .u64 space, .param .u64 out)
{
 .reg .b32 %%r<20>; .reg .b64 %%rd<12>; .reg .pred %%p<4>;
 .shared .align 128 .b8 tile[1024];
 .shared .align 128 .b8 copy[128];
 .shared .align 8 .b64 bar;
 mov.u32 %%r0, %%tid.x; mov.u32 %%r1, tile; mov.u32 %%r2, copy; mov.u32 %%r3, bar;
 setp.eq.u32 %%p0, %%r0, 0;
 mov.b64 %%rd0, map; cvta.param.u64 %%rd0, %%rd0;
 ld.param.u64 %%rd1, [other]; ld.param.u64 %%rd2, [space]; ld.param.u64 %%rd3, [out];
 mad.wide.u32 %%rd4, %%r0, 4, %%rd0; ld.b32 %%r5, [%%rd4];
 mad.lo.u32 %%r6, %%r0, 4, %%r2; st.shared.b32 [%%r6], %%r5;
 bar.warp.sync -1;
 @%%p0 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%%r2], %%rd1;
 bar.warp.sync -1;
 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.%s.sync.aligned [%%rd2], [%%r2], 128;
 @!%%p0 bra end;
 fence.proxy.tensormap::generic.acquire.%s [%%rd2], 128;
 mbarrier.init.shared::cta.b64 [%%r3], 1;
 fence.mbarrier_init.release.cluster;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r3], 512;
 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%%r1], [%%rd2, {0, 0}], [%%r3];
wait:
 mbarrier.try_wait.parity.shared::cta.b64 %%p1, [%%r3], 0;
 @!%%p1 bra wait;
 cp.async.bulk.global.shared::cta.bulk_group [%%rd3], [%%r1], 512;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
end:
 ret;
}]]):format(scope, scope)
      local first, second = tc.zeros({ 16, 8 }, tc.i32), tc.arange(128, tc.i32):reshape { 16, 8 }
      local out = tc.zeros({ 128 }, tc.i32)
      local report = tc.ptx(text):kernel("k"):emulate { block = { 32 }, mode = "check",
        args = { tc.tensormap(first, { box = { 8, 16 } }), second, tc.zeros({ 32 }, tc.i32), out } }
      assert.is_true(report.completed, report:text())
      assert.same(second:reshape({ 128 }):totable(), out:totable())
    end)
  end
end)
