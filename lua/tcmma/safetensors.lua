--- Arrays in .safetensors files: several by name, of every element type but tf32, i4, u4 and u2.

local arguments = require "tcmma.arguments"
local core = require "tcmma.core"
local documentation = require "tcmma.documentation"
local file = require "tcmma.file"
local json = require "tcmma.json"

local safetensors = {}

local by_name = {}
for _, dtype in ipairs(core.dtypes()) do
  if dtype.safetensors then by_name[dtype.safetensors] = dtype end
end

--- One array from its entry of the header; nil and the reason.
local function decode_entry(name, entry, data, opts)
  if type(entry) ~= "table" or type(entry.shape) ~= "table" or type(entry.data_offsets) ~= "table" then
    return nil, ("the entry of '%s' is damaged"):format(name)
  end
  local dtype = by_name[entry.dtype]
  if not dtype then
    return nil, ("'%s' has elements of type %s, which no dtype is"):format(name, tostring(entry.dtype))
  end
  local elements, why = file.elements(entry.shape)
  if not elements then return nil, ("'%s': %s"):format(name, why) end
  local from, to = table.unpack(entry.data_offsets)
  if math.type(from) ~= "integer" or math.type(to) ~= "integer" or from < 0 or to > #data
    or to - from ~= (elements * dtype.bits + 7) // 8 then
    return nil, ("the bytes of '%s' do not fit its shape"):format(name)
  end
  return core.frombytes(data:sub(from + 1, to), dtype, entry.shape, opts)
end

local function decode(text, opts)
  if #text < 8 then return nil, "it is not a .safetensors file" end
  local length = string.unpack("<I8", text)
  if length < 2 or length > #text - 8 then return nil, "it is not a .safetensors file" end
  local header, why = json.decode(text:sub(9, 8 + length))
  if type(header) ~= "table" then return nil, why or "the header is damaged" end
  local data, arrays = text:sub(9 + length), {}
  for name, entry in pairs(header) do
    if name ~= "__metadata__" then
      arrays[name], why = decode_entry(name, entry, data, opts)
      if not arrays[name] then return nil, why end
    end
  end
  return arguments.shown(arrays), arguments.shown(header.__metadata__ or {})
end

local function load(path, opts) return file.load(path, opts, decode) end

local function sorted_names(arrays)
  local names = {}
  for name, array in pairs(arrays) do
    if type(name) ~= "string" then arguments.fail("tc.safetensors.save: names are strings, got %s", type(name)) end
    if not arguments.is_array(array) then
      arguments.fail("tc.safetensors.save: '%s' must be an array, got %s", name, arguments.describe(array))
    end
    if not array.dtype.safetensors then
      arguments.fail("tc.safetensors.save: .safetensors files have no %s ('%s'); save its view as an integer type",
        array.dtype.name, name)
    end
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

local function save(path, arrays, metadata)
  arguments.check(type(path) == "string", 1, "save", "path", path)
  arguments.check(type(arrays) == "table", 2, "save", "table of arrays by name", arrays)
  arguments.check(metadata == nil or type(metadata) == "table", 3, "save", "table of strings by name", metadata)
  local entries, data, offset = {}, {}, 0
  if metadata then
    local pairs_text = {}
    for key, value in pairs(metadata) do
      pairs_text[#pairs_text + 1] = json.quote(tostring(key)) .. ":" .. json.quote(tostring(value))
    end
    table.sort(pairs_text)
    entries[1] = "\"__metadata__\":{" .. table.concat(pairs_text, ",") .. "}"
  end
  for _, name in ipairs(sorted_names(arrays)) do
    local array = arrays[name]
    entries[#entries + 1] = ("%s:{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%d,%d]}"):format(
      json.quote(name), array.dtype.safetensors, table.concat(array.shape, ","), offset, offset + array.nbytes)
    data[#data + 1] = array:tobytes()
    offset = offset + array.nbytes
  end
  local header = "{" .. table.concat(entries, ",") .. "}"
  header = header .. (" "):rep(-#header % 8)
  local ok, message, code = file.write(path, string.pack("<s8", header), table.concat(data))
  if not ok then return nil, message, code end
  return arrays
end

safetensors.load, safetensors.save = load, save
arguments.public(safetensors)

documentation.add("tcmma.safetensors", {
  { "load", safetensors.load, [[
load(path: string, opts?: {device?: tcmma.device|string}) -> table<string, tcmma.array>?, table|string
Reads every array of a `.safetensors` file: a table by name, and the file's metadata. nil and a message
where the file is missing or damaged.]] },
  { "save", safetensors.save, [[
save(path: string, arrays: table<string, tcmma.array>, metadata?: table<string, string>) -> table?, string?
Writes arrays by name into a `.safetensors` file. Every element type but tfloat32,
int4, uint4 and uint2 has a name there.]] },
})

return safetensors
