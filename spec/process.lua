-- Runs Lua code in other processes that find the same tcmma, for specs of what is one a process.
local process = {}

local function quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- A command line that runs `code` with `environment` (name -> value, false: unset) added.
function process.command(code, environment)
  local words = { "env" }
  for name, value in pairs(environment or {}) do
    if not value then words[#words + 1] = "-u " .. name end
  end
  for name, value in pairs(environment or {}) do
    if value then words[#words + 1] = quote(name .. "=" .. value) end
  end
  local paths = ("package.path, package.cpath = %q, %q\n"):format(package.path, package.cpath)
  words[#words + 1] = "lua5.4 -e " .. quote(paths .. code) .. " 2>&1"
  return table.concat(words, " ")
end

-- What the code prints, and whether it ended well.
function process.run(code, environment)
  local pipe = assert(io.popen(process.command(code, environment)))
  local output = pipe:read("a")
  return output, pipe:close()
end

-- A new empty folder.
function process.folder()
  local pipe = assert(io.popen("mktemp -d"))
  local name = pipe:read("l")
  pipe:close()
  return name
end

function process.remove(folder)
  assert(folder:find("^/tmp/") or folder:find("/tmp%."), "not a temporary folder")
  os.execute("rm -rf " .. quote(folder))
end

-- Names of the files in a folder, hidden ones too.
function process.files(folder)
  local names = {}
  local pipe = assert(io.popen("ls -A " .. quote(folder)))
  for name in pipe:lines() do names[#names + 1] = name end
  pipe:close()
  return names
end

return process
