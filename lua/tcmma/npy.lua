--- Arrays in NumPy's .npy files.

local arguments = require "tcmma.arguments"
local core = require "tcmma.core"
local documentation = require "tcmma.documentation"
local file = require "tcmma.file"

local npy = {}

local MAGIC = "\x93NUMPY"

local by_code = {}
for _, dtype in ipairs(core.dtypes()) do
  if dtype.npy then by_code[dtype.npy] = dtype end
end

--- The header's Python dictionary, which NumPy writes in one form only: nil and the reason if it is not.
local function parse_header(text)
  local descr = text:match "'descr'%s*:%s*'([^']*)'"
  local order = text:match "'fortran_order'%s*:%s*(%a+)"
  local shape_text = text:match "'shape'%s*:%s*%(([^%)]*)%)"
  if text:find "'descr'%s*:%s*%[" then return nil, "structured arrays are not supported" end
  if not (descr and order and shape_text) then return nil, "the header is damaged" end
  local shape = {}
  for size in shape_text:gmatch "[^,%s]+" do
    local number = math.tointeger(tonumber(size))
    if not number then return nil, "the header is damaged" end
    shape[#shape + 1] = number
  end
  return { descr = descr, fortran = order == "True", shape = shape }
end

local function unsupported(descr)
  if descr:find "^>" then
    return "numbers are big-endian (" .. descr .. "); convert with x.astype(x.dtype.newbyteorder('<'))"
  end
  if descr:find "^|?V" or descr:find "^<?V" then
    return "elements are raw bytes (" .. descr .. "), as NumPy writes bfloat16 and fp8; save x.view(numpy.uint16) or "
      .. "uint8 and use array:view here, or a .safetensors file"
  end
  return "no dtype corresponds to '" .. descr .. "'"
end

--- The array in the text of a file; nil and the reason.
local function decode(text, opts)
  if text:sub(1, #MAGIC) ~= MAGIC or #text < 12 then return nil, "it is not a .npy file" end
  local major = text:byte(7)
  if major < 1 or major > 3 then return nil, ("version %d of the format is not known"):format(major) end
  local format = major == 1 and "<I2" or "<I4"
  local length, first = string.unpack(format, text, 9)
  if first + length - 1 > #text then return nil, "the file ends inside its header" end
  local header, why = parse_header(text:sub(first, first + length - 1))
  if not header then return nil, why end
  local dtype = by_code[(header.descr:gsub("^=", "<"))]
  if not dtype then return nil, unsupported(header.descr) end
  local shape = header.shape
  local elements, no_shape = file.elements(shape)
  if not elements then return nil, no_shape end
  if header.fortran and #shape > 1 then
    return nil, "it is in Fortran order; save numpy.ascontiguousarray(x)"
  end
  local data = text:sub(first + length)
  if #data ~= elements * dtype.bits // 8 then
    return nil, ("it has %d bytes of data, its shape needs %d"):format(#data, elements * dtype.bits // 8)
  end
  return core.frombytes(data, dtype, shape, opts)
end

local function load(path, opts) return file.load(path, opts, decode) end

local function save(path, array)
  arguments.check(type(path) == "string", 1, "save", "path", path)
  arguments.check(arguments.is_array(array), 2, "save", "array", array)
  local dtype = array.dtype
  if not dtype.npy then
    local ways = { dtype.safetensors and "use tc.safetensors.save" }
    if dtype.bits >= 8 or not dtype.safetensors then
      ways[#ways + 1] = ("save array:view \"u%d\""):format(math.max(dtype.bits, 8))
    end
    arguments.fail("tc.npy.save: .npy files have no %s; %s", dtype.name, table.concat(ways, " or "))
  end
  local shape = table.concat(array.shape, ", ")
  if array.rank == 1 then shape = shape .. "," end
  local header = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }"):format(dtype.npy, shape)
  -- The data begin at a multiple of 64; the header ends in a newline.
  header = header .. (" "):rep(-(#MAGIC + 4 + #header + 1) % 64) .. "\n"
  local ok, message, code = file.write(path, MAGIC, "\1\0", string.pack("<s2", header), array:tobytes())
  if not ok then return nil, message, code end
  return array
end

npy.load, npy.save = load, save
arguments.public(npy)

documentation.add("tcmma.npy", {
  { "load", npy.load, [[
load(path: string, opts?: {device?: tcmma.device|string}) -> tcmma.array?, string?, string?
Reads a `.npy` file (versions 1 to 3, C order, little-endian) into a new array. nil and a message where
the file is missing or holds something else.]] },
  { "save", npy.save, [[
save(path: string, array: tcmma.array) -> tcmma.array?, string?, string?
Writes a `.npy` file of version 1.0. NumPy has no bfloat16, fp8, fp6, fp4, int4 and tf32: those are refused; use
`tc.safetensors`, or save `array:view "u16"`. nil and a message where the file cannot be written.]] },
})

return npy
