--- The parts of the module that are written in Lua, tc.NAME each; loaded when first used.
return { "autotune", "bench", "help", "matmul", "npy", "safetensors" }
