# Loops over billions of weights.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/tensor/tensor.cc PROPERTIES COMPILE_OPTIONS -O3)
