--- What `make bench-gpu` measures: shapes, and configurations to try beside the model's.
local shapes = {}

--- {M, N, K}, in groups that can be run apart.
shapes.groups = {
  { "square", { { 512, 512, 512 }, { 1024, 1024, 1024 }, { 2048, 2048, 2048 }, { 4096, 4096, 4096 },
    { 6144, 6144, 6144 }, { 8192, 8192, 8192 }, { 16384, 16384, 16384 } } },
  { "decode", { { 16, 4096, 4096 }, { 16, 14336, 4096 }, { 16, 4096, 14336 }, { 16, 8192, 8192 }, { 64, 4096, 4096 },
    { 64, 14336, 4096 }, { 64, 4096, 14336 }, { 64, 7168, 2048 }, { 64, 2112, 7168 }, { 128, 2112, 7168 },
    { 128, 24576, 1536 }, { 128, 7168, 16384 } } },
  { "llm", { { 4096, 8192, 4096 }, { 4096, 14336, 4096 }, { 4096, 4096, 14336 }, { 4096, 2112, 7168 },
    { 4096, 7168, 2048 }, { 8192, 28672, 8192 }, { 8192, 8192, 28672 } } },
  { "tails", { { 4000, 4000, 4000 }, { 1000, 2000, 1000 }, { 8200, 8200, 8200 } } },
}

--- Configurations that were fastest somewhere; each is tried where it is legal. units: of 128 bytes of K in a stage.
shapes.extra = {
  large = {
    { tile_m = 128, tile_n = 256, stages = 4, group = 8 }, { tile_m = 128, tile_n = 256, stages = 4, group = 16 },
    { tile_m = 128, tile_n = 256, stages = 3, group = 8 }, { tile_m = 128, tile_n = 128, stages = 6, group = 8 },
    { tile_m = 128, tile_n = 208, stages = 4, group = 8 }, { tile_m = 128, tile_n = 176, stages = 4, group = 4 },
    { tile_m = 64, tile_n = 128, stages = 7, group = 8 },
    { tile_m = 64, tile_n = 32, units = 2, stages = 4, group = 8 },
    { tile_m = 128, tile_n = 256, stages = 4, group = 8, cluster = 2 },
    { tile_m = 128, tile_n = 128, stages = 6, group = 8, cluster = 2 },
    { tile_m = 128, tile_n = 208, stages = 4, group = 8, cluster = 2 },
    { tile_m = 128, tile_n = 256, stages = 4, group = 8, cluster_n = 2 }, { tile_m = 192, tile_n = 160, stages = 4 },
  },
  -- Rows that are no multiple of 32 bytes.
  ragged = {
    { tile_m = 128, tile_n = 216, stages = 4, group = 8, cluster = 2 },
    { tile_m = 128, tile_n = 216, stages = 4, group = 22, cluster = 2 },
    { tile_m = 128, tile_n = 216, stages = 4, group = 33, cluster = 2 },
    { tile_m = 256, tile_n = 160, stages = 4, group = 11, cluster_n = 2, slots = 1 },
    { tile_m = 256, tile_n = 160, stages = 4, group = 8, cluster_n = 2, slots = 1 },
    { tile_m = 128, tile_n = 208, stages = 4, group = 8, cluster = 2 },
    { tile_m = 128, tile_n = 256, stages = 4, group = 8, cluster = 2 },
    { tile_m = 128, tile_n = 144, stages = 5, cluster = 2 }, { tile_m = 128, tile_n = 128, stages = 6, cluster = 2 },
  },
  small = {
    { swap = true, tile_m = 64, units = 2, stages = 8 }, { swap = true, tile_m = 128, stages = 11 },
    { swap = true, tile_m = 128, stages = 8 }, { swap = true, tile_m = 64, units = 2, stages = 6 },
    { swap = true, tile_m = 64, units = 2, stages = 4 }, { tile_m = 64, tile_n = 64, units = 2, stages = 6 },
    { swap = true, tile_m = 64, units = 2, stages = 8, split_k = 2 },
    { swap = true, tile_m = 64, units = 2, stages = 6, split_k = 2 },
    { swap = true, tile_m = 64, units = 2, stages = 5, split_k = 3 },
    { swap = true, tile_m = 64, stages = 10, split_k = 2 }, { tile_m = 128, tile_n = 96, stages = 6 },
    { tile_m = 64, tile_n = 32, units = 2, stages = 8 }, { tile_m = 64, tile_n = 112, stages = 8 },
    { tile_m = 64, tile_n = 128, units = 2, stages = 4 }, { tile_m = 64, tile_n = 128, stages = 8 },
    { swap = true, tile_m = 64, tile_n = 16, units = 2, stages = 8 },
    { tile_m = 64, tile_n = 32, units = 2, stages = 8, split_k = 2 },
    { swap = true, tile_m = 64, tile_n = 32, units = 2, stages = 8 },
    { swap = true, tile_m = 64, tile_n = 64, units = 2, stages = 6 },
  },
}

--- Fused epilogues: {name, M, N, K, dtype, fields of the problem}.
shapes.epilogues = {
  { "bias_gelu", 4096, 4096, 4096, "bf16", { bias = "bf16", epilogue = "gelu" } },
  { "bias_relu", 4096, 4096, 4096, "bf16", { bias = "bf16", epilogue = "relu" } },
  { "residual", 4096, 4096, 4096, "bf16", { residual = "bf16" } },
  { "bias_gelu", 4096, 14336, 4096, "bf16", { bias = "bf16", epilogue = "gelu" } },
  { "bias_gelu", 64, 14336, 4096, "bf16", { bias = "bf16", epilogue = "gelu" } },
  { "scales", 4096, 4096, 4096, "e4m3", { row_scale = "f32", column_scale = "f32" } },
}

return shapes
