-- The instruction forms that the CUDA toolkit's own headers <cuda/ptx> write as inline assembly, read where
-- the toolkit is installed; and the verdict of its assembler on each of them.
local process = require "process"

local M = {}

local generated = "include/cccl/cuda/__ptx/instructions/generated"

local function exists(name)
  local file = io.open(name)
  if file then file:close() end
  return file ~= nil
end

-- The folder of the toolkit that has the assembler and the headers, nil where there is none.
function M.toolkit()
  local pipe = assert(io.popen "command -v ptxas")
  local found = pipe:read "l"
  pipe:close()
  local places = { found and found:gsub("/bin/ptxas$", ""), os.getenv "CUDA_HOME", "/usr/local/cuda" }
  for i = 1, 3 do
    local place = places[i]
    if place and exists(place .. "/bin/ptxas") and exists(place .. "/" .. generated .. "/ld.h") then return place end
  end
end

local declarations = { r = ".b32", l = ".b64", h = ".b16", f = ".f32", d = ".f64" }
-- What stands for a template argument: the bytes of a tensor map, the zero of st.bulk, elsewhere 1.
local constants = { size = "128", initval = "0" }

-- One form from what stands in the parentheses of an asm statement: string literals, then the constraints.
local function form_of(statement)
  local text, at = {}, 2
  while true do
    local literal, behind = statement:match('^%s*"(.-)"()', at)
    if not literal then break end
    text[#text + 1], at = literal, behind
  end
  local constraints = statement:sub(at)
  text = table.concat(text):gsub("\\n", "\n"):gsub("\\t", " "):gsub("//[^\n]*", "")
  local names, declared = {}, {}
  for constraint, expression in constraints:gmatch '"[=+]?(%a)"(%b())' do
    local name = "operand" .. #names
    if constraint == "n" then
      name = constants[expression:match "__(%w+)"] or "1"
    else
      assert(declarations[constraint], "an unknown constraint")
      declared[#declared + 1] = (".reg %s %s;"):format(declarations[constraint], name)
    end
    names[#names + 1] = name
  end
  text = text:gsub("%%(%d+)", function(i) return names[i + 1] end):gsub("%%%%", "%%"):gsub("%s+", " ")
  return { text = text, declarations = table.concat(declared, " ") }
end

-- All forms, each text once, sorted.
function M.read(toolkit)
  local forms, seen = {}, {}
  for _, name in ipairs(process.files(toolkit .. "/" .. generated)) do
    local file = assert(io.open(toolkit .. "/" .. generated .. "/" .. name))
    local text = file:read "a"
    file:close()
    for statement in text:gmatch "asm[%s%a]*(%b());" do
      local form = form_of(statement)
      local key = form.declarations .. form.text
      if not seen[key] then
        seen[key] = true
        forms[#forms + 1] = form
      end
    end
  end
  table.sort(forms, function(a, b) return a.text < b.text end)
  return forms
end

-- A kernel of the form on a line of its own; `first` are instructions before it.
function M.kernel(form, name, first)
  return (".visible .entry %s() { %s %s\n%s ret; }\n"):format(name, form.declarations, first or "", form.text)
end

local function run(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local output = pipe:read "a"
  return pipe:close(), output
end

-- The newest PTX version that the assembler reads.
function M.version(toolkit)
  local folder = process.folder()
  for _, version in ipairs { "9.3", "9.2", "9.1", "9.0", "8.8", "8.7", "8.6" } do
    local file = assert(io.open(folder .. "/a.ptx", "w"))
    file:write(".version ", version, "\n.target sm_90a\n.address_size 64\n")
    file:close()
    if run(("%s/bin/ptxas -arch=sm_90a -o %s/a.cubin %s/a.ptx"):format(toolkit, folder, folder)) then
      process.remove(folder)
      return version
    end
  end
  error "the assembler reads no version of PTX that this spec knows"
end

function M.header(version, target)
  return (".version %s\n.target %s\n.address_size 64\n"):format(version, target)
end

-- Forms of one text are assembled together; those that are refused leave it until the rest is accepted.  Where
-- the assembler dies without a word the halves are tried: a form that alone has this effect is refused too.
local function assemble(command, folder, header, forms, refused)
  local left = forms
  repeat
    local file = assert(io.open(folder .. "/a.ptx", "w"))
    local by_line, by_name = {}, {}
    file:write(header)
    for i, form in ipairs(left) do
      file:write(M.kernel(form, "k" .. i))
      by_line[2 * i + 3], by_name["k" .. i] = form, form
    end
    file:close()
    local fine, output = run(command)
    local before = #left
    for line in output:gmatch "[^\n]+" do
      local form = by_line[tonumber(line:match "a%.ptx, line (%d+)") or 0] or by_name[line:match "'(k%d+)'"]
      if form and (line:find "; error" or line:find "; fatal" or line:find "^ptxas error") then
        refused[form] = refused[form] or line
      end
    end
    local rest = {}
    for _, form in ipairs(left) do
      if not refused[form] then rest[#rest + 1] = form end
    end
    left = rest
    if not fine and #left == before then
      local half = #left // 2
      if half == 0 then
        refused[left[1]] = output
      else
        assemble(command, folder, header, table.move(left, 1, half, 1, {}), refused)
        assemble(command, folder, header, table.move(left, half + 1, #left, 1, {}), refused)
      end
      return
    end
  until fine or #left == 0
end

-- The forms that the assembler refuses for the target: its message by form.
function M.assemble(toolkit, version, target, forms)
  local folder, refused = process.folder(), {}
  local command = ("%s/bin/ptxas -arch=%s -O0 -o %s/a.cubin %s/a.ptx"):format(toolkit, target, folder, folder)
  for first = 1, #forms, 500 do
    local part = table.move(forms, first, math.min(first + 499, #forms), 1, {})
    assemble(command, folder, M.header(version, target), part, refused)
  end
  process.remove(folder)
  return refused
end

return M
