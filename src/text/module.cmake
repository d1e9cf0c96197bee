# The tokenizer of LocateAnything travels inside the program: 4.6 MB, read where it lies.
foreach(file vocab.json merges.txt added_tokens.json tokenizer_config.json special_tokens_map.json)
  string(REGEX REPLACE "\\..*" "" symbol ${file})
  sightline_embed(sightline_text tokenizer_${symbol} ${PROJECT_SOURCE_DIR}/assets/tokenizer/${file})
endforeach()
