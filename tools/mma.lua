-- Reads src/mma.def, and makes the table of docs/manual.md of it.
-- As a module (dofile "tools/mma.lua"): rows(text) and manual(rows, name of a type).

local M = {}

local classes = { FP8 = { "E4M3", "E5M2" }, FP6 = { "E2M3", "E3M2" }, FP4 = { "E2M1" } }

local function split(text)
  local list, depth, from, quoted = {}, 0, 1, false
  for at = 1, #text do
    local c = text:sub(at, at)
    if c == '"' then quoted = not quoted end
    if not quoted and c == "(" then depth = depth + 1 end
    if not quoted and c == ")" then depth = depth - 1 end
    if not quoted and depth == 0 and c == "," then
      list[#list + 1] = text:sub(from, at - 1)
      from = at + 1
    end
  end
  list[#list + 1] = text:sub(from)
  for i, item in ipairs(list) do list[i] = item:match "^%s*(.-)%s*$" end
  return list
end

--- "D(F16) | FP4" as {"f16", "e2m1"}.
local function types(text)
  local list = {}
  for word in text:gsub("D%((%w+)%)", "%1"):gmatch "%u%w+" do
    for _, t in ipairs(classes[word] or { word }) do list[#list + 1] = t:lower() end
  end
  return list
end

local function words(text, pattern)
  local list = {}
  for word in text:gmatch(pattern) do list[#list + 1] = tonumber(word) or word end
  return list
end

local function rows_of(text)
  local one, two, sparse_one, sparse_two = table.unpack(split(text:match "^ROWS%((.*)%)$"))
  return { one = words(one, "M(%d+)"), two = words(two, "M(%d+)"), sparse_one = words(sparse_one, "M(%d+)"),
    sparse_two = words(sparse_two, "M(%d+)") }
end

local function columns_of(text)
  local one, fine, two, sparse_two, most = table.unpack(words(text, "%d+"))
  return { one = one, fine = fine, two = two, sparse_two = sparse_two, most = most }
end

--- The rows in order, with the names of their columns; M and N of both CTAs together.
function M.rows(text)
  local list = {}
  text = text:gsub("/%*.-%*/", "")
  for body in text:gmatch "%f[%w]MMA(%b())" do
    local c = split(body:sub(2, -2))
    assert(#c == 16, "a row of mma.def has 16 columns, but got " .. #c .. " in " .. body)
    local pallas = {}
    for _, limit in ipairs(words(c[16], "[%u_]+")) do pallas[limit] = true end
    list[#list + 1] = { kind = c[1], family = c[2], name = c[3]:sub(2, -2), a = types(c[4]), b = types(c[5]),
      d = types(c[6]), scale = types(c[7]), block = tonumber(c[8]), same = c[9] == "true", k = tonumber(c[10]),
      k_sparse = tonumber(c[11]), m = rows_of(c[12]), n = columns_of(c[13]),
      targets = words(c[14], "sm_%w+"), version = tonumber(c[15]), pallas = pallas }
  end
  return list
end

local function spelled(row, list, name)
  local out = {}
  for i, t in ipairs(list) do
    out[i] = (t == "e2m1" and row.k == 32 and "padded " or "") .. name(t)
  end
  return table.concat(out, ", ")
end

local function operands(row, name)
  local text = spelled(row, row.a, name)
  return #row.a > 1 and "each one of " .. text or text
end

local function m_text(one, two)
  if #one == 0 and #two == 0 then return "" end
  return table.concat(one, ", ") .. (#two > 0 and " / " .. table.concat(two, ", ") or "")
end

local function n_text(row)
  local n = row.n
  return (n.fine > 0 and "8, 24, all of " or "") .. n.one .. (n.two > 0 and " / " .. n.two or "")
end

--- Lines of the table.
function M.manual(rows, name)
  local out = {
    "| A and B | accumulator | scales (elements of K each) | instruction | on | M / of a pair "
      .. "| multiples for N / of a pair | sparse: M | sparse: multiples for a pair's N |",
    "|---|---|---|---|---|---|---|---|---|",
  }
  for _, r in ipairs(rows) do
    local own = function(limit, text) return text .. (r.pallas[limit] and "\\*" or "") end
    out[#out + 1] = ("| %s | %s | %s | `%s` | %s | %s | %s | %s | %s |"):format(operands(r, name),
      spelled(r, r.d, name), #r.scale > 0 and spelled(r, r.scale, name) .. " (" .. r.block .. ")" or "",
      r.name:match "^%S+%.block_scale$" and r.name:match "^(%S+)%." or r.name,
      table.concat(r.targets, ", "):gsub("sm_%w+", "`%0`"), m_text(r.m.one, r.m.two),
      n_text(r), own("SPARSE_M", m_text(r.m.sparse_one, r.m.sparse_two)),
      r.n.sparse_two > 0 and own("SPARSE_N", r.n.sparse_two) or "")
  end
  return out
end

return M
