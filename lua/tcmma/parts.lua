--- The parts of the module that are written in Lua: where tc.NAME is; loaded when first used.
-- A file is what is named as it, or a table of what it holds.
return {
  autotune = "autotune", bench = "bench", help = "help", matmul = "matmul", npy = "npy", safetensors = "safetensors",
  block_spec = "pipeline", emit_pipeline = "pipeline", emit_pipeline_warp_specialized = "pipeline",
  cluster_cancel_result = "schedule", dynamic_scheduling_loop = "schedule", nd_loop = "schedule",
  planar_snake = "schedule",
}
