-- Emitted kernels, launched from their text, which may be spoilt first; arguments follow from what the kernel exports.
local tc = require "tcmma"
local json = require "dkjson"
local process = require "process"

local M = {}

local TYPES = { [0] = "u8", [1] = "u16", [2] = "u32", [6] = "f16", [7] = "f32", [9] = "bf16" }
local SWIZZLES = { [0] = "none", [32] = "32B", [64] = "64B", [128] = "128B" }

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

-- The text and what its launch needs.
function M.export(kernel, target)
  local folder = process.folder()
  kernel:export(folder .. "/k", { target = target })
  local text, manifest = read(folder .. "/k.ptx"), json.decode(read(folder .. "/k.json"))
  process.remove(folder)
  return text, manifest
end

local function map(array, param)
  local shape, bytes, dims, strides = array.shape, array.dtype.bits // 8, {}, {}
  for i, axis in ipairs(param.axis) do
    local stride = bytes
    for later = axis + 2, #shape do stride = stride * shape[later] end
    dims[i] = shape[axis + 1]
    if i > 1 then strides[i - 1] = stride end
  end
  return tc.tensormap(array, {
    dims = dims, strides = strides, box = param.box, swizzle = SWIZZLES[param.swizzle_bytes],
    dtype = assert(TYPES[param.type]),
  })
end

-- The report of the kernel's text, spoilt by `spoil`, with the arrays as arguments.
function M.run(kernel, target, spoil, arrays, mode)
  local text, manifest = M.export(kernel, target)
  local args = {}
  tc.device("emulator:" .. target):use()
  for i, param in ipairs(manifest.params) do
    local array = arrays[param.argument + 1]
    args[i] = param.kind == "tensormap" and map(array, param) or array
  end
  local spoilt = spoil(text)
  assert(spoil == M.nothing or spoilt ~= text, "nothing was changed")
  return tc.ptx(spoilt):kernel(manifest.entry):emulate {
    grid = manifest.grid, block = manifest.block, cluster = manifest.cluster, smem = manifest.dynamic_smem,
    args = args, mode = mode or "check", seed = 3,
  }
end

function M.nothing(text) return text end

return M
