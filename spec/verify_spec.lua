-- What only the whole kernel shows.
local tc = require "tcmma"
local helper = require "helper"
local build_refuses, builds = helper.build_refuses, helper.builds

local args = { args = { tc.gmem({ 512, 512 }, tc.f16), tc.gmem({ 512, 512 }, tc.f16), tc.gmem({ 512, 512 }, tc.f32) } }

local function text_of(fn)
   return helper.message(fn)
end

describe("The end of a recording", function()
   local function ends(target, body)
      local spec = { args = args.args, target = target, body = body }
      local made, message = pcall(tc.kernel, spec)
      assert.is_false(made)
      local k, x = tc.record { args = args.args, target = target }
      body(x)
      local finished, same = pcall(k.finish, k)
      assert.is_false(finished)
      assert.equal(message, same)
      k:close()
      return helper.first_line(message), tonumber(message:match ":(%d+):")
   end
   local here = function() return debug.getinfo(2, "l").currentline end

   it("refuses a kernel at the line that is at fault", function()
      local line
      local function waits()
         local b = tc.barrier {}
         tc.barrier_wait(b) line = here()
      end
      for _, target in ipairs { "sm_90a", "sm_100a", false } do
         local text, at = ends(target or nil, waits)
         assert.matches("^This wait never ends", text)
         assert.equal(line, at)
         text, at = ends(target or nil, function()
            tc.smem({ 8, 128, 64 }, tc.f16)
            tc.smem({ 8, 128, 64 }, tc.f16) line = here()
         end)
         assert.matches("exceeds available shared memory: smem_bytes=262144", text)
         assert.equal(line, at)
      end
   end)

   it("leaves the recording open where it can be mended", function()
      local k = tc.record {}
      local b = tc.barrier {}
      local one, two = tc.role { name = "one", warps = 1 }, tc.role { name = "two", warps = 1 }
      one(function() tc.barrier_wait(b) end)
      assert.is_false((pcall(k.finish, k)))
      assert.equal(2, #k)
      two(function() tc.barrier_arrive(b) end)
      k:finish()()
      k:close()
   end)

   it("asks the declared target, and of the device only what all share", function()
      local function too_wide()
         for _ = 1, 3 do tc.tmem({ 128, 256 }, tc.f32) end
      end
      local function registers()
         tc.role { name = "one", warpgroups = 1 }(function() tc.set_max_registers(240) end)
         tc.role { name = "two", warpgroups = 3 }(function() tc.set_max_registers(160) end)
      end
      assert.matches("got 1024 columns", (ends("sm_100a", too_wide)))
      assert.matches("set_max_registers asks for", (ends("sm_100a", registers)))
      local kernel = tc.kernel { body = registers }
      assert.matches("set_max_registers asks for", helper.message(function() kernel:ptx { target = "sm_100a" } end))
   end)
end)

describe("Shared memory", function()
   local function stages(n)
      return function(x)
         local s, b = tc.smem({ n, 128, 64 }, tc.f16, { name = "ring" }), tc.barrier { num_barriers = n }
         for i = 0, n - 1 do
            tc.copy_gmem_to_smem(x:tile({ 0, i }, { 128, 64 }), s[i], b[i])
            tc.barrier_wait(b[i])
         end
      end
   end
   -- 14 stages of 16384 bytes and as many barriers
   build_refuses("is limited",
      "Mosaic GPU kernel exceeds available shared memory: smem_bytes=245880 > max_smem_bytes=232448",
      args, stages(15))
   builds("holds what fits", args, stages(14))
   it("is listed with bytes, sum and limit", function()
      local text = text_of(function()
         tc.kernel({ args = args.args, target = "sm_100a", body = stages(15) }):ptx()
      end)
      assert.matches("\n  245760 bytes: SMEM ref, float16 %(15, 128, 64%).*allocated at line %d+ %(\"ring\"%)", text)
      assert.matches("\n  120 bytes: barriers", text)
      assert.matches("\n  245880 bytes in all; a block of sm_100a may use 232448", text)
   end)
   build_refuses("counts members of a union once each",
      "Mosaic GPU kernel exceeds available shared memory: smem_bytes=262144 > max_smem_bytes=232448", args, function()
         tc.union({ tc.smem({ 1024, 64 }, tc.f16), tc.smem({ 1024, 64 }, tc.f16) }, tc.smem({ 64, 64 }, tc.f16))
      end)
   builds("lets members of a union share", args, function()
      tc.union(tc.smem({ 1024, 64 }, tc.f16), tc.smem({ 1024, 64 }, tc.f16))
   end)
end)

describe("Tensor memory", function()
   build_refuses("is one allocation of a power of two",
      "After rounding up, got 1024 columns, exceeding the limit of 512",
      args, function()
         tc.tmem({ 128, 384 }, tc.f32)
         tc.tmem({ 128, 256 }, tc.f32)
      end)
   builds("of 512 columns is there", args, function()
      tc.tmem({ 128, 256 }, tc.f32)
      tc.tmem({ 128, 256 }, tc.f32)
   end)
   builds("can be shared", args, function() tc.union(tc.tmem({ 128, 512 }, tc.f32), tc.tmem({ 128, 512 }, tc.f32)) end)
   build_refuses("is collective or not",
      "Can't mix collective and non-collective TMEM allocations within the same kernel.",
      { cluster = { 2 }, cluster_names = { "x" } }, function()
         tc.tmem({ 128, 64 }, tc.f32, { collective = true })
         tc.tmem({ 128, 64 }, tc.f32)
      end)
   build_refuses("is collective in pairs",
      "Collective TMEM allocations are only supported for clusters with an even number of blocks in them. Got cluster: "
         .. "(3, 1, 1)", { cluster = { 3 }, cluster_names = { "x" } }, function()
         tc.tmem({ 128, 64 }, tc.f32, { collective = true })
      end)
   builds("of pairs is there", { cluster = { 2 }, cluster_names = { "x" } }, function()
      tc.tmem({ 128, 64 }, tc.f32, { collective = true })
   end)
   build_refuses("of pairs is not there on Hopper",
      "Collective TMEM does not exist on sm_90a: there, tensor memory lies in registers of one CTA.",
      { cluster = { 2 }, cluster_names = { "x" }, target = "sm_90a" }, function()
         tc.tmem({ 128, 64 }, tc.f32, { collective = true })
      end)
end)

-- A matmul of one tile; change.NAME is called instead of the part of that name.
local function tile(change)
   return function(x, y)
      local acc = tc.tmem({ 128, 64 }, tc.f32, { name = "acc" })
      local a, b = tc.smem({ 128, 64 }, tc.f16), tc.smem({ 64, 64 }, tc.f16)
      local loaded = tc.barrier { num_arrivals = change.num_arrivals or 2, name = "loaded" }
      local done = tc.barrier { orders_tensor_core = true, name = "done" }
      local part = {
         load_a = function() tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 128, 64 }), a, loaded) end,
         load_b = function() tc.copy_gmem_to_smem(y:tile({ 0, 0 }, { 64, 64 }), b, loaded) end,
         wait_loaded = function() tc.barrier_wait(loaded) end,
         mma = function() tc.mma(acc, a, b, { barrier = done, accumulate = false }) end,
         wait_done = function() tc.barrier_wait(done) end,
         read = function() tc.async_load_tmem(acc) end,
      }
      for _, name in ipairs(change.order or { "load_a", "load_b", "wait_loaded", "mma", "wait_done", "read" }) do
         local fn = change[name] or part[name]
         fn(acc, a, b, loaded, done)
      end
   end
end

describe("Waits and arrivals:", function()
   builds("a right kernel is built", args, tile {})
   it("a barrier without arrivals", function()
      local text = helper.first_line(helper.message(function()
         tc.kernel({ args = args.args, target = "sm_100a", body = tile { mma = function(acc, a, b) tc.mma(acc, a,
            b) end } })
            :ptx()
      end))
      assert.matches('^This wait never ends: nothing arrives on barrier "done" %(line %d+%)%.$', text)
   end)
   it("fewer arrivals than num_arrivals", function()
      local text = helper.first_line(helper.message(function()
         tc.kernel({ args = args.args, target = "sm_100a", body = tile { num_arrivals = 3 } }):ptx()
      end))
      assert.matches('^This wait never ends: barrier "loaded" %(line %d+%) completes after 3 arrival%(s%), but '
         .. "gets 2 for 1 wait%.$", text)
   end)
   it("more arrivals than num_arrivals", function()
      local text = helper.first_line(helper.message(function()
         tc.kernel({ args = args.args, target = "sm_100a", body = tile { num_arrivals = 1 } }):ptx()
      end))
      assert.matches('^barrier "loaded" %(line %d+%) completes after 1 arrival%(s%), but gets 2 for 1 wait%.$', text)
   end)
   it("a copy that nobody awaits", function()
      local text = helper.first_line(helper.message(function()
         tc.kernel({ args = args.args, target = "sm_100a", body = tile { wait_loaded = function() end } }):ptx()
      end))
      assert.matches('^Nothing ever waits on barrier "loaded" %(line %d+%), on which this copy arrives%.$', text)
   end)
   it("a wait for one's own later arrival", function()
      local text = helper.first_line(helper.message(function()
         tc.kernel({
            args = args.args,
            target = "sm_100a",
            body = tile { order = { "load_a", "load_b", "wait_loaded", "wait_done", "mma" } },
         }):ptx()
      end))
      assert.matches('^This wait never ends: the arrivals that barrier "done" %(line %d+%) lacks come after waits that '
         .. "never end either%.$", text)
   end)
   it("roles that wait for each other", function()
      local text = helper.first_line(helper.message(function()
         tc.kernel({
            target = "sm_100a",
            body = function()
               local x, y = tc.barrier { name = "x" }, tc.barrier { name = "y" }
               local one, two = tc.role { name = "one", warps = 1 }, tc.role { name = "two", warps = 1 }
               one(function()
                  tc.barrier_wait(x)
                  tc.barrier_arrive(y)
               end)
               two(function()
                  tc.barrier_wait(y)
                  tc.barrier_arrive(x)
               end)
            end,
         }):ptx()
      end))
      assert.matches('^This wait never ends: the arrivals that barrier "x"', text)
   end)
   builds("roles that take turns", nil, function()
      local x, y = tc.barrier { name = "x" }, tc.barrier { name = "y" }
      local one, two = tc.role { name = "one", warps = 1 }, tc.role { name = "two", warps = 1 }
      tc.range(8, function()
         one(function()
            tc.barrier_arrive(x)
            tc.barrier_wait(y)
         end)
         two(function()
            tc.barrier_wait(x)
            tc.barrier_arrive(y)
         end)
      end)
   end)
   it("a ring whose arrivals do not add up in a loop", function()
      local text = helper.first_line(helper.message(function()
         tc.kernel({
            args = { tc.gmem({ "M", 64 }, tc.f16) },
            target = "sm_100a",
            body = function(x)
               local s, full = tc.smem({ 4, 64, 64 }, tc.f16), tc.barrier { num_arrivals = 2, num_barriers = 4 }
               local load, use = tc.role { name = "load", warps = 1 }, tc.role { name = "use", warps = 1 }
               local steps = tc.cdiv(x.shape[1], 64)
               load(function()
                  tc.range(steps, function(i)
                     tc.copy_gmem_to_smem(x:tile({ i, 0 }, { 64, 64 }), s[i % 4], full[i % 4])
                  end)
               end)
               use(function() tc.range(steps, function(i) tc.barrier_wait(full[i % 4]) end) end)
            end,
         }):ptx()
      end))
      assert.matches("completes after 2 arrival%(s%), but gets 1 for 1 wait in each iteration%.$", text)
   end)
   builds("roles that wait for barriers of their own in one group", args, function(x)
      local s, full = tc.smem({ 2, 64, 64 }, tc.f16), tc.barrier { num_barriers = 2 }
      local load = tc.role { name = "load", warps = 1 }
      local uses = { tc.role { name = "even", warps = 1 }, tc.role { name = "odd", warps = 1 } }
      load(function()
         for i = 0, 1 do tc.copy_gmem_to_smem(x:tile({ i, 0 }, { 64, 64 }), s[i], full[i]) end
      end)
      for i = 0, 1 do uses[i + 1](function() tc.barrier_wait(full[i]) end) end
   end)
   builds("roles that wait for every second barrier", args, function(x)
      local s, full = tc.smem({ 4, 64, 64 }, tc.f16), tc.barrier { num_barriers = 4 }
      local load = tc.role { name = "load", warps = 1 }
      local uses = { tc.role { name = "even", warps = 1 }, tc.role { name = "odd", warps = 1 } }
      load(function()
         tc.range(2, function(i)
            for j = 0, 1 do tc.copy_gmem_to_smem(x:tile({ 2 * i + j, 0 }, { 64, 64 }), s[2 * i + j],
               full[2 * i + j]) end
         end)
      end)
      for j = 0, 1 do
         uses[j + 1](function() tc.range(2, function(i) tc.barrier_wait(full[2 * i + j]) end) end)
      end
   end)
   it("a ring with too many arrivals in a loop", function()
      local text = helper.first_line(helper.message(function()
         tc.kernel({
            args = args.args,
            target = "sm_100a",
            body = function(x)
               local s, full = tc.smem({ 2, 4, 64, 64 }, tc.f16), tc.barrier { num_barriers = 4 }
               local load, use = tc.role { name = "load", warps = 1 }, tc.role { name = "use", warps = 1 }
               load(function()
                  tc.range(8, function(i)
                     tc.copy_gmem_to_smem(x:tile({ i, 0 }, { 64, 64 }), s:at(0, i % 4), full[i % 4])
                     tc.copy_gmem_to_smem(x:tile({ i, 1 }, { 64, 64 }), s:at(1, i % 4), full[i % 4])
                  end)
               end)
               use(function() tc.range(8, function(i) tc.barrier_wait(full[i % 4]) end) end)
            end,
         }):ptx()
      end))
      assert.matches("completes after 1 arrival%(s%), but gets 16 for 8 waits%.$", text)
   end)
   it("both forms of waiting in one role", function()
      local text = helper.first_line(helper.message(function()
         tc.kernel({
            target = "sm_100a",
            body = function()
               local b = tc.barrier {}
               tc.barrier_arrive(b)
               tc.barrier_wait(b)
               tc.barrier_arrive(b)
               tc.barrier_wait(b, { parity = 1 })
            end,
         }):ptx()
      end))
      assert.equal("Role main waits on this barrier with and without parity.", text)
   end)
   it("nothing of these in a recording that goes on", function()
      helper.recording({ target = "sm_100a" }, function(k)
         tc.barrier_wait(tc.barrier {})
         assert.is_string(k:ptx())
      end)
   end)
end)

describe("Accumulators:", function()
   local function message(change)
      return helper.first_line(helper.message(function()
         tc.kernel({ args = args.args, target = "sm_100a", body = tile(change) }):ptx()
      end))
   end
   it("a read without a wait", function()
      assert.matches('^TMEM ref, float32 %(128, 64%), allocated at line %d+ %("acc"%) is read before anything has '
         .. "waited for the tc%.mma that writes it%.$", message { order = { "load_a", "load_b", "wait_loaded", "mma",
            "read",
            "wait_done" } })
   end)
   it("a read of an mma that signals nothing", function()
      assert.matches("is read, but the tc%.mma that writes it signals no barrier%.$", message {
         mma = function(acc, a, b) tc.mma(acc, a, b) end,
         wait_done = function() end,
      })
   end)
   it("an mma that nobody awaits", function()
      assert.equal("Nothing ever waits for this tc.mma.", message {
         mma = function(acc, a, b) tc.mma(acc, a, b) end,
         order = { "load_a", "load_b", "wait_loaded", "mma" },
      })
   end)
   builds("a commit after the mma", args, tile {
      mma = function(acc, a, b, _, done)
         tc.mma(acc, a, b)
         tc.commit_arrive(done)
      end,
   })
   builds("a wait in another role that passes it on", args, function(x, y)
      local acc = tc.tmem({ 128, 64 }, tc.f32)
      local a, b = tc.smem({ 128, 64 }, tc.f16), tc.smem({ 64, 64 }, tc.f16)
      local loaded, done = tc.barrier { num_arrivals = 2 }, tc.barrier { orders_tensor_core = true }
      local told = tc.barrier { orders_tensor_core = true }
      local issue, relay, read = tc.role { name = "issue", warps = 1 }, tc.role { name = "relay", warps = 1 },
         tc.role { name = "read", warpgroups = 1 }
      issue(function()
         tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 128, 64 }), a, loaded)
         tc.copy_gmem_to_smem(y:tile({ 0, 0 }, { 64, 64 }), b, loaded)
         tc.barrier_wait(loaded)
         tc.mma(acc, a, b, { barrier = done, accumulate = false })
      end)
      relay(function()
         tc.barrier_wait(done)
         tc.barrier_arrive(told)
      end)
      read(function()
         tc.barrier_wait(told)
         tc.async_load_tmem(acc)
      end)
   end)
   builds("what a store has put there", args, function()
      local t = tc.tmem({ 128, 64 }, tc.f32)
      tc.async_store_tmem(t, tc.full({ 128, 64 }, 0, tc.f32))
      tc.async_load_tmem(t)
   end)
end)

describe("Roles:", function()
   local function registers(copy, compute)
      return function()
         local one, two = tc.role { name = "copy", warpgroups = 1 }, tc.role { name = "compute", warpgroups = 2 }
         one(function() tc.set_max_registers(copy) end)
         two(function() tc.set_max_registers(compute) end)
      end
   end
   builds("registers that fit the pool", nil, registers(40, 232))
   build_refuses("registers beyond the pool",
      "set_max_registers asks for 66560 registers in all, but the block was launched with 64512.", nil, registers(40,
         240))
   build_refuses("more named barriers than there are",
      "16 roles of more than one warp need as many named barriers; a block has 15 to give.", nil, function()
         for i = 1, 16 do
            tc.role { name = "r" .. i, warps = 2 }(function() tc.barrier_arrive(tc.barrier {}) end)
         end
      end)
end)
