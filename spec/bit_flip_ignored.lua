-- Bits that neither change the result of the kernels of spec/bit_flip_spec.lua nor are refused, by what holds them.
-- bits: counted from the lowest of the field; of: the maps for which it holds (default: all); section: where
-- docs/isa.md says so.
local function range(first, last)
  local list = {}
  for bit = first, last do list[#list + 1] = bit end
  return list
end

return {
  ["shared-memory descriptor"] = {
    { field = "leading byte offset", bits = range(0, 13), section = "3.3",
      reason = "K-major operands with a swizzle: K stays inside of one atom, the leading offset is not used" },
  },
  ["instruction descriptor"] = {},
  ["tensor map"] = {
    { field = "element_stride 0", bits = { 1, 2 }, section = "8.1",
      reason = "1 to 8 are legal, and without interleaved layout the stride of dimension 0 is ignored" },
    { field = "fill_mode", of = { C = true }, bits = { 0 }, section = "8.2",
      reason = "a store skips elements outside of the tensor and fills nothing" },
    { field = "l2_promotion", bits = { 0, 1 }, section = "8.1", reason = "a hint to the L2 cache" },
  },
}
