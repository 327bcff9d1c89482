-- Every example runs on the emulator and finds its own result correct.
local names = {}
for name in io.popen("ls examples/*.lua"):lines() do
   if name:match "/%d%d_" or name:match "ladder" then names[#names + 1] = name end
end

describe("example", function()
   assert(#names >= 6)
   -- Where Hopper is current, what needs Blackwell makes an emulated one current.
   for _, name in ipairs { "examples/10_matmul_collective.lua", "examples/14_matmul_block_scaled.lua",
      "examples/15_matmul_grouped.lua", "examples/ladder.lua" } do
      it(name .. " is correct beside a Hopper device", function()
         local pipe = assert(io.popen("TCMMA_DEVICE=emulator:sm_90a lua5.4 " .. name .. " 2>&1; echo status=$?"))
         local text = pipe:read "a"
         pipe:close()
         assert.matches("status=0%s*$", text)
         assert.not_matches("WRONG", text)
      end)
   end
   for _, name in ipairs { "02_matmul_basic", "03_matmul_warp_specialized", "16_matmul_sparse", "18_matmul_int4" } do
      it(name .. " runs on a Hopper device", function()
         local pipe = assert(io.popen("TCMMA_DEVICE=emulator:sm_90a lua5.4 examples/" .. name .. ".lua 2>&1"))
         local text = pipe:read "a"
         assert(pipe:close(), text)
         assert.matches("on emulator:sm_90a: .*correct", text)
      end)
   end
   for _, name in ipairs(names) do
      it(name .. " is correct", function()
         local pipe = assert(io.popen("TCMMA_DEVICE=emulator lua5.4 " .. name .. " 2>&1; echo status=$?"))
         local text = pipe:read "a"
         pipe:close()
         assert.matches("status=0%s*$", text)
         assert.matches("correct", text)
         assert.not_matches("WRONG", text)
      end)
   end
end)
