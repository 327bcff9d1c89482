--- What the readers of array files share.

local arguments = require "tcmma.arguments"

local file = {}

local LARGEST, DEEPEST = 1 << 46, 8

--- The whole file; nil, message and code.
function file.read(path)
  local handle, message, code = io.open(path, "rb")
  if not handle then return nil, message, code end
  local text, why = handle:read "a"
  handle:close()
  if not text then return nil, ("%s: %s"):format(path, why) end
  return text
end

--- The `load` of a format: what decode(text, opts) makes of the file; nil, message and code.
function file.load(path, opts, decode)
  arguments.check(type(path) == "string", 1, "load", "path", path)
  arguments.check_options(opts, 2, "load", { device = arguments.device })
  local text, message, code = file.read(path)
  if not text then return nil, message, code end
  local results = table.pack(decode(text, opts))
  if not results[1] then return nil, ("%s: %s"):format(path, results[2]), "format" end
  return table.unpack(results, 1, results.n)
end

--- Writes pieces of text; nil, message and code.
function file.write(path, ...)
  local handle, message, code = io.open(path, "wb")
  if not handle then return nil, message, code end
  local ok
  ok, message, code = handle:write(...)
  if not handle:close() and ok then ok, message = nil, path .. ": cannot be written" end
  if not ok then return nil, message, code end
  return true
end

--- Number of elements of a shape that stands in a file; nil and the reason.
function file.elements(shape)
  local elements = 1
  if #shape > DEEPEST then return nil, ("it has %d dimensions; at most %d are possible"):format(#shape, DEEPEST) end
  for i, size in ipairs(shape) do
    if math.type(size) ~= "integer" or size < 1 then
      return nil, ("size %d is %s; at least 1 expected"):format(i, tostring(size))
    end
    if size > LARGEST // elements then return nil, "it has more than 2^46 elements" end
    elements = elements * size
  end
  return elements
end

return file
