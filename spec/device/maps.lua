-- Which tensor maps the driver encodes: the emulator must take and refuse the same.  Nothing is copied.
local text = [[
.visible .entry KERNEL(.param .align 64 .b8 map[128], .param .u64 out)
{
 .reg .b64 %rd<2>;
 ld.param.u64 %rd1, [out];
 st.global.b32 [%rd1], 1;
 ret;
}
]]

local bits = { u8 = 8, u16 = 16, u32 = 32, s32 = 32, u64 = 64, s64 = 64, f16 = 16, f32 = 32, f64 = 64, bf16 = 16,
  f32_ftz = 32,
  tf32 = 32, tf32_ftz = 32, ["16u4_align8b"] = 4, ["16u4_align16b"] = 4, ["16u6_align16b"] = 6 }

return function()
  local cases = {}
  local function add(family, title, map)
    cases[#cases + 1] = { name = ("%s %s"):format(family, title), family = family, text = text, stride = 4,
      grid = { 1 },
      block = { 1 }, args = { { map = map, of = 3 }, { output = 4 }, { input = ("\0"):rep(65536), hidden = true } } }
  end
  for _, dtype in ipairs { "u8", "f16", "f32", "u64", "f64", "tf32", "s32" } do
    local size = bits[dtype] // 8
    for rank = 1, 3 do
      for _, interleave in ipairs { "none", "16B", "32B" } do
        for _, swizzle in ipairs { "none", "32B", "64B", "128B" } do
          for _, inner in ipairs { 8, 16, 32, 48, 64, 128, 144, 256 } do
            for _, oob in ipairs { "zeros", "nan" } do
              add(("map %s"):format(dtype), ("%dd interleave %s swizzle %s box of %d bytes %s"):format(rank,
                interleave, swizzle,
                inner, oob), { dtype = dtype, dims = { 512 // size, 4, 4 }, rank = rank,
                strides = { 512, 2048 }, box = { math.max(inner // size, 1), 2, 2 }, swizzle = swizzle,
                interleave = interleave, oob = oob })
              local map = cases[#cases].args[1].map
              map.rank = nil
              for i = 3, rank + 1, -1 do map.dims[i], map.box[i], map.strides[i - 1] = nil, nil, nil end
              if rank == 1 then map.strides = nil end
            end
          end
        end
      end
    end
  end
  local function variant(title, change)
    local map = { dtype = "f16", dims = { 64, 16, 4 }, strides = { 128, 2048 }, box = { 32, 4, 2 }, swizzle = "64B" }
    for key, value in pairs(change) do map[key] = value end
    add("map of halves", title, map)
  end
  for _, step in ipairs { 1, 2, 7, 8, 9 } do variant(("element stride %d"):format(step), { element_strides = { 1, step,
    1 } }) end
  for _, step in ipairs { 1, 2, 8, 9 } do variant(("inner element stride %d"):format(step), { element_strides = { step,
    1, 1 } }) end
  for _, stride in ipairs { 120, 128, 136, 144, 64, 16, 0 } do variant(("stride %d"):format(stride),
    { strides = { stride, 2048 } }) end
  for _, box in ipairs { 0, 1, 4, 8, 24, 32, 40, 256, 257 } do variant(("box of %d"):format(box), { box = { box, 4,
    2 } }) end
  for _, box in ipairs { 0, 1, 255, 256, 257 } do variant(("%d rows"):format(box), { box = { 32, box, 2 } }) end
  for _, dim in ipairs { 0, 1, 8, 63, 1 << 31, 1 << 32, (1 << 32) + 1 } do
    variant(("size %d"):format(dim), { dims = { dim, 16, 4 }, strides = { 1 << 34, 1 << 38 } })
    variant(("%d rows of the tensor"):format(dim), { dims = { 64, dim, 4 }, strides = { 128, 1 << 39 } })
  end
  for _, stride in ipairs { (1 << 40) - 16, 1 << 40 } do variant(("stride %d"):format(stride), { strides = { 128,
    stride } }) end
  for _, l2 in ipairs { "none", "64B", "128B", "256B" } do variant("promotion " .. l2, { l2 = l2 }) end
  for _, swizzle in ipairs { "128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B" } do
    variant("swizzle " .. swizzle, { swizzle = swizzle })
  end
  for _, dtype in ipairs { "16u4_align8b", "16u4_align16b", "16u6_align16b" } do
    variant("type " .. dtype, { dtype = dtype, dims = { 128, 16, 4 }, box = { 128, 4, 2 }, swizzle = "none" })
  end
  -- Maps of pixels: what differs from that of 32 halves of a pixel of 64, in images of 16 x 8.
  local function pixels(title, change)
    local map = { dtype = "f16", dims = { 64, 16, 8, 4 }, strides = { 128, 2048, 16384 }, swizzle = "64B",
      im2col = { lower = { 0, 0 }, upper = { 0, 0 }, channels = 32, pixels = 16 } }
    for key, value in pairs(change) do
      if key ~= "im2col" then map[key] = value end
    end
    for key, value in pairs(change.im2col or {}) do map.im2col[key] = value end
    add("map of pixels", title, map)
  end
  for _, count in ipairs { 0, 1, 4, 8, 16, 24, 32, 40, 64, 128, 256, 257 } do
    for _, swizzle in ipairs { "none", "32B", "64B", "128B" } do
      pixels(("%d channels swizzle %s"):format(count, swizzle), { swizzle = swizzle, im2col = { channels = count } })
    end
    for _, layout in ipairs { { "16B", "none" }, { "16B", "32B" }, { "16B", "128B" }, { "32B", "none" },
      { "32B", "32B" } } do
      pixels(("%d channels interleave %s swizzle %s"):format(count, layout[1], layout[2]), { interleave = layout[1],
        swizzle = layout[2], dims = { 16, 8, 4, 4 }, strides = { 512, 4096, 16384 }, im2col = { channels = count } })
    end
  end
  for _, count in ipairs { 0, 1, 255, 256, 257, 512, 1024, 1025 } do
    pixels(("%d pixels"):format(count), { im2col = { pixels = count } })
  end
  local shapes = { { 64, 16, 4 }, { 64, 16, 8, 4 }, { 64, 16, 4, 2, 4 } }
  local strides = { { 128, 2048 }, { 128, 2048, 16384 }, { 128, 2048, 8192, 16384 } }
  for rank = 3, 5 do
    local limit = ({ 1 << 15, 1 << 7, 1 << 4 })[rank - 2]
    for _, corner in ipairs { -limit - 1, -limit, -1, 0, 1, limit - 1, limit } do
      for _, side in ipairs { "lower", "upper" } do
        for d = 1, rank - 2 do
          local im2col = { lower = {}, upper = {} }
          for i = 1, rank - 2 do im2col.lower[i], im2col.upper[i] = 0, 0 end
          im2col[side][d] = corner
          pixels(("%dd %s corner %d is %d"):format(rank, side, d, corner), { dims = shapes[rank - 2],
            strides = strides[rank - 2], im2col = im2col })
        end
      end
    end
  end
  for _, step in ipairs { 0, 1, 2, 8, 9 } do
    for d = 1, 4 do
      local steps = { 1, 1, 1, 1 }
      steps[d] = step
      pixels(("element stride %d of dimension %d"):format(step, d), { element_strides = steps })
    end
  end
  for _, dtype in ipairs { "u8", "u16", "u32", "u64", "bf16", "f32_ftz", "tf32" } do
    for _, oob in ipairs { "zeros", "nan" } do
      pixels(("type %s fill %s"):format(dtype, oob), { dtype = dtype, oob = oob, dims = { 64 * 16 // bits[dtype], 16, 8,
        4 }, im2col = { channels = 32 * 16 // bits[dtype] } })
    end
  end
  for _, stride in ipairs { 120, 128, 144 } do
    pixels(("stride %d"):format(stride), { strides = { stride, 2304, 18432 }, dims = { 56, 15, 7, 3 } })
  end
  return cases
end
