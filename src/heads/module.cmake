# The network is linked into the program: 7 MB, read where it lies.
set(centerface ${PROJECT_SOURCE_DIR}/third_party/centerface/centerface.onnx)
set(centerface_sha256 09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc)
if(NOT EXISTS ${centerface})
  message(FATAL_ERROR "third_party/centerface/centerface.onnx was not found: scripts/install fetches it")
endif()
file(SHA256 ${centerface} digest)
if(NOT digest STREQUAL centerface_sha256)
  message(FATAL_ERROR "third_party/centerface/centerface.onnx has SHA-256 ${digest}, expected ${centerface_sha256}: "
                      "scripts/install fetches it")
endif()
sightline_embed(sightline_heads centerface ${centerface})
