-- Writes docs/errors.md from src/errors.def: lua5.4 tools/errors.lua
-- As a module (dofile "tools/errors.lua"): entries(text) and page(entries).

local M = {}

-- "a" "b" of C become one Lua string.
local function unquote(s)
  local parts = {}
  for piece in s:gmatch '"(.-[^\\])"' do parts[#parts + 1] = piece end
  local text = table.concat(parts)
  return (text:gsub('\\"', '"'):gsub("\\\\", "\\"))
end

-- Arguments of one macro call: an id, then string literals.
local function arguments(body)
  local list, current = {}, nil
  local i = 1
  while i <= #body do
    local c = body:sub(i, i)
    if c == '"' then
      local j = i + 1
      while body:sub(j, j) ~= '"' do j = j + (body:sub(j, j) == "\\" and 2 or 1) end
      local literal = body:sub(i, j)
      current = (current or "") .. (literal == '""' and "" or unquote(literal))
      i = j + 1
    elseif c == "," then
      list[#list + 1], current = current or "", nil
      i = i + 1
    elseif c:match "%s" then
      i = i + 1
    else
      local word = body:match("^[%w_]+", i)
      current, i = word, i + #word
    end
  end
  list[#list + 1] = current or ""
  return list
end

-- Position after the bracket that closes the one before `from`.
local function closing(text, from)
  local i, depth = from, 1
  while depth > 0 do
    local c = text:sub(i, i)
    if c == '"' then
      i = i + 1
      while text:sub(i, i) ~= '"' do i = i + (text:sub(i, i) == "\\" and 2 or 1) end
    elseif c == "(" then
      depth = depth + 1
    elseif c == ")" then
      depth = depth - 1
    end
    i = i + 1
  end
  return i
end

local fields = {
  ERROR = { "id", "text", "condition", "cause", "fix" },
  ALTERED = { "id", "text", "why", "condition", "cause", "fix" },
  OWN = { "id", "text", "condition", "cause", "fix" },
  SECTION = { "title" },
}

-- List of {macro=, id=, text=, ...} in the order of the table.
function M.entries(text)
  text = text:gsub("/%*.-%*/", "")
  local list, at = {}, 1
  while true do
    local from, to, macro = text:find("\n([A-Z]+)%(", at)
    if not from then break end
    local stop = closing(text, to + 1)
    local entry = { macro = macro }
    for i, value in ipairs(arguments(text:sub(to + 1, stop - 2))) do
      entry[fields[macro][i]] = value
    end
    list[#list + 1] = entry
    at = stop
  end
  return list
end

local function escape(s)
  return (s:gsub("|", "\\|"):gsub("<", "&lt;"))
end

local head = [[
# Errors

Every message of the checks: its first line, when it is raised, what usually causes it, and the fix. The text follows
`file:line: ` of the call that it is about. Further lines of a message say what was got and where it was allocated; the
last one is the fix. `{words}` stand for what the message fills in.

Messages marked P are documented ones of JAX's Pallas:Mosaic GPU, word for word, raised in its order of checks. P* are
its messages with a changed text; a list below says how and why. The others are tcmma's own. Documented messages that
have no counterpart here are listed too, with the reason.

This page is made from `src/errors.def` by `tools/errors.lua`.
]]

local notes = [[
## What is spelled how

- Shapes print as Python tuples, `(128, 256)`, `(16,)`; a named dimension prints as its name.
- Dtypes print by their long names (`float16`) in the messages of copies, and as MLIR spells them (`f16`, `f8E4M3FN`,
  `f8E8M0FNU`, `i2`) in those about the instruction.
- TMEM layouts print as `default(packing=1)`, `half_lane(packing=1)`, `m64_collective(packing=1)`,
  `scales(packing=4)`, `b_scales_m64_collective(packing=4)`, `sparse_metadata(packing=16)`.
- Indices, axes and arguments are described in Lua's words where Pallas prints a Python object.
]]

local absent_head = [[
## Without a counterpart

What Pallas:Mosaic GPU documents and no call here raises, by the reason.
]]

local others_head = [[
## Other messages

Arguments of a wrong Lua type, unknown options, operations in a wrong place and the like say at their call what was
expected and what was got; that is their fix. `…` stands for what is filled in. Messages that begin with "internal
error" are faults of tcmma. All of them:
]]

local directory = debug.getinfo(1, "S").source:match "^@(.*)errors%.lua$"

--- The documented messages that no call here raises: lists of texts, each with `why`.
function M.absent() return dofile(directory .. "absent_errors.lua") end

local functions = { "tc_fail", "tc_fail_at", "tc_low_fail", "tc_error", "tc_argerror", "tc_failure" }

-- The format of a call in C: its first run of adjacent literals that has a blank in it.
local function format_of(call)
  local i = call:find '"'
  while i do
    local run = {}
    while call:sub(i, i) == '"' do
      local j = i + 1
      while call:sub(j, j) ~= '"' do j = j + (call:sub(j, j) == "\\" and 2 or 1) end
      run[#run + 1] = call:sub(i + 1, j - 1)
      i = call:match("^%s*()", j + 1)
    end
    local text = table.concat(run)
    if text:find " " then return text end
    i = call:find('"', i)
  end
end

local function readable(format)
  return (format:gsub('\\"', '"'):gsub("\\n", " "):gsub("%%%%", "\0"):gsub("%%[-+ #0-9.l]*%a", "…"):gsub("%z", "%%"))
end

-- Adds the texts of the messages that C source makes itself to the list, each once.
function M.others(source, list)
  for _, name in ipairs(functions) do
    local at = 1
    while true do
      local _, to = source:find("[\t ]" .. name .. "%(", at)
      if not to then break end
      at = closing(source, to + 1)
      local format = format_of(source:sub(to + 1, at - 2))
      local text = format and readable(format)
      if text and not text:find "^…[^%w]*…?$" and not list[text] then
        list[text] = true
        list[#list + 1] = text
      end
    end
  end
end

function M.page(entries)
  local out, altered, open = { head }, {}, false
  for _, e in ipairs(entries) do
    if e.macro == "SECTION" then
      out[#out + 1] = "\n## " .. e.title .. "\n\n| message | source | when | usual cause | fix |\n|---|---|---|---|---|"
      open = true
    else
      assert(open, "an entry before the first SECTION")
      local source = e.macro == "ERROR" and "P" or e.macro == "ALTERED" and "P\\*" or "tcmma"
      if e.macro == "ALTERED" then altered[#altered + 1] = e end
      out[#out + 1] = ("| %s | %s | %s | %s | %s |"):format(escape(e.text), source, escape(e.condition),
        escape(e.cause), escape(e.fix))
    end
  end
  out[#out + 1] = "\n## Changed texts\n\n| message here | Pallas |\n|---|---|"
  for _, e in ipairs(altered) do
    out[#out + 1] = ("| %s | %s |"):format(escape(e.text), escape(e.why))
  end
  out[#out + 1] = "\n" .. notes
  out[#out + 1] = absent_head
  for _, group in ipairs(M.absent()) do
    out[#out + 1] = ("**%s.**\n"):format(group.why)
    for _, text in ipairs(group) do out[#out + 1] = "- " .. escape(text) end
    out[#out + 1] = ""
  end
  out[#out + 1] = others_head
  return (table.concat(out, "\n"):gsub("\n+$", "\n")) .. "\n"
end

if arg and arg[0] and arg[0]:match "errors%.lua$" then
  local root = arg[0]:match "^(.*)tools/errors%.lua$" or ""
  local function read(path)
    local file = assert(io.open(path))
    local text = file:read "a"
    file:close()
    return text
  end
  local others = {}
  for path in assert(io.popen("ls " .. root .. "src/*.c")):lines() do M.others(read(path), others) end
  table.sort(others)
  local page = assert(io.open(root .. "docs/errors.md", "w"))
  page:write(M.page(M.entries(read(root .. "src/errors.def"))))
  for _, text in ipairs(others) do page:write("- ", escape(text), "\n") end
  page:close()
end

return M
