# Each instruction set has one file of kernels, compiled for it; everything else is plain x86-64. Multiply-adds are
# written out, so that every compiler fuses the same ones.
set(kernel_flags -O3 -ffp-contract=off -fno-math-errno -falign-loops=64)
set(kernels_generic_flags ${kernel_flags})
set(kernels_avx2_flags ${kernel_flags} -mavx2 -mfma)
set(kernels_avx512_flags ${kernels_avx2_flags} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
set(kernels_avx512_bf16_flags ${kernels_avx512_flags} -mavx512bf16 -mavx512vnni)
set(kernels_amx_flags ${kernels_avx512_bf16_flags})
foreach(isa generic avx2 avx512 avx512_bf16 amx)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/cpu/kernels_${isa}.cc
                              PROPERTIES COMPILE_OPTIONS "${kernels_${isa}_flags}")
endforeach()
# Loops over billions of weights.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/cpu/packing.cc PROPERTIES COMPILE_OPTIONS -O3)
