local tc = require "tcmma"
local process = require "spec.process"

-- Some kernels that differ in a constant, each assembled through the cache; prints a digest.
local CODE = [[
  local tc = require "tcmma"
  local sum = 0
  for i = 1, 6 do
    local text = ([=[
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b64 %%rd<2>;
  ld.param.u64 %%rd1, [out];
  st.global.u32 [%%rd1], %d;
  ret;
}
]=]):format(i)
    local cubin = assert(tc.ptx(text):cubin())
    for at = 1, #cubin do sum = (sum * 31 + cubin:byte(at)) % 1000000007 end
  end
  print(sum)
]]

local with_assembler = tc.versions().nvjitlink and it or pending

describe("the cache of assembled kernels", function()
  local folder

  before_each(function() folder = process.folder() end)
  after_each(function() process.remove(folder) end)

  with_assembler("keeps one file a kernel and gives the same bytes again", function()
    local first = process.run(CODE, { TCMMA_CACHE_DIR = folder })
    assert.equal(6, #process.files(folder))
    assert.equal(first, process.run(CODE, { TCMMA_CACHE_DIR = folder }))
    assert.matches("^%d+\n$", first)
  end)

  with_assembler("serves eight processes at once", function()
    local pipes = {}
    for i = 1, 8 do pipes[i] = io.popen(process.command(CODE, { TCMMA_CACHE_DIR = folder })) end
    local results = {}
    for i = 1, 8 do
      results[i] = pipes[i]:read("a")
      assert.is_true(pipes[i]:close())
    end
    for i = 1, 8 do assert.equal(results[1], results[i]) end
    local files = process.files(folder)
    assert.equal(6, #files)
    for _, name in ipairs(files) do assert.matches("^%x+%.cubin$", name) end
  end)

  with_assembler("a damaged or foreign file is as good as absent, and is replaced", function()
    local good = process.run(CODE, { TCMMA_CACHE_DIR = folder })
    local sizes = {}
    for i, name in ipairs(process.files(folder)) do
      local path = folder .. "/" .. name
      local file = assert(io.open(path, "rb"))
      local text = file:read("a")
      file:close()
      sizes[name] = #text
      file = assert(io.open(path, "wb"))
      if i % 3 == 0 then file:write("not a cubin")
      elseif i % 3 == 1 then file:write(text:sub(1, -2))
      else file:write((text:sub(1, #text // 2)), "X", text:sub(#text // 2 + 2)) end
      file:close()
    end
    assert.equal(good, process.run(CODE, { TCMMA_CACHE_DIR = folder }))
    for name, size in pairs(sizes) do
      local file = assert(io.open(folder .. "/" .. name, "rb"))
      assert.equal(size, file:seek("end"))
      file:close()
    end
  end)

  with_assembler("a folder that cannot be made is no error", function()
    local file = folder .. "/file"
    assert(io.open(file, "w")):close()
    assert.matches("^%d+\n$", (process.run(CODE, { TCMMA_CACHE_DIR = file .. "/below" })))
  end)

  with_assembler("follows XDG_CACHE_HOME, then HOME", function()
    process.run(CODE, { TCMMA_CACHE_DIR = false, XDG_CACHE_HOME = folder .. "/xdg", HOME = folder .. "/home" })
    assert.equal(6, #process.files(folder .. "/xdg/tcmma"))
    process.run(CODE, { TCMMA_CACHE_DIR = false, XDG_CACHE_HOME = false, HOME = folder .. "/home" })
    assert.equal(6, #process.files(folder .. "/home/.cache/tcmma"))
  end)

  with_assembler("is off with TCMMA_CACHE=0", function()
    process.run(CODE, { TCMMA_CACHE_DIR = folder, TCMMA_CACHE = "0" })
    assert.equal(0, #process.files(folder))
  end)

  with_assembler("keeps the targets apart", function()
    local code = [[
      local tc = require "tcmma"
      local module = tc.ptx(".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }")
      print(module:cubin{ target = "sm_90a" } == module:cubin{ target = "sm_100a" })
    ]]
    assert.equal("false\n", (process.run(code, { TCMMA_CACHE_DIR = folder })))
    assert.equal(2, #process.files(folder))
  end)
end)
