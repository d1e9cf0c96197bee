# The trained toy travels inside the program.
sightline_embed(sightline_pipeline toy_backbone ${PROJECT_SOURCE_DIR}/assets/toy/dinov2_toy_pretrain.pth)
sightline_embed(sightline_pipeline toy_decoder ${PROJECT_SOURCE_DIR}/assets/toy/gazelle_toy_inout.pt)
