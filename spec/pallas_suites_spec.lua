-- The cases of Pallas:Mosaic GPU's suites of whole matmuls, on the emulator, against the product in double precision.
-- Sizes are reduced: a suite's 1024 and 4096 are 256 and 512 here, 16384 rows in groups are 600.
local tc = require "tcmma"
local check = require "pallas_check"

local each, close = check.each, check.close

-- o: target, m, n, k, dtype, out, atol, rtol, residual, epilogue; config as of tc.matmul.
local function multiplies(o)
  local device = "emulator:" .. o.target
  local a = tc.randn({ o.m, o.k }, o.dtype, { seed = 1, device = device })
  local b = tc.randn({ o.k, o.n }, o.dtype, { seed = 2, device = device })
  local out = tc.zeros({ o.m, o.n }, o.out or o.dtype, { device = device })
  local c = o.residual and tc.randn({ o.m, o.n }, o.out or o.dtype, { seed = 3, device = device }) or nil
  tc.matmul(a, b, out, { config = o.config, residual = c })
  local expected = tc.reference.matmul(a, b)
  if c then
    local sum, more = expected:totable(), c:totable()
    for i, row in ipairs(sum) do
      for j, x in ipairs(row) do row[j] = x + more[i][j] end
    end
    expected = tc.from_table(sum, tc.f64)
  end
  close(out:to "emulator", expected, o.atol, o.rtol, o.config)
end

describe("mgpu_matmul_test:", function()
  it("Blackwell", function()
    each({ 256, 512 }, function(m)
      each({ 256, 512 }, function(n)
        each({ 256, 512 }, function(k)
          multiplies{ target = "sm_100a", m = m, n = n, k = k, dtype = tc.f16, atol = 2e-3, rtol = 1e-3,
            config = { tile_m = 128, tile_n = 128, tile_k = 128, stages = 2 } }
        end)
      end)
    end)
  end)

  it("Hopper, tiles, steps and the added matrix", function()
    each({ 64, 128 }, function(tile_m)
      each({ 64, 128 }, function(tile_n)
        each({ 64, 128 }, function(tile_k)
          each({ 2, 4 }, function(stages)
            each({ false, true }, function(residual)
              -- Of the largest tiles, fewer stages have room beside float32 results.
              local fitting = math.min(stages, 160 * 1024 // (2 * tile_k * (tile_m + tile_n)))
              multiplies{ target = "sm_90a", m = 256, n = 256, k = 256, dtype = tc.f16, out = tc.f32,
                          residual = residual,
                atol = 1e-4, rtol = residual and 5e-3 or 1e-4,
                config = { tile_m = tile_m, tile_n = tile_n, tile_k = tile_k, stages = fitting } }
            end)
          end)
        end)
      end)
    end)
  end)

  it("Hopper, pieces of the epilogue", function()
    each({ 32, 64, 128 }, function(piece) -- bytes of a row
      multiplies{ target = "sm_90a", m = 256, n = 256, k = 128, dtype = tc.f16, atol = 2e-3, rtol = 1e-3,
        config = { tile_m = 128, tile_n = 128, tile_k = 64, stages = 2, piece = piece } }
    end)
  end)

  it("Hopper, widths of the strips of tiles, and clusters", function()
    each({ 1, 3, 4 }, function(group)
      each({ 1, 2 }, function(cluster)
        multiplies{ target = "sm_90a", m = 512, n = 256, k = 128, dtype = tc.f16, atol = 2e-3, rtol = 1e-3,
          config = { tile_m = 128, tile_n = 64, tile_k = 64, stages = 2, group = group, cluster = cluster } }
      end)
    end)
  end)
end)

-- Pallas draws 100 of each; those of two CTAs that multiply together are in collective_random_spec.
describe("matmul_test:", function()
  local function drawn(target, seed, draw)
    local state = seed
    local function pick(list)
      state = (state * 1103515245 + 12345) % 2147483648
      return list[state // 65536 % #list + 1]
    end
    for _ = 1, 20 do multiplies(draw(target, pick)) end
  end

  it("20 drawn for sm_90a", function()
    drawn("sm_90a", 1, function(target, pick)
      return { target = target, m = pick{ 128, 256, 512 }, n = pick{ 128, 256, 512 }, k = pick{ 128, 256, 512 },
        dtype = pick{ tc.f16, tc.bf16 }, out = tc.f32, atol = 2e-3, rtol = 1e-2,
        config = { tile_m = pick{ 64, 128 }, tile_n = pick{ 64, 128 }, tile_k = 64, stages = pick{ 2, 3, 4, 5 },
          cluster = pick{ 1, 2 } } }
    end)
  end)

  it("20 drawn for sm_100a, alone and in clusters", function()
    drawn("sm_100a", 2, function(target, pick)
      return { target = target, m = pick{ 256, 512 }, n = pick{ 256, 512 }, k = pick{ 128, 256, 512 },
        dtype = pick{ tc.f16, tc.bf16 }, out = tc.f32, atol = 2e-3, rtol = 1e-2,
        config = { tile_m = 128, tile_n = pick{ 64, 128 }, tile_k = 64, stages = pick{ 2, 3, 4, 5 },
          cluster = pick{ 1, 2 } } }
    end)
  end)
end)

describe("mgpu_ragged_dot_test:", function()
  local build = dofile "examples/15_matmul_grouped.lua"

  each({ 1, 3, 16 }, function(groups)
    it(groups .. " groups", function()
      local rows, n, k = 600, 256, 128
      local bounds = { 0 }
      for g = 1, groups - 1 do bounds[g + 1] = bounds[g] + (rows - bounds[g]) * (g % 3) // groups end
      bounds[groups + 1] = rows
      local a, b = tc.randn({ rows, k }, tc.f16, { seed = 1 }), tc.randn({ groups, k, n }, tc.f16, { seed = 2 })
      local out = tc.zeros({ rows, n }, tc.f16)
      build(rows, groups, n, k):emulate({ target = "sm_100a" }, a, b, tc.from_table(bounds, tc.i32), out)
      local a_rows, b_tables, got = a:totable(), b:totable(), out:totable()
      for g = 1, groups do
        local mine = table.move(a_rows, bounds[g] + 1, bounds[g + 1], 1, {})
        if #mine > 0 then
          close(tc.from_table(table.move(got, bounds[g] + 1, bounds[g + 1], 1, {}), tc.f32),
            tc.reference.matmul(tc.from_table(mine, tc.f16), tc.from_table(b_tables[g], tc.f16)), 1e-3, 1e-3,
            { groups = groups, group = g })
        end
      end
    end)
  end)
end)
