-- Every form of spec/emu_forms.txt on the emulator: its results are those of the hardware, bit for bit.
local tc = require "tcmma"

local directory = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"

local bits = {
  u8 = 16, s8 = 16, u16 = 16, s16 = 16, b16 = 16, f16 = 16, bf16 = 16,
  u64 = 64, s64 = 64, b64 = 64, f64 = 64, pred = 1,
}

local function read_forms()
  local forms = {}
  for line in io.lines(directory .. "emu_forms.txt") do
    if not line:match "^#" then
      local words = {}
      for word in line:gmatch "%S+" do words[#words + 1] = word end
      local form = { mnemonic = words[1], rows = {}, sources = {} }
      local at = 2
      if words[2]:match "^%d" then form.immediate, at = words[2], 3 end
      form.result = words[at]
      for source in words[at + 1]:gmatch "[^,]+" do table.insert(form.sources, source) end
      for i = at + 2, #words do
        local values, result = words[i]:match "^(.*)=(%x+)$"
        local row = {}
        for value in values:gmatch "[^,]+" do row[#row + 1] = math.tointeger(tonumber("0x" .. value)) end
        row.result = math.tointeger(tonumber("0x" .. result))
        form.rows[#form.rows + 1] = row
      end
      forms[#forms + 1] = form
    end
  end
  return forms
end

-- A kernel that applies the form to the row of its thread: sources at 32-byte steps, results at 8.
local function kernel(index, form)
  local text = { ([[
.visible .entry k%d(.param .u64 in, .param .u64 out)
{
 .reg .b64 %%rd<20>; .reg .b32 %%r<20>; .reg .b16 %%h<20>; .reg .pred %%p;
 mov.u32 %%r1, %%tid.x;
 ld.param.u64 %%rd1, [in];
 ld.param.u64 %%rd2, [out];
 mad.wide.u32 %%rd1, %%r1, 32, %%rd1;
 mad.wide.u32 %%rd2, %%r1, 8, %%rd2;]]):format(index) }
  local operands = {}
  for i, source in ipairs(form.sources) do
    local wide = ("%%rd%d"):format(9 + i)
    text[#text + 1] = (" ld.global.u64 %s, [%%rd1+%d];"):format(wide, 8 * (i - 1))
    local width = bits[source] or 32
    local register = width == 64 and wide or (width == 32 and "%%r%d" or "%%h%d"):format(9 + i)
    if width ~= 64 then text[#text + 1] = (" cvt.u%d.u64 %s, %s;"):format(width, register, wide) end
    operands[i] = register
  end
  operands[#operands + 1] = form.immediate
  local width = bits[form.result] or 32
  local result = ({ [1] = "%p", [16] = "%h1", [32] = "%r2", [64] = "%rd3" })[width]
  text[#text + 1] = (" %s %s, %s;"):format(form.mnemonic, result, table.concat(operands, ", "))
  if width == 1 then
    text[#text + 1] = " selp.u64 %rd3, 1, 0, %p;"
  elseif width ~= 64 then
    text[#text + 1] = (" cvt.u64.u%d %%rd3, %s;"):format(width, result)
  end
  text[#text + 1] = " st.global.u64 [%rd2], %rd3;\n ret;\n}\n"
  return table.concat(text, "\n")
end

describe("scalar PTX on the emulator", function()
  local forms = read_forms()
  local text = { ".version 8.6\n.target sm_90a\n.address_size 64\n" }
  for i, form in ipairs(forms) do text[#text + 1] = kernel(i, form) end
  local module = tc.ptx(table.concat(text))
  local groups = {}
  for i, form in ipairs(forms) do
    local opcode = form.mnemonic:match "^%w+"
    if not groups[opcode] then
      groups[opcode] = {}
      groups[#groups + 1] = opcode
    end
    table.insert(groups[opcode], i)
  end

  for _, opcode in ipairs(groups) do
    it(opcode .. ": its forms give what hardware gives", function()
      local wrong = {}
      for _, i in ipairs(groups[opcode]) do
        local form = forms[i]
        local values = {}
        for r, row in ipairs(form.rows) do
          for k = 1, 4 do values[4 * (r - 1) + k] = row[k] or 0 end
        end
        local out = tc.zeros({ #form.rows }, tc.i64)
        local report = module:kernel("k" .. i):emulate {
          block = { #form.rows }, args = { tc.from_table(values, tc.i64), out },
        }
        assert.is_true(report.completed)
        local results = out:totable()
        for r, row in ipairs(form.rows) do
          if results[r] ~= row.result then
            wrong[#wrong + 1] = ("%s (%x, %x, %x): %x, not %x"):format(form.mnemonic, row[1], row[2] or 0,
              row[3] or 0, results[r], row.result)
          end
        end
      end
      assert.same({}, wrong)
    end)
  end
end)
