# ThreadSanitizer does not know stand-alone fences. Asio's handlers pass through its scheduler's mutex, which orders them
# as well.
if(SIGHTLINE_SANITIZE STREQUAL "thread")
  target_compile_definitions(sightline_net PRIVATE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
# clang 14 cannot assemble coroutines with the data that UndefinedBehaviorSanitizer puts before functions.
if(SIGHTLINE_SANITIZE STREQUAL "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(sightline_net PRIVATE -fno-sanitize=function)
endif()
