-- Elements of 4 bits: int4, uint4 and float4_e2m1fn in arrays, copies, registers and tensor memory.  Arrays are made
-- from their bytes and read back as bytes, so that what is expected does not come from the library.
local tc = require "tcmma"
local four = require "four_bit_kernels"
local pallas = require "pallas_kernels"
local helper = require "helper"

local refuses, runs = helper.refuses, require "every_mode".runs

local both, blackwell = { "sm_100a", "sm_90a" }, { "sm_100a" }

local function each(list, fn)
  for _, x in ipairs(list) do fn(x) end
end

-- ---- arrays ---------------------------------------------------------------------------------------------------

describe("Arrays of int4 and uint4", function()
  it("have their elements packed, the first one in the low bits", function()
    for _, dtype in ipairs{ tc.int4, tc.uint4 } do
      local values, codes = {}, four.codes(48, 3)
      for i, code in ipairs(codes) do values[i] = four.value(dtype, code) end
      local a = tc.from_table(values, dtype)
      assert.are.equal(24, a.nbytes)
      assert.are.same(codes, four.codes_of(a))
      assert.are.same(values, a:totable())
      assert.are.same(values, four.array({ 48 }, dtype, codes):totable())
    end
  end)

  it("are known by their names and limits", function()
    assert.are.equal(tc.int4, tc.i4)
    assert.are.equal(tc.uint4, tc.u4)
    assert.are.same({ 4, -8, 7 }, { tc.int4.bits, tc.int4.min, tc.int4.max })
    assert.are.same({ 4, 0, 15 }, { tc.uint4.bits, tc.uint4.min, tc.uint4.max })
    assert.are.equal(tc.int4, tc.zeros({ 2 }, "int4").dtype)
    assert.are.equal(tc.uint4, tc.zeros({ 2 }, "u4").dtype)
    assert.matches("i4[3, 5]", tostring(tc.zeros({ 3, 5 }, "i4")), 1, true)
  end)

  it("are read and written by the element, filled, counted and drawn", function()
    local a = tc.zeros({ 3, 5 }, tc.int4)
    a:set(1, 2, -8)
    a:set(1, 3, 7)
    assert.are.same({ 0, 0, -8, 7, 0 }, a:totable()[2])
    assert.are.equal(-8, a:get(1, 2))
    a:fill(-3)
    assert.are.same({ -3, -3, -3, -3, -3 }, a:totable()[3])
    assert.are.same({ 0, 1, 2, 3 }, tc.arange(4, tc.uint4):totable())
    for _, x in ipairs(tc.randint({ 100 }, tc.int4, { low = -8, high = 8, seed = 1 }):totable()) do
      assert.is_true(x >= -8 and x < 8)
    end
  end)

  it("convert to and from other types, saturating", function()
    local wide = tc.from_table({ -100, -8, -1, 0, 7, 8, 15, 100 }, tc.int32)
    assert.are.same({ -8, -8, -1, 0, 7, 7, 7, 7 }, wide:astype(tc.int4):totable())
    assert.are.same({ 0, 0, 0, 0, 7, 8, 15, 15 }, wide:astype(tc.uint4):totable())
    assert.are.same({ -8, -8, -1, 0, 7, 7, 7, 7 }, wide:astype(tc.int4):astype(tc.float32):totable())
    assert.are.same({ 2, 2, -2, 1 }, tc.from_table({ 1.5, 2.5, -2.5, 0.51 }, tc.float32):astype(tc.int4):totable())
  end)

  it("have no name in files", function()
    local a = tc.zeros({ 4, 4 }, tc.int4)
    assert.matches("have no int4; save array:view \"u8\"", helper.message(function() tc.npy.save("x.npy", a) end))
    assert.matches("have no int4", helper.message(function() tc.safetensors.save("x", { a = a }) end))
    assert.are.same({ 4, 2 }, a:view(tc.uint8).shape)
  end)
end)

-- ---- copies ---------------------------------------------------------------------------------------------------

describe("AsyncCopyTest: int4", function()
  for _, swizzle in ipairs{ "none", 32, 64, 128 } do
    it("load and store, swizzle " .. swizzle, function()
      each({ tc.int4, tc.uint4 }, function(dtype)
        each({ { 64 }, { 5 }, { 2, 3, 5 }, { 2, 16 } }, function(lead)
          local shape = { table.unpack(lead) }
          shape[#shape + 1] = swizzle == "none" and 64 or 8 * swizzle // 4
          if swizzle ~= "none" and shape[#shape - 1] % 8 ~= 0 then return end
          local source, codes = four.random(shape, dtype)
          runs(pallas.copy{ shape = shape, dtype = dtype, swizzle = swizzle }, both,
            function() return source, tc.zeros(shape, dtype) end,
            function(_, out) assert.are.same(codes, four.codes_of(out)) end)
        end)
      end)
    end)
  end

  it("prefetch, and rows of several boxes", function()
    local shape = { 16, 1024 }
    local source, codes = four.random(shape, tc.int4)
    local kernel = tc.kernel{ name = "wide", args = { tc.gmem(shape, tc.int4), tc.gmem(shape, tc.int4) },
      body = function(a, out)
        local smem, loaded = tc.smem(shape, tc.int4, { swizzle = "none" }), tc.barrier{}
        tc.async_prefetch(a)
        tc.copy_gmem_to_smem(a, smem, loaded)
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem, out)
        tc.wait_smem_to_gmem(0)
      end }
    runs(kernel, both, function() return source, tc.zeros(shape, tc.int4) end,
      function(_, out) assert.are.same(codes, four.codes_of(out)) end)
  end)

  it("tiles, zeros outside, and a store that is clipped", function()
    local shape, columns = { 40, 192 }, 128
    local source, codes = four.random(shape, tc.int4)
    local kernel = tc.kernel{ name = "tiles", grid = { 2, 2 }, grid_names = { "y", "x" },
      args = { tc.gmem(shape, tc.int4), tc.gmem({ 64, 256 }, tc.int4), tc.gmem({ 48, 192 }, tc.int4) },
      body = function(a, out, clipped)
        local index = { tc.axis_index "y", tc.axis_index "x" }
        local smem, loaded = tc.smem({ 32, columns }, tc.int4), tc.barrier{}
        tc.copy_gmem_to_smem(a:tile(index, { 32, columns }), smem, loaded)
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem, out:tile(index, { 32, columns }))
        tc.copy_smem_to_gmem(smem, clipped:tile(index, { 32, columns }))
        tc.wait_smem_to_gmem(0)
      end }
    local function code(row, column)
      return row < 40 and column < 192 and codes[row * 192 + column + 1] or 0
    end
    runs(kernel, both, function() return source, tc.zeros({ 64, 256 }, tc.int4), tc.zeros({ 48, 192 }, tc.int4) end,
      function(_, out, clipped)
        for i, c in ipairs(four.codes_of(out)) do assert.are.equal(code((i - 1) // 256, (i - 1) % 256), c) end
        for i, c in ipairs(four.codes_of(clipped)) do assert.are.equal(code((i - 1) // 192, (i - 1) % 192), c) end
      end)
  end)

  it("begins before the array, where it reads zeros", function()
    local source, codes = four.random({ 8, 128 }, tc.int4)
    local kernel = tc.kernel{ name = "before", grid = { 2 }, grid_names = { "x" },
      args = { tc.gmem({ 8, 128 }, tc.int4), tc.gmem({ 2, 8, 128 }, tc.int4) },
      body = function(a, out)
        local x, smem, loaded = tc.axis_index "x", tc.smem({ 8, 128 }, tc.int4), tc.barrier{}
        tc.copy_gmem_to_smem(a:at(tc.all, tc.ds((x * 2 - 1) * 64, 128)), smem, loaded)
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem, out[x])
        tc.wait_smem_to_gmem(0)
      end }
    runs(kernel, both, function() return source, tc.ones({ 2, 8, 128 }, tc.int4) end, function(_, out)
      for i, c in ipairs(four.codes_of(out)) do
        local x, row, column = (i - 1) // 1024, (i - 1) // 128 % 8, (i - 1) % 128
        column = column + (x * 2 - 1) * 64
        assert.are.equal(column >= 0 and column < 128 and codes[row * 128 + column + 1] or 0, c)
      end
    end)
  end)

  it("gathers", function()
    local source, codes = four.random({ 32, 256 }, tc.uint4)
    local rows = { 3, 31, 0, 7, 7, 16, 2, 40 }
    local kernel = tc.kernel{ name = "gathered", args = { tc.gmem({ 32, 256 }, tc.uint4), tc.gmem({ 8 }, tc.u32),
        tc.gmem({ 8, 64 }, tc.uint4) },
      body = function(a, named, out)
        local smem, loaded = tc.smem({ 8, 64 }, tc.uint4), tc.barrier{}
        tc.copy_gmem_to_smem(a:at(named, tc.ds(128, 64)), smem, loaded)
        tc.barrier_wait(loaded)
        out:store(smem:load())
      end }
    runs(kernel, blackwell, function() return source, tc.from_table(rows, tc.u32), tc.zeros({ 8, 64 }, tc.uint4) end,
      function(_, _, out)
        for i, c in ipairs(four.codes_of(out)) do
          local row, column = rows[(i - 1) // 64 + 1], 128 + (i - 1) % 64
          assert.are.equal(row < 32 and codes[row * 256 + column + 1] or 0, c)
        end
      end)
  end)

  -- The second of the bytes lies where the second of the 4-bit members does: two elements take one byte.
  it("shares storage: test_smem_aliasing_works_with_subbyte_dtypes", function()
    local bytes = {}
    for i = 1, 128 do bytes[i] = i - 1 end
    local kernel = tc.kernel{ name = "aliased", args = { tc.gmem({ 128 }, tc.u8), tc.gmem({ 256 }, tc.uint4) },
      body = function(x, out)
        local first, second = tc.smem({ 128 }, tc.u8), tc.smem({ 128 }, tc.u8)
        local narrow_first, narrow_second = tc.smem({ 256 }, tc.uint4), tc.smem({ 256 }, tc.uint4)
        tc.union({ first, second }, { narrow_first, narrow_second })
        second:store(x:load())
        tc.commit_smem()
        tc.copy_smem_to_gmem(narrow_second, out)
        tc.wait_smem_to_gmem(0)
      end }
    runs(kernel, both, function() return tc.from_table(bytes, tc.u8), tc.zeros({ 256 }, tc.uint4) end,
      function(_, out) assert.are.same(bytes, out:view(tc.u8):totable()) end)
  end)

  refuses("that begins within a byte",
    "TMA moves 2 elements of int4 as a byte, and a copy of them begins with a whole one.", function(a)
      local smem, loaded = tc.smem({ 64, 64 }, tc.int4), tc.barrier{}
      local function copy(step)
        tc.range(2, function(i) tc.copy_gmem_to_smem(a:at(tc.all, tc.ds(i * step, 64)), smem, loaded) end)
      end
      return function() copy(1) end, function() copy(32) end
    end, { args = { tc.gmem({ 64, 128 }, tc.int4) } })

  refuses("that reduces", "Reduction op add not supported by the TMA implementation for element type i4", function(a)
    local smem = tc.smem({ 64, 64 }, tc.int4)
    return function() tc.copy_smem_to_gmem(smem, a, { reduction_op = "add" }) end,
      function() tc.copy_smem_to_gmem(smem, a) end
  end, { args = { tc.gmem({ 64, 64 }, tc.int4) } })
end)

-- ---- registers ------------------------------------------------------------------------------------------------

-- What a fragment's astype makes of a value: integers wrap, and float8_e5m2 has no 9, 11, 13, 15.
local function converted(x, to)
  if to == tc.e5m2 then return x > 8 and (x + (x % 4 == 3 and 1 or x % 2 == 1 and -1 or 0)) or x end
  if to.kind == "float" then return x end
  local low = x & (1 << to.bits) - 1
  return to.min < 0 and low >= 1 << (to.bits - 1) and low - (1 << to.bits) or low
end

describe("Fragments of 4 bits", function()
  for _, to in ipairs{ tc.f32, tc.f16, tc.bf16, tc.e4m3, tc.e5m2, tc.i8, tc.u8, tc.i16, tc.u16, tc.i32, tc.i4,
                       tc.u4 } do
    it(("become %s: test_subbyte_upcast"):format(to), function()
      each({ tc.int4, tc.uint4 }, function(from)
        local shape = { 64, 256 }
        local source, codes = four.random(shape, from)
        each({ { plain = true }, { swizzle = 128 }, { swizzle = "none" } }, function(o)
          o.shape, o.from, o.to = shape, from, to
          runs(four.converted(o), both, function() return source, tc.zeros(shape, to) end, function(_, out)
            local flat = out:reshape{ 64 * 256 }:totable()
            for i, code in ipairs(codes) do
              local expected = converted(four.value(from, code), to)
              if flat[i] ~= expected then
                error(("%s %d -> %s: %s"):format(from, four.value(from, code), to, flat[i]))
              end
            end
          end)
        end)
      end)
    end)
  end

  it("are made of other types, rounding as astype does", function()
    local values = { -9, -8.5, -8, -1.5, -0.5, 0, 0.5, 1.75, 7, 7.5, 15, 16, 100, -100, 3, 2 }
    local expected = { -8, -8, -8, -1, 0, 0, 0, 1, 7, 7, 7, 7, 7, -8, 3, 2 }
    local unsigned = { 0, 0, 0, 0, 0, 0, 0, 1, 7, 7, 15, 15, 15, 0, 3, 2 }
    local kernel = tc.kernel{ name = "narrowed", args = { tc.gmem({ 16 }, tc.f32), tc.gmem({ 16 }, tc.i4),
        tc.gmem({ 16 }, tc.u4) },
      body = function(x, signed, plain)
        signed:store(x:load():astype(tc.i4))
        plain:store(x:load():astype(tc.u4))
      end }
    runs(kernel, both, function()
      return tc.from_table(values, tc.f32), tc.zeros({ 16 }, tc.i4), tc.zeros({ 16 }, tc.u4)
    end, function(_, signed, plain)
      assert.are.same(expected, signed:totable())
      assert.are.same(unsigned, plain:totable())
    end)
  end)

  it("are loaded and stored transposed, through scratch", function()
    each({ tc.int4, tc.e2m1 }, function(dtype)
      each({ true, false }, function(plain)
        local source, codes = four.random({ 32, 64 }, dtype)
        runs(four.converted{ shape = { 32, 64 }, from = dtype, to = dtype, transposed = true, plain = plain },
          plain and both or dtype == tc.int4 and both or blackwell,
          function() return source, tc.zeros({ 64, 32 }, dtype) end, function(_, out)
            for i, c in ipairs(four.codes_of(out)) do
              assert.are.equal(codes[(i - 1) % 32 * 64 + (i - 1) // 32 + 1], c)
            end
          end)
      end)
    end)
  end)

  it("of few elements, vectors, slices and splats", function()
    local source, codes = four.random({ 4, 8 }, tc.int4)
    local kernel = tc.kernel{ name = "few", args = { tc.gmem({ 4, 8 }, tc.int4), tc.gmem({ 4, 8 }, tc.int4),
        tc.gmem({ 2, 16 }, tc.int4) },
      body = function(a, out, more)
        tc.range(4, function(i)
          out:at(3 - i, tc.ds(0, 2)):store(a:at(i, tc.ds(6, 2)):load())
          out:at(3 - i, tc.ds(2, 6)):store(a:at(i, tc.ds(0, 6)):load())
        end)
        more:at(0, tc.ds(4, 8)):store(tc.full({ 8 }, -5, tc.int4))
        more[1]:store(tc.full({ 16 }, 6, tc.int4))
      end }
    runs(kernel, both, function() return source, tc.zeros({ 4, 8 }, tc.int4), tc.zeros({ 2, 16 }, tc.int4) end,
      function(_, out, more)
        for i, c in ipairs(four.codes_of(out)) do
          local row, column = 3 - (i - 1) // 8, (i - 1) % 8
          assert.are.equal(codes[row * 8 + (column < 2 and 6 + column or column - 2) + 1], c)
        end
        local rows = more:totable()
        assert.are.same({ 0, 0, 0, 0, -5, -5, -5, -5, -5, -5, -5, -5, 0, 0, 0, 0 }, rows[1])
        for j = 1, 16 do assert.are.equal(6, rows[2][j]) end
      end)
  end)

  it("outside of an array are 0, and are not stored", function()
    local source, codes = four.random({ 20, 24 }, tc.uint4)
    local kernel = tc.kernel{ name = "outside", grid = { 2, 2 }, grid_names = { "y", "x" },
      args = { tc.gmem({ 20, 24 }, tc.uint4), tc.gmem({ 32, 32 }, tc.u8), tc.gmem({ 20, 24 }, tc.uint4) },
      body = function(a, out, again)
        local index = { tc.axis_index "y", tc.axis_index "x" }
        local tile = a:tile(index, { 16, 16 }):load()
        out:tile(index, { 16, 16 }):store(tile:astype(tc.u8))
        again:tile(index, { 16, 16 }):store(tile)
      end }
    runs(kernel, both, function() return source, tc.ones({ 32, 32 }, tc.u8), tc.zeros({ 20, 24 }, tc.uint4) end,
      function(_, out, again)
        local rows = out:totable()
        for i = 0, 31 do
          for j = 0, 31 do
            assert.are.equal(i < 20 and j < 24 and codes[i * 24 + j + 1] or 0, rows[i + 1][j + 1])
          end
        end
        assert.are.same(codes, four.codes_of(again))
      end)
  end)

  it("are chosen from, kept in variables and repeated", function()
    local source, codes = four.random({ 64, 64 }, tc.int4)
    local line, line_codes = four.random({ 64 }, tc.int4, 9)
    local kernel = tc.kernel{ name = "chosen", args = { tc.gmem({ 64, 64 }, tc.int4), tc.gmem({ 64 }, tc.int4),
        tc.gmem({ 3, 64, 64 }, tc.int4) },
      body = function(a, vector, out)
        local tile = a:load()
        local kept = tc.var(tile)
        kept:set(tc.where(tile:astype(tc.i32):lt(0), tc.full({ 64, 64 }, 1, tc.int4), kept:get()))
        out[0]:store(kept:get())
        out[1]:store(vector:load():broadcast({ 64, 64 }, 0))
        out[2]:store(vector:load():broadcast({ 64, 64 }, 1))
      end }
    runs(kernel, both, function() return source, line, tc.zeros({ 3, 64, 64 }, tc.int4) end, function(_, _, out)
      local found = four.codes_of(out)
      for i, code in ipairs(codes) do
        assert.are.equal(code >= 8 and 1 or code, found[i])
        assert.are.equal(line_codes[(i - 1) % 64 + 1], found[4096 + i])
        assert.are.equal(line_codes[(i - 1) // 64 + 1], found[8192 + i])
      end
    end)
  end)

  it("are loaded one by one as recorded scalars", function()
    each({ tc.int4, tc.uint4 }, function(dtype)
      local source, codes = four.random({ 4, 32 }, dtype)
      local kernel = tc.kernel{ name = "scalars", args = { tc.gmem({ 4, 32 }, dtype), tc.gmem({ 3, 32 }, tc.i32) },
        body = function(a, out)
          local plain, swizzled = tc.smem({ 4, 32 }, dtype, { swizzle = "none" }), tc.smem({ 8, 64 }, dtype)
          plain:store(a:load())
          swizzled:at(tc.ds(0, 8), tc.all):store(tc.full({ 8, 64 }, 3, dtype))
          tc.range(32, function(i)
            out:at(0, i):store(a:at(i % 4, i):load())
            out:at(1, i):store(plain:at(3, 31 - i):load())
            out:at(2, i):store(swizzled:at(i % 8, 2 * i + 1):load())
          end)
        end }
      runs(kernel, both, function() return source, tc.zeros({ 3, 32 }, tc.i32) end, function(_, out)
        local rows = out:totable()
        for i = 0, 31 do
          assert.are.equal(four.value(dtype, codes[i % 4 * 32 + i + 1]), rows[1][i + 1])
          assert.are.equal(four.value(dtype, codes[3 * 32 + 31 - i + 1]), rows[2][i + 1])
          assert.are.equal(3, rows[3][i + 1])
        end
      end)
    end)
  end)

  it("share storage with wider ones: test_smem_aliasing_works_for_quantization", function()
    local shape = { 64, 256 }
    local codes = four.codes(64 * 256)
    for i, c in ipairs(codes) do codes[i] = c % 4 end
    local kernel = tc.kernel{ name = "quantized", args = { tc.gmem(shape, tc.u4), tc.gmem(shape, tc.bf16) },
      body = function(x, out)
        local large, small, loaded = tc.smem(shape, tc.bf16), tc.smem(shape, tc.u4), tc.barrier{}
        tc.union(large, small)
        tc.copy_gmem_to_smem(x, small, loaded)
        tc.barrier_wait(loaded)
        large:store(small:load():astype(tc.bf16) * 3)
        tc.commit_smem()
        tc.copy_smem_to_gmem(large, out)
        tc.wait_smem_to_gmem(0)
      end }
    runs(kernel, both, function() return four.array(shape, tc.u4, codes), tc.zeros(shape, tc.bf16) end,
      function(_, out)
        for i, x in ipairs(out:reshape{ #codes }:totable()) do assert.are.equal(3 * codes[i], x) end
      end)
  end)

  it("are the weights of a matmul of mixed types", function()
    each({ { m = 128, n = 64, k = 128, tk = 64, dtype = tc.int4 },
           { m = 128, n = 128, k = 256, tk = 128, dtype = tc.uint4 } }, function(o)
      local weights, codes = four.random({ o.m, o.k }, o.dtype)
      local scales = tc.rand({ o.m }, tc.f32, { seed = 2 })
      local b = tc.randint({ o.k, o.n }, tc.bf16, { low = -4, high = 5, seed = 3 })
      local factor, right = scales:totable(), b:totable()
      runs(four.mixed(o), both, function() return weights, scales, b, tc.zeros({ o.m, o.n }, tc.f32) end,
        function(_, _, _, out)
          local rows = out:totable()
          for i = 1, o.m, 7 do
            for j = 1, o.n, 5 do
              local sum = 0
              for k = 1, o.k do sum = sum + four.value(o.dtype, codes[(i - 1) * o.k + k]) * right[k][j] end
              assert.is_true(math.abs(sum * factor[i] - rows[i][j]) <= 1e-6 * math.abs(sum * factor[i]))
            end
          end
        end)
    end)
  end)

  it("are printed, and seen in shared memory", function()
    local k, a = tc.record{ name = "seen", args = { tc.gmem({ 8, 64 }, tc.int4) } }
    local smem = tc.smem({ 8, 64 }, tc.int4)
    smem:store(a:load())
    assert.matches("SMEM ref, int4 (8, 64), swizzle 32", tostring(smem), 1, true)
    assert.matches("%%0 = load arg0 %-> int4 %(8, 64%)", k:ops())
    local source, codes = four.random({ 8, 64 }, tc.int4)
    local image = smem:peek{ args = { source }, quiet = true }
    assert.are.equal(tc.int4, image.dtype)
    assert.are.same(codes, four.codes_of(image))
    k:close()
  end)
end)

describe("A fragment of 4 bits", function()
  local pairs_text = "ref:load moves 4-bit elements by the byte: the last dimension of the array has to be even, and "
    .. "so have what a view takes of it and where it begins"

  refuses("of an odd number of columns", pairs_text, function(a)
    return function() a:at(tc.all, tc.ds(0, 3)):load() end, function() a:at(tc.all, tc.ds(0, 2)):load() end
  end, { args = { tc.gmem({ 4, 8 }, tc.int4) } })

  refuses("from an odd column on", pairs_text, function(a)
    return function() a:at(tc.all, tc.ds(1, 2)):load() end, function() a:at(tc.all, tc.ds(2, 2)):load() end
  end, { args = { tc.gmem({ 4, 8 }, tc.uint4) } })

  refuses("of a column", pairs_text, function(a)
    return function() a:at(tc.all, 2):load() end, function() a:at(2, tc.all):load() end
  end, { args = { tc.gmem({ 4, 8 }, tc.e2m1) } })

  refuses("of an array with rows of an odd number", pairs_text, function(a, b)
    return function() a:load() end, function() b:load() end
  end, { args = { tc.gmem({ 4, 7 }, tc.int4), tc.gmem({ 7, 4 }, tc.int4) } })

  refuses("of an array with a named last dimension", pairs_text, function(a, b)
    return function() a:tile({ 0, 0 }, { 4, 4 }):load() end, function() b:tile({ 0, 0 }, { 4, 4 }):load() end
  end, { args = { tc.gmem({ 4, "K" }, tc.int4), tc.gmem({ "M", 8 }, tc.int4) } })

  refuses("is not computed with",
    "'+' is not computed in int4 but in float32, float16, bfloat16, int32 and uint32: convert with :astype(tc.float32)",
    function(a)
      local tile = a:load()
      return function() return tile + tile end, function() return tile:astype(tc.bf16) + tile:astype(tc.bf16) end
    end, { args = { tc.gmem({ 4, 8 }, tc.int4) } })

  refuses("holds what fits into it", "8 does not fit into int4 (-8 to 7)", function()
    return function() tc.full({ 4, 8 }, 8, tc.int4) end, function() tc.full({ 4, 8 }, 8, tc.uint4) end
  end)

  refuses("is stored by pairs",
    "a single int4 cannot be stored: it shares its byte with a neighbour; store a fragment of an even number of them",
    function(a)
      return function() a:at(1, 2):store(3) end, function() a:at(1, tc.ds(2, 2)):store(tc.full({ 2 }, 3, tc.int4)) end
    end, { args = { tc.gmem({ 4, 8 }, tc.int4) } })

  refuses("is not padded", "ref:load does not support padded elements", function()
    local padded, packed = tc.smem({ 8, 128 }, tc.e2m1, { padded = true }), tc.smem({ 8, 128 }, tc.e2m1)
    return function() padded:load() end, function() packed:load() end
  end)

  refuses("is no operand of an MMA", "Unsupported element type: i4", function()
    local a, b = tc.smem({ 128, 64 }, tc.int4), tc.smem({ 64, 128 }, tc.int4)
    local acc = tc.tmem({ 128, 128 }, tc.int32)
    local wide_a, wide_b = tc.smem({ 128, 64 }, tc.int8), tc.smem({ 64, 128 }, tc.int8)
    return function() tc.mma(acc, a, b) end, function() tc.mma(acc, wide_a, wide_b) end
  end)

  helper.build_refuses("of float4_e2m1fn has no conversion on Hopper",
    "sm_90a does not convert from or to float4_e2m1fn, which only Blackwell's instructions know; loads, stores and "
    .. "copies of it are possible.", { target = "sm_90a", args = { tc.gmem({ 8, 8 }, tc.e2m1) } },
    function(a) a:load():astype(tc.float32) end)
end)

-- ---- float4_e2m1fn and tensor memory --------------------------------------------------------------------------

describe("Tensor memory of 4 bits", function()
  it("load_store_tmem, fp4", function()
    each({ { 128, 128 }, { 128, 8 }, { 64, 160 }, { 64, 32 }, { 128, 512 } }, function(shape)
      each({ tc.e2m1, tc.int4 }, function(dtype)
        local source, codes = four.random(shape, dtype)
        each({ 1, 2 }, function(warpgroups)
          local o = { shape = shape, dtype = dtype, warpgroups = warpgroups, target = "sm_100a" }
          runs(four.through_tmem(o), blackwell, function() return source, tc.zeros(shape, dtype) end,
            function(_, out) assert.are.same(codes, four.codes_of(out)) end)
        end)
      end)
    end)
  end)

  it("is loaded in slices", function()
    local source, codes = four.random({ 128, 256 }, tc.e2m1)
    runs(four.through_tmem{ shape = { 128, 256 }, dtype = tc.e2m1, columns = 64, target = "sm_100a" }, blackwell,
      function() return source, tc.zeros({ 128, 256 }, tc.e2m1) end,
      function(_, out) assert.are.same(codes, four.codes_of(out)) end)
  end)

  -- Registers find each element where tcgen05.cp has put it.
  it("is loaded as it is copied from SMEM", function()
    each({ tc.e2m1, tc.int4 }, function(dtype)
      local source, codes = four.random({ 128, 256 }, dtype)
      runs(four.through_tmem{ shape = { 128, 256 }, dtype = dtype, copied = true, target = "sm_100a" }, blackwell,
        function() return source, tc.zeros({ 128, 256 }, dtype) end,
        function(_, out) assert.are.same(codes, four.codes_of(out)) end)
    end)
  end)

  it("converts every float4_e2m1fn from and to other types", function()
    each({ tc.f32, tc.f16, tc.bf16, tc.e4m3, tc.e5m2 }, function(to)
      local shape = { 128, 64 }
      local source, codes = four.random(shape, tc.e2m1)
      local kernel = tc.kernel{ name = "converted", args = { tc.gmem(shape, tc.e2m1), tc.gmem(shape, to),
          tc.gmem(shape, tc.e2m1) },
        body = function(a, out, back)
          local wide = a:load():astype(to)
          out:store(wide)
          back:store(wide:astype(tc.e2m1))
        end }
      runs(kernel, blackwell, function() return source, tc.zeros(shape, to), tc.zeros(shape, tc.e2m1) end,
        function(_, out, back)
          for i, x in ipairs(out:reshape{ #codes }:totable()) do assert.are.equal(four.e2m1[codes[i]], x) end
          assert.are.same(codes, four.codes_of(back))
        end)
    end)
  end)

  it("rounds to the nearest float4_e2m1fn, ties to even, and saturates", function()
    local values = { 0.25, 0.26, 0.75, 1.25, 1.26, 1.75, 2.5, 2.51, 3.5, 5, 5.01, 100, -0.25, -0.3, -5, -1e30 }
    local expected = { 0, 0.5, 1, 1, 1.5, 2, 2, 3, 4, 4, 6, 6, 0, -0.5, -4, -6 }
    local kernel = tc.kernel{ name = "rounded", args = { tc.gmem({ 16 }, tc.f32), tc.gmem({ 16 }, tc.e2m1) },
      body = function(x, out) out:store(x:load():astype(tc.e2m1)) end }
    runs(kernel, blackwell, function() return tc.from_table(values, tc.f32), tc.zeros({ 16 }, tc.e2m1) end,
      function(_, out)
        for i, c in ipairs(four.codes_of(out)) do assert.are.equal(expected[i], four.e2m1[c]) end
      end)
  end)

  it("is registers on Hopper", function()
    local source, codes = four.random({ 64, 128 }, tc.int4)
    runs(four.through_tmem{ shape = { 64, 128 }, dtype = tc.int4, target = "sm_90a" }, { "sm_90a" },
      function() return source, tc.zeros({ 64, 128 }, tc.int4) end,
      function(_, out) assert.are.same(codes, four.codes_of(out)) end)
  end)

  refuses("that is not packed is not loaded", "TMEM layout default(packing=1) is not supported", function()
    local loose = tc.tmem({ 128, 64 }, tc.e2m1, { packed = false })
    local packed = tc.tmem({ 128, 64 }, tc.e2m1, { packed = true })
    return function() tc.async_load_tmem(loose) end, function() tc.async_load_tmem(packed) end
  end)

  refuses("that is padded is not loaded", "TMEM layout default(packing=4) is not supported", function()
    local padded = tc.tmem({ 128, 64 }, tc.e2m1, { padded = true })
    local packed = tc.tmem({ 128, 64 }, tc.e2m1, { packed = true })
    return function() tc.async_load_tmem(padded) end, function() tc.async_load_tmem(packed) end
  end)
end)
