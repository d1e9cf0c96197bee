# ThreadSanitizer does not know stand-alone fences. Asio's handlers pass through its scheduler's mutex, which orders them
# as well.
if(SIGHTLINE_SANITIZE STREQUAL "thread")
  target_compile_definitions(sightline_net PRIVATE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
