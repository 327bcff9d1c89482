-- Small integers as codes of element types, and sequences of them that look random: their products are exact.
local M = {}

-- The code of an integer in a float type.
function M.float(exponent_bits, mantissa_bits)
  local bias = (1 << exponent_bits - 1) - 1
  return function(value)
    if value == 0 then return 0 end
    local sign, magnitude, exponent = value < 0 and 1 or 0, math.abs(value), 0
    while magnitude >= 1 << exponent + 1 do exponent = exponent + 1 end
    local fraction = (magnitude - (1 << exponent)) << mantissa_bits >> exponent
    return sign << exponent_bits + mantissa_bits | exponent + bias << mantissa_bits | fraction
  end
end

-- The same in two's complement.
function M.integer(bits)
  return function(value) return value & (1 << bits) - 1 end
end

-- next(low, high) gives the numbers.
function M.sequence(seed)
  local state = seed
  return function(low, high)
    state = (state * 1103515245 + 12345) & 0x7fffffff
    return low + (state >> 8) % (high - low + 1)
  end
end

return M
