# sightline_module(NAME LINK <public libraries> PRIVATE <private libraries>)
# One static library from every .cc under src/NAME; its header is included as "NAME/NAME.h".
set(SIGHTLINE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)

add_library(sightline_options INTERFACE)
target_compile_options(sightline_options INTERFACE ${SIGHTLINE_WARNINGS})
target_compile_definitions(sightline_options INTERFACE SIGHTLINE_VERSION="${PROJECT_VERSION}")
if(SIGHTLINE_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(SIGHTLINE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(SIGHTLINE_SANITIZE)
  message(FATAL_ERROR "SIGHTLINE_SANITIZE is '${SIGHTLINE_SANITIZE}', expected address or thread")
endif()
if(SIGHTLINE_SANITIZE)
  # g++ 12 takes an empty optional for one that is read, with what sanitizers add around it.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
if(SIGHTLINE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage of all our code guides the fuzzer
  add_link_options(-fsanitize=fuzzer-no-link)
endif()

function(sightline_module name)
  cmake_parse_arguments(arg "" "" "LINK;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_library(sightline_${name} STATIC ${sources})
  target_include_directories(sightline_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(sightline_${name} PUBLIC ${arg_LINK} PRIVATE sightline_options ${arg_PRIVATE})
  if(EXISTS ${PROJECT_SOURCE_DIR}/src/${name}/module.cmake)
    include(${PROJECT_SOURCE_DIR}/src/${name}/module.cmake)  # flags of single files, embedded data
  endif()
endfunction()

# sightline_embed(TARGET SYMBOL FILE): links FILE into TARGET's library as the bytes
#   extern "C" const std::byte sightline_SYMBOL[]; extern "C" const std::byte sightline_SYMBOL_end[];
function(sightline_embed target symbol file)
  set(assembly ${CMAKE_CURRENT_BINARY_DIR}/embed/${symbol}.S)
  file(CONFIGURE OUTPUT ${assembly} @ONLY CONTENT [[
    .section .rodata
    .global sightline_@symbol@, sightline_@symbol@_end
    .balign 64
sightline_@symbol@:
    .incbin "@file@"
sightline_@symbol@_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
]])
  set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS ${file})
  target_sources(${target} PRIVATE ${assembly})
endfunction()
