set_source_files_properties(${PROJECT_SOURCE_DIR}/src/weights/synthetic.cc PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
sightline_embed(sightline_weights gaze_lle_rules ${PROJECT_SOURCE_DIR}/assets/synthesis/gaze_lle_rules.json)
sightline_embed(sightline_weights pos_embed_axis ${PROJECT_SOURCE_DIR}/assets/synthesis/pos_embed_axis.npy)
