std = "lua54"
max_line_length = 120
files["spec"].std = "+busted"
files["tools/absent_errors.lua"] = { max_line_length = false } -- messages, word for word
files["lua/tcmma/meta.lua"] = { ignore = { "2..", "6.." , "1.." } }
