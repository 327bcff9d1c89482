-- Where the emulator may differ from the hardware, and why: rows of a pattern for the name of a case, the reason, and how
-- far apart results may be (units in the last place of the case's result type).  Everything else is equal bit for bit.
return {
  { "^ex2%.approx", "the hardware interpolates in a table; the emulator rounds the exact value", 2 },
  { "^lg2%.approx", "the hardware interpolates in a table; the emulator rounds the exact value", 2 },
  { "^sin%.approx", "the hardware interpolates in a table; the emulator rounds the exact value", 2 },
  { "^cos%.approx", "the hardware interpolates in a table; the emulator rounds the exact value", 2 },
  { "^tanh%.approx", "the hardware interpolates in a table; the emulator rounds the exact value", 2 },
  { "^rcp%.approx", "the hardware interpolates in a table; the emulator rounds the exact value", 2 },
  { "^r?sqrt%.approx", "the hardware interpolates in a table; the emulator rounds the exact value", 2 },
  { "^div%.approx", "a multiplication by an approximate reciprocal; the emulator rounds the exact quotient", 3 },
  { "^div%.full", "a scaled multiplication by an approximate reciprocal; the emulator rounds the exact quotient", 3 },
}
