# Our own packages travel inside the program, so that their short names work without a network.
foreach(package gaze-lle locate-anything)
  string(REPLACE - _ symbol ${package})
  sightline_embed(sightline_package ${symbol}_tt_model ${PROJECT_SOURCE_DIR}/packages/${package}/tt-model.yaml)
  sightline_embed(sightline_package ${symbol}_sightline ${PROJECT_SOURCE_DIR}/packages/${package}/sightline.yaml)
endforeach()
