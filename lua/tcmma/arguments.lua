--- Arguments of the functions written in Lua: the same messages as those of the C functions.

local core = require "tcmma.core"

local arguments = {}

--- "integer 5", "string \"f16\"", "FILE* (file (0x...))": what a value is.
function arguments.describe(value)
  local kind = math.type(value) or type(value)
  if kind == "integer" then return "integer " .. value end
  if kind == "float" then return "number " .. tostring(value) end
  if kind == "boolean" then return "boolean " .. tostring(value) end
  if kind == "string" then
    return ("string \"%s\""):format(#value <= 40 and value or value:sub(1, 37) .. "...")
  end
  local meta = kind == "userdata" and debug.getmetatable(value)
  local name = meta and rawget(meta, "__name")
  return name and ("%s (%s)"):format(name:match "^[^ ]*", tostring(value)) or kind
end

function arguments.is_array(value)
  local meta = type(value) == "userdata" and debug.getmetatable(value)
  return meta and rawget(meta, "__name") == "tcmma.array"
end

local own = debug.getinfo(1, "S").source:match "^(.*)/[^/]*$"

--- Raises where the user's code called into the module.
function arguments.fail(text, ...)
  local level = 2
  while true do
    local info = debug.getinfo(level, "S")
    if not info or info.what ~= "C" and info.source:match "^(.*)/[^/]*$" ~= own then break end
    level = level + 1
  end
  error(text:format(...), level)
end

--- Makes the functions of a table entry points: where they are called in `return f(x)`, the caller's line is known.
function arguments.public(functions)
  for name, fn in pairs(functions) do
    if type(fn) == "function" then functions[name] = core.entry_point(fn) end
  end
end

--- Raises a message of docs/errors.md, with the values of its words.
function arguments.documented(id, ...)
  local words = table.pack(...)
  for i = 1, words.n do words[i] = tostring(words[i]) end
  core.raise_documented(id, table.unpack(words, 1, words.n))
end

--- Raises unless `ok`: a bad argument of the public function.
function arguments.check(ok, number, name, expected, value)
  if not ok then
    arguments.fail("bad argument #%d to '%s' (%s expected, got %s)", number, name, expected,
      arguments.describe(value))
  end
end

--- "did you mean 'a' or 'b'?" of the names that are keys of the tables, or "ALL: a, b, c" where none is near.
function arguments.advice(word, all, ...)
  local names, seen = {}, {}
  for _, known in ipairs { ... } do
    for name in pairs(known) do
      if type(name) == "string" and not seen[name] then
        seen[name] = true
        names[#names + 1] = name
      end
    end
  end
  table.sort(names)
  local near = core.nearest(tostring(word), names)
  if #near == 0 then return all and all .. ": " .. table.concat(names, ", ") end
  local last = table.remove(near)
  return ("did you mean '%s'?"):format(#near == 0 and last or table.concat(near, "', '") .. "' or '" .. last)
end

--- Raises: `owner` ("tc", "tc.npy") has nothing of that name.
function arguments.missing(owner, key, ...)
  if type(key) ~= "string" then arguments.fail("%s cannot be indexed by %s", owner, arguments.describe(key)) end
  arguments.fail("%s has no '%s' (%s)", owner, key, arguments.advice(key, nil, ...)
    or "tc.help() lists what there is")
end

--- The same for a table of options: `known` gives, by name, a function that takes a legal value, and what is
-- expected.  Returns the table, an empty one for nil.
function arguments.check_options(opts, number, name, known)
  if opts == nil then return {} end
  if type(opts) ~= "table" then
    arguments.fail("bad argument #%d to '%s' (options table expected, got %s)", number, name,
      arguments.describe(opts))
  end
  for key, value in pairs(opts) do
    local option = known[key]
    if not option then
      arguments.fail("bad argument #%d to '%s' (unknown option '%s' (%s))", number, name, tostring(key),
        arguments.advice(key, "options", known))
    elseif not option[1](value) then
      arguments.fail("bad argument #%d to '%s' (option '%s' must be %s, got %s)", number, name, key, option[2],
        arguments.describe(value))
    end
  end
  return opts
end

local shown = getmetatable(core.dtypes())

--- Gives a table a tostring that shows its values, in one line.
function arguments.shown(list) return setmetatable(list, shown) end

--- A device object or a name.
arguments.device = { function(value)
  local meta = type(value) == "userdata" and debug.getmetatable(value)
  return type(value) == "string" or meta and rawget(meta, "__name") == "tcmma.device"
end, "a device or its name" }

return arguments
