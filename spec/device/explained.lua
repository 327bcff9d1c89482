-- Where the emulator may differ from the hardware, and why: rows of a pattern for the name of a case, the reason,
-- how far
-- apart results may be in units of the last place of the case's result type, or else absolutely (nil: NaN for NaN
-- only).
-- Everything else is equal bit for bit.
local table_lookup = "the hardware interpolates in a table; the emulator rounds the exact value"

return {
  { "^ex2%.approx", table_lookup, 2, 0x1p-126 },
  { "^lg2%.approx", table_lookup, 2, 0x1p-22 },
  { "^sin%.approx", table_lookup, 2, 0x1p-20 },
  { "^cos%.approx", table_lookup, 2, 0x1p-20 },
  { "^tanh%.approx%.f32", table_lookup, 1 << 12 },
  { "^tanh%.approx", table_lookup, 1 },
  -- the lower half of the f64 is zero: units of the upper half
  { "^rcp%.approx%.ftz%.f64", table_lookup, 4 << 32 },
  { "^rsqrt%.approx%.ftz%.f64", table_lookup, 4 << 32 },
  { "^rcp%.approx", table_lookup, 1 },
  { "^r?sqrt%.approx", table_lookup, 2 },
  { "^div%.approx", "a multiplication by an approximate reciprocal; the emulator rounds the exact quotient", 2,
    0x1p-126 },
  { "^div%.full", "a scaled multiplication by an approximate reciprocal; the emulator rounds the exact quotient", 2,
    0x1p-126 },
  { "^cvt%.rna%.satfinite%.tf32%.f32", "the assembler's sequence mangles the payload of NaN", 0 },
  { "^atom%..*shared::cluster%.add%.noftz%.b?f16x2", "the assembler makes an addition of integers of it (ptxas 13.0)" },
  { "^red%..*shared::cluster%.add%.noftz%.b?f16x2", "the assembler makes an addition of integers of it (ptxas 13.0)" },
  { "^mma%.sync%.aligned%.m8n8k4%.%w+%.%w+%.f16%.f16%.f16%.f16",
    "the sum of f32 and C is rounded to f16 once more or less: not modelled",
    1 },
  { "^map .* interleave 32B swizzle",
    "the documents ask for swizzle 32B with it; the driver encodes maps that the device then never ends" },
  { "^triton_sm90_attn", "exponentials by ex2.approx: a unit in the last place of single results, rounded to f16", 24,
    0x1p-12 },
}
