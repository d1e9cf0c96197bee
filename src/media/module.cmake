set_source_files_properties(${PROJECT_SOURCE_DIR}/src/media/resize.cc ${PROJECT_SOURCE_DIR}/src/media/pillow_resize.cc
                            PROPERTIES COMPILE_OPTIONS -O3)
