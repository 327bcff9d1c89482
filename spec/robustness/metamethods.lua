-- Calls every metamethod of one class, or of one table of the API, with hostile arguments.
-- Usage: lua5.4 spec/robustness/metamethods.lua NAME; prints "fine" when nothing crashed and every
-- refusal was an error that says something.
package.path = "spec/?.lua;" .. package.path
local every_object = require "every_object"
local wanted = arg[1]

local plain = every_object.plain()
local recorded, kernel = every_object.recorded()
local objects, by_class = {}, {}
for _, list in ipairs { plain, recorded } do
  for _, pair in ipairs(list) do
    objects[#objects + 1] = pair[2]
    local meta = debug.getmetatable(pair[2])
    local name = meta and rawget(meta, "__name") and meta.__name:match "^[%w._]+" or pair[1]
    by_class[name] = by_class[name] or {}
    table.insert(by_class[name], pair[2])
  end
end

local meta = debug.getregistry()[wanted]
if not meta then
  for _, pair in ipairs(plain) do
    if pair[1] == wanted then meta = debug.getmetatable(pair[2]) end
  end
end
assert(type(meta) == "table", "no metatable of " .. wanted)

local function callback() end
local hostile = { nil, false, 0, -1, 2 ^ 63, 0 / 0, "", "f16", ("x"):rep(300), {}, { 1, 2 }, { hazards = { {} } },
  callback, coroutine.create(callback), io.stdout, setmetatable({}, { __index = function() error "no" end }) }
local count = 16

local calls = 0
local function try(name, ...)
  calls = calls + 1
  local results = table.pack(pcall(...))
  if results[1] then return end
  local message = results[2]
  if type(message) ~= "string" then return end
  assert(#message > 0, name .. ": an error without text")
  assert(not message:find "%.c:%d", name .. ": " .. message)
  assert(not message:find("internal error", 1, true), name .. ": " .. message)
  for _, own in ipairs { "index", "call", "perform", "compare", "concatenate", "get length" } do
    assert(not message:find("attempt to " .. own, 1, true), name .. ": " .. message) -- Lua's, of what nobody checked
  end
  assert(not message:find("lua/tcmma/", 1, true), name .. ": " .. message)
end

-- Tables that claim to be of the class, and what is truly of it, come last.
local others = table.move(objects, 1, #objects, 1, {})
for _, value in ipairs { setmetatable({}, { __index = meta }), setmetatable({ {}, {} }, { __name = wanted }) } do
  others[#others + 1] = value
end
-- Called by the collector, too.
local claims = setmetatable({}, meta)

local function call_all(name, method)
  for i = 1, count do
    try(name, method, hostile[i])
    for j = 1, count do try(name, method, hostile[i], hostile[j], hostile[(i + j) % count + 1]) end
    for _, own in ipairs(by_class[wanted] or {}) do
      if name ~= "__gc" and name ~= "__close" then
        try(name, method, own, hostile[i], hostile[(i * 5) % count + 1])
        try(name, method, hostile[i], own)
      end
    end
  end
  for i, other in ipairs(others) do
    local of_class = rawequal(debug.getmetatable(other), meta)
    if not (of_class and (name == "__gc" or name == "__close")) then
      try(name, method, other)
      try(name, method, other, others[(i * 7) % #others + 1])
    end
  end
  try(name, method, claims)
  try(name, method, claims, "shape", 1)
  try(name, method)
end

local names = {}
for name, method in pairs(meta) do
  if type(method) == "function" then names[#names + 1] = name end
end
table.sort(names)
for _, name in ipairs(names) do call_all(name, meta[name]) end

-- What an object answers after it is closed, whoever closed it how often.
local function use_closed()
  for _, own in ipairs(by_class[wanted] or {}) do
    for _, name in ipairs(names) do
      if name ~= "__gc" and name ~= "__close" then try(name, meta[name], own, "name", 1) end
    end
    for name, method in pairs(meta.__methods or {}) do
      if name ~= "use" then try(name, method, own) end
    end
    tostring(own)
  end
  for _, other in ipairs(objects) do tostring(other) end
end

local function ends(name)
  local method = meta[name]
  if not method then return end
  for _ = 1, 2 do
    for _, own in ipairs(by_class[wanted] or {}) do try(name, method, own, "an error") end
    use_closed()
  end
end
ends "__close"
ends "__gc"

for i = 1, 3 do setmetatable({}, meta) hostile[i] = setmetatable({ {} }, meta) end
-- luacheck: ignore
claims, hostile, others = nil, nil, nil
collectgarbage()
collectgarbage()
try("close", function() kernel:close() end)
kernel, recorded, plain, objects, by_class = nil, nil, nil, nil, nil
collectgarbage()
local tc = require "tcmma"
assert(tc.zeros({ 2 }, "f32"):get(0) == 0)
assert(calls > 100 or #names == 0)
print "fine"
os.exit(true, true)
