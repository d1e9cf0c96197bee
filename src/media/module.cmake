set_source_files_properties(${PROJECT_SOURCE_DIR}/src/media/resize.cc PROPERTIES COMPILE_OPTIONS -O3)
