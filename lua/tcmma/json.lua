--- The little of JSON that file headers need: objects, lists, strings, numbers, literals.

local json = {}

local escapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ["\""] = "\"", ["\\"] = "\\", ["/"] = "/" }

local DEEPEST = 64

local function fail(at, what)
  error({ at = at, what = what }, 0)
end

local function skip(text, at)
  return text:find("[^ \t\r\n]", at) or #text + 1
end

local function parse_string(text, at)
  local parts = {}
  at = at + 1
  while true do
    local stop = text:find("[\"\\]", at)
    if not stop then fail(at, "a string does not end") end
    parts[#parts + 1] = text:sub(at, stop - 1)
    if text:sub(stop, stop) == "\"" then return table.concat(parts), stop + 1 end
    local letter = text:sub(stop + 1, stop + 1)
    at = stop + 2
    if letter == "u" then
      local high = tonumber(text:match("^%x%x%x%x", at) or fail(at, "four hexadecimal digits expected"), 16)
      at = at + 4
      local low = high >= 0xd800 and high < 0xdc00 and text:match("^\\u([dD][c-fC-F]%x%x)", at)
      if low then
        high = 0x10000 + ((high - 0xd800) << 10 | tonumber(low, 16) - 0xdc00)
        at = at + 6
      end
      parts[#parts + 1] = utf8.char(high)
    else
      parts[#parts + 1] = escapes[letter] or fail(stop, "unknown escape")
    end
  end
end

local parse_value

local function parse_members(text, at, close, depth, member)
  at = skip(text, at + 1)
  if text:sub(at, at) == close then return at + 1 end
  while true do
    at = skip(text, member(at, depth + 1))
    local mark = text:sub(at, at)
    if mark == close then return at + 1 end
    if mark ~= "," then fail(at, ("',' or '%s' expected"):format(close)) end
    at = skip(text, at + 1)
  end
end

local function parse_object(text, at, depth)
  local object = {}
  return object, parse_members(text, at, "}", depth, function(from, deeper)
    if text:sub(from, from) ~= "\"" then fail(from, "a name in quotes expected") end
    local key
    key, from = parse_string(text, from)
    from = skip(text, from)
    if text:sub(from, from) ~= ":" then fail(from, "':' expected") end
    object[key], from = parse_value(text, skip(text, from + 1), deeper)
    return from
  end)
end

local function parse_list(text, at, depth)
  local list, n = {}, 0
  return list, parse_members(text, at, "]", depth, function(from, deeper)
    n = n + 1
    list[n], from = parse_value(text, from, deeper)
    return from
  end)
end

function parse_value(text, at, depth)
  if depth > DEEPEST then fail(at, "nested too deeply") end
  local c = text:sub(at, at)
  if c == "{" then return parse_object(text, at, depth) end
  if c == "[" then return parse_list(text, at, depth) end
  if c == "\"" then return parse_string(text, at) end
  local word = text:match("^%a+", at)
  if word == "true" then return true, at + 4 end
  if word == "false" then return false, at + 5 end
  if word == "null" then return nil, at + 4 end
  local number = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  local value = number and tonumber(number)
  if not value then fail(at, "a value expected") end
  return value, at + #number
end

--- The value of a JSON text; nil and what is wrong where. null is nil.
function json.decode(text)
  local ok, value, at = pcall(parse_value, text, skip(text, 1), 1)
  if ok and skip(text, at) <= #text then ok, value = false, { at = at, what = "the end expected" } end
  if ok then return value end
  if type(value) ~= "table" then error(value, 0) end
  return nil, ("%s at byte %d of the JSON text"):format(value.what, value.at)
end

--- A string in quotes.
function json.quote(text)
  return "\"" .. text:gsub("[%c\"\\]", function(c)
    return ("\\u%04x"):format(c:byte())
  end) .. "\""
end

local function encode(x, depth)
  if depth > DEEPEST then error("json.encode: nested too deeply", 0) end
  local kind = math.type(x) or type(x)
  if kind == "string" then return json.quote(x) end
  if kind == "boolean" then return tostring(x) end
  if kind == "integer" then return ("%d"):format(x) end
  if kind == "float" then
    if x ~= x or x == math.huge or x == -math.huge then return "null" end
    return ("%.17g"):format(x)
  end
  if kind ~= "table" then error("json.encode: a " .. kind .. " has no form in JSON", 0) end
  local parts = {}
  if #x > 0 or next(x) == nil then
    for i, item in ipairs(x) do parts[i] = encode(item, depth + 1) end
    return "[" .. table.concat(parts, ", ") .. "]"
  end
  for key, value in pairs(x) do parts[#parts + 1] = json.quote(key) .. ": " .. encode(value, depth + 1) end
  table.sort(parts)
  return "{" .. table.concat(parts, ", ") .. "}"
end

--- The JSON text of a value; the fields of an object in the order of their names. An empty table is a list.
function json.encode(x)
  return encode(x, 1)
end

return json
