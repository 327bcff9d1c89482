std = "lua54"
max_line_length = 120
files["spec"].std = "+busted"
files["lua/tcmma/meta.lua"] = { ignore = { "2..", "6.." , "1.." } }
