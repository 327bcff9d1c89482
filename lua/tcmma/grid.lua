--- Grids of work and indices in them, as numbers of Lua or recorded scalars.

local arguments = require "tcmma.arguments"
local tc = require "tcmma"

local grid = {}

local MOST_POINTS = 0x7fffffff -- steps are counted in s32

--- An object of the class "tcmma.NAME".
function grid.is_a(value, name)
  local meta = type(value) == "userdata" and debug.getmetatable(value)
  local class = meta and rawget(meta, "__name")
  return class and class:match "^[^ ]*" == "tcmma." .. name
end

--- A whole number of Lua, or a recorded one.
function grid.is_index(value)
  return math.type(value) == "integer" or grid.is_a(value, "scalar") and value.dtype == tc.int32
end

--- Every element of a list passes; false for what is no list.
function grid.all_of(list, test)
  if type(list) ~= "table" then return false end
  for i = 1, #list do
    if not test(list[i]) then return false end
  end
  return true
end

--- A name, or a list of names.
function grid.are_names(value)
  return type(value) == "string" or grid.all_of(value, function(name) return type(name) == "string" end)
end

function grid.as_list(names)
  return type(names) == "string" and { names } or names
end

--- Extents and the like as a message shows them: (4, 6).
function grid.show(list)
  local text = {}
  for i, x in ipairs(list) do text[i] = tostring(x) end
  return "(" .. table.concat(text, ", ") .. (#list == 1 and ",)" or ")")
end

--- Refuses extents, of that argument of a function, whose known part alone has more points than can be counted.
function grid.check_size(extents, number, name)
  local size = 1
  for _, extent in ipairs(extents) do
    if math.type(extent) then
      if extent > MOST_POINTS // size then
        arguments.fail("bad argument #%d to '%s' (a grid %s has more than 2^31 - 1 points)", number, name,
          grid.show(extents))
      end
      size = size * extent
    end
  end
end

function grid.size(extents)
  local size = 1
  for _, extent in ipairs(extents) do size = size * extent end
  return size
end

--- Indices from the number of an element, the last dimension fastest.
function grid.unravel(number, extents)
  local index = {}
  for d = #extents, 2, -1 do
    index[d] = number % extents[d]
    number = number // extents[d]
  end
  index[1] = number
  return index
end

return grid
