--- Writes docs/bench.md and docs/bench.svg from the results of bench/peers.py and `bench/gpu.lua latency`.

local json = require "tcmma.json"

local SERIES = {
  { "ours", "tcmma", "#1f5fbf" }, { "triton", "Triton", "#d9822b" }, { "gluon", "Gluon", "#3c9d5b" },
}

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  local value, why = json.decode(text)
  if not value then error(path .. ": " .. why, 0) end
  return value
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  file:close()
  print("wrote " .. path)
end

local function key(row) return ("%s %dx%dx%d"):format(row.dtype or "", row.M, row.N, row.K) end

--- Rows by kind; of two rows for one thing the later counts. And the header of the first file that has one.
local function gather(paths)
  local all = { matmul = {}, epilogue = {}, latency = {}, launch = {}, pallas = {}, note = {} }
  local at, header = {}, nil
  for _, path in ipairs(paths) do
    local data = read(path)
    header = header or data.device and data
    for _, row in ipairs(data.rows) do
      local list = all[row.kind]
      local name = row.kind .. (row.M and key(row) or "") .. (row.name or row.tool or row.what or row.text or "")
      if not at[name] then
        list[#list + 1] = row
        at[name] = #list
      else
        list[at[name]] = row
      end
    end
  end
  return all, header or {}
end

local function ratio(row, of, to)
  return row[of] and row[to] and row[of] / row[to]
end

local function number(x, format) return x and (format or "%.3f"):format(x) or "-" end

local function geometric(rows, of, to, wanted)
  local sum, n = 0, 0
  for _, row in ipairs(rows) do
    local r = wanted(row) and ratio(row, of, to)
    if r then sum, n = sum + math.log(r), n + 1 end
  end
  return n > 0 and math.exp(sum / n) or nil, n
end

local function tflops(row, us) return us and 2e-6 * row.M * row.N * row.K / us end

local function matmul_table(out, rows, dtype, pallas)
  local bf16 = dtype == "bf16"
  local function put(...) out[#out + 1] = "| " .. table.concat({ ... }, " | ") .. " |" end
  if bf16 then
    put("M x N x K", "tcmma us", "TFLOP/s", "cuBLAS", "Triton", "Gluon", "Pallas (its time / XLA's)", "model's choice",
      "configuration")
    put("---", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---")
  else
    put("M x N x K", "tcmma us", "TFLOP/s", "cuBLAS", "model's choice", "configuration")
    put("---", "---:", "---:", "---:", "---:", "---")
  end
  for _, row in ipairs(rows) do
    if row.dtype == dtype then
      local p = pallas[key { M = row.M, N = row.N, K = row.K }]
      local first = {
        ("%dx%dx%d"):format(row.M, row.N, row.K), number(row.ours, "%.2f"), number(tflops(row, row.ours), "%.0f"),
        number(ratio(row, "cublas", "ours")),
      }
      local last = { number(ratio(row, "cublas", "model")), row.config or "-" }
      if bf16 then
        table.move({ number(ratio(row, "triton", "ours")), number(ratio(row, "gluon", "ours")),
          p and number(p.us / p.xla_us) or "-" }, 1, 3, 5, first)
      end
      table.move(last, 1, 2, #first + 1, first)
      put(table.unpack(first))
    end
  end
end

local function summary(out, rows)
  local function put(what, of, wanted)
    local mean, n = geometric(rows, of, "ours", wanted)
    if mean then out[#out + 1] = ("| %s | %.3f | %d |"):format(what, mean, n) end
  end
  local function bf16(test) return function(row) return row.dtype == "bf16" and test(row) end end
  out[#out + 1] = "| geometric mean of the other's time over ours | ratio | shapes |"
  out[#out + 1] = "|---|---:|---:|"
  put("bf16, M >= 2048 without 8200^3, cuBLAS", "cublas", bf16(function(r) return r.M >= 2048 and r.M ~= 8200 end))
  put("bf16, M <= 128, cuBLAS", "cublas", bf16(function(r) return r.M <= 128 end))
  put("bf16, all, cuBLAS", "cublas", bf16(function() return true end))
  put("bf16, all, Triton", "triton", bf16(function() return true end))
  put("bf16, all, Gluon", "gluon", bf16(function() return true end))
  put("e4m3, M >= 2048, cuBLAS", "cublas", function(r) return r.dtype == "e4m3" and r.M >= 2048 end)
  put("e4m3, all, cuBLAS", "cublas", function(r) return r.dtype == "e4m3" end)
end

--- Dots on one line a shape: how fast each is, with cuBLAS as 1.
local function plot(rows, header)
  local left, right, line, top = 190, 30, 19, 70
  local width, lowest, highest = 860, 0.5, 1.3
  local list = {}
  for _, row in ipairs(rows) do
    if row.dtype == "bf16" and row.cublas and row.ours then list[#list + 1] = row end
  end
  local height = top + #list * line + 40
  local out = {}
  local function put(format, ...) out[#out + 1] = format:format(...) end
  local function x_of(value)
    value = math.max(lowest, math.min(highest, value))
    return left + (value - lowest) / (highest - lowest) * (width - left - right)
  end
  put('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" ' ..
    'font-size="12">', width, height, width, height)
  put '<rect width="100%%" height="100%%" fill="#ffffff"/>'
  put('<text x="%d" y="20" font-size="15" fill="#222">bf16 matmul on %s: speed with cuBLAS as 1</text>', 16,
    header.device or "a GPU")
  for i, series in ipairs(SERIES) do
    local x = 20 + (i - 1) * 90
    put('<circle cx="%d" cy="38" r="5" fill="%s"/><text x="%d" y="42" fill="#222">%s</text>', x, series[3], x + 10,
      series[2])
  end
  for tick = lowest, highest + 1e-9, 0.1 do
    local x = x_of(tick)
    local one = math.abs(tick - 1) < 1e-9
    put('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-width="%d"/>', x, top - 8, x, height - 32,
      one and "#555" or "#ddd", one and 2 or 1)
    put('<text x="%.1f" y="%d" text-anchor="middle" fill="#444">%.1f</text>', x, height - 16, tick)
  end
  for i, row in ipairs(list) do
    local y = top + (i - 1) * line + 6
    put('<text x="%d" y="%d" text-anchor="end" fill="#222">%d x %d x %d</text>', left - 10, y + 4, row.M, row.N, row.K)
    for j = #SERIES, 1, -1 do
      local value = ratio(row, "cublas", SERIES[j][1])
      if value then
        put('<circle cx="%.1f" cy="%d" r="%s" fill="%s"/>', x_of(value), y, j == 1 and "5.5" or "4", SERIES[j][3])
      end
    end
  end
  put '</svg>'
  return table.concat(out, "\n") .. "\n"
end

local function by_size(a, b)
  if a.dtype ~= b.dtype then return a.dtype == "bf16" end
  if (a.M <= 128) ~= (b.M <= 128) then return b.M <= 128 end
  local x, y = a.M * a.N * a.K, b.M * b.N * b.K
  if x ~= y then return x < y end
  return key(a) < key(b)
end

local function tables(all, header, pallas)
  local out = {
    "<!-- Made by `make bench-gpu`: do not edit. -->", "# Measured on a GPU", "",
    ("%s, driver %s, %s; %s, %s."):format(header.device or "?", header.driver or "?", header.versions or "?",
      header.date or "?", header.mode or "?"),
    "", "![speed relative to cuBLAS](bench.svg)", "",
    "Random normal inputs, out = a b^T with float32 accumulation, in one process on the same tensors, L2 cold, in",
    "CUDA graphs, the contenders in a new random order each round, medians",
    "([bench/peers.py](../bench/peers.py)). The columns of the others hold **their time over ours**: above 1 tcmma is",
    "faster. tcmma, Triton and Gluon are the best of the configurations tried; \"model's choice\" is what `matmul`",
    "takes without tuning, against cuBLAS. fp8 is e4m3 with fast accumulation on both sides. Pallas runs in a process",
    "of its own beside XLA's dot.", "",
  }
  summary(out, all.matmul)
  for _, dtype in ipairs { "bf16", "e4m3" } do
    table.move({ "", "## " .. (dtype == "bf16" and "bf16" or "fp8 (e4m3)"), "" }, 1, 3, #out + 1, out)
    matmul_table(out, all.matmul, dtype, pallas)
  end
  return out
end

local function small_tables(out, all)
  local function put(...) out[#out + 1] = "| " .. table.concat({ ... }, " | ") .. " |" end
  if #all.epilogue > 0 then
    table.move({ "", "## Fused epilogues", "" }, 1, 3, #out + 1, out)
    put("epilogue", "M x N x K", "tcmma us", "the other's us", "ratio", "the other", "configuration")
    put("---", "---", "---:", "---:", "---:", "---", "---")
    for _, r in ipairs(all.epilogue) do
      put(r.name .. " " .. r.dtype, ("%dx%dx%d"):format(r.M, r.N, r.K), number(r.ours, "%.2f"),
        number(r.peer_us, "%.2f"), number(ratio(r, "peer_us", "ours")), r.peer, r.config or "-")
    end
  end
  if #all.latency > 0 then
    table.move({
      "", "## From an edit to the result, seconds", "",
      "A bf16 matmul of 1024^3, from source to the result on the GPU. \"process\": a fresh process with an empty",
      "cache, from its start, with loading the tool and making the context.", "" }, 1, 6, #out + 1, out)
    put("tool", "process", "of it: loading, context", "first call", "edited kernel, warm process",
      "first call, kernel on disk")
    put("---", "---:", "---:", "---:", "---:", "---:")
    for _, r in ipairs(all.latency) do
      put(r.tool, number(r.process), number(r.context), number(r.first),
        ("%.3f, %.3f"):format(r.edit, r.edit2), number(r.hit))
    end
  end
  if #all.launch > 0 then
    table.move({ "", "## Cost of a launch on the host, microseconds", "" }, 1, 3, #out + 1, out)
    put("what", "us")
    put("---", "---:")
    for _, r in ipairs(all.launch) do put(r.what, number(r.us, "%.2f")) end
  end
  if #all.note > 0 then
    table.move({ "", "## Notes of the run", "" }, 1, 3, #out + 1, out)
    for _, r in ipairs(all.note) do out[#out + 1] = "- " .. r.text end
  end
end

return function(paths)
  local all, header = gather(paths)
  local pallas = {}
  for _, row in ipairs(all.pallas) do pallas[key { M = row.M, N = row.N, K = row.K }] = row end
  table.sort(all.matmul, by_size)
  local out = tables(all, header, pallas)
  small_tables(out, all)
  local folder = os.getenv "BENCH_DOCS" or "docs"
  write(folder .. "/bench.md", table.concat(out, "\n") .. "\n")
  write(folder .. "/bench.svg", plot(all.matmul, header))
end
