# Imported targets for libtorch, made by hand from a pip wheel's folder or an unpacked libtorch (2.11 to 2.14).
# find_package(Torch) on a CUDA wheel demands a whole CUDA toolkit and adds nothing we use.
#   TESSERA_TORCH   cache entry or environment variable: the folder that holds include/ and lib/
if(NOT TESSERA_TORCH)
  if(DEFINED ENV{TESSERA_TORCH})
    set(TESSERA_TORCH $ENV{TESSERA_TORCH})
  else()
    file(GLOB TESSERA_TORCH_IN_VENV ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
    list(GET TESSERA_TORCH_IN_VENV 0 TESSERA_TORCH)
  endif()
endif()
set(TESSERA_TORCH "${TESSERA_TORCH}" CACHE PATH "libtorch folder (include/ and lib/)")
if(NOT EXISTS ${TESSERA_TORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no libtorch in '${TESSERA_TORCH}' (lib/libtorch_cpu.so is missing)\n"
                      "  rule: Tessera builds against libtorch 2.11 to 2.14\n"
                      "  fix:  run scripts/setup, or set TESSERA_TORCH to a folder that holds include/ and lib/")
endif()

# A SYSTEM include directory, so that libtorch's own warnings are not ours.
add_library(tessera_torch INTERFACE)
target_include_directories(tessera_torch SYSTEM INTERFACE
  $<BUILD_INTERFACE:${TESSERA_TORCH}/include> $<BUILD_INTERFACE:${TESSERA_TORCH}/include/torch/csrc/api/include>)
foreach(lib c10 torch_cpu)
  add_library(tessera_${lib} SHARED IMPORTED GLOBAL)
  set_target_properties(tessera_${lib} PROPERTIES IMPORTED_LOCATION ${TESSERA_TORCH}/lib/lib${lib}.so)
  target_link_libraries(tessera_torch INTERFACE $<BUILD_INTERFACE:tessera_${lib}>)
endforeach()
# The wheel's own OpenMP runtime: a second one in the process would double the threads.
file(GLOB TESSERA_GOMP ${TESSERA_TORCH}/lib/libgomp*.so*)
set(TESSERA_TORCH_CUDA OFF)
set(TESSERA_NCCL OFF)
if(EXISTS ${TESSERA_TORCH}/lib/libtorch_cuda.so)
  set(TESSERA_TORCH_CUDA ON)
  foreach(lib c10_cuda torch_cuda)
    add_library(tessera_${lib} SHARED IMPORTED GLOBAL)
    set_target_properties(tessera_${lib} PROPERTIES IMPORTED_LOCATION ${TESSERA_TORCH}/lib/lib${lib}.so)
    target_link_libraries(tessera_torch INTERFACE $<BUILD_INTERFACE:tessera_${lib}>)
  endforeach()
  # What c10d's NCCL headers include. The wheels beside torch's have it, all but two parts (scripts/setup adds them); a toolkit has it too.
  file(GLOB TESSERA_CUDA_INCLUDES ${TESSERA_TORCH}/../nvidia/*/include /usr/local/cuda/include)
  set(TESSERA_NCCL ON)
  foreach(header nccl.h cuda_runtime.h crt/host_config.h nv/target)
    unset(TESSERA_HEADER CACHE)
    find_file(TESSERA_HEADER ${header} HINTS ${TESSERA_CUDA_INCLUDES})
    if(NOT TESSERA_HEADER)
      message(WARNING "libtorch has CUDA, but there is no ${header}: ranks will not talk NCCL. Run scripts/setup, or install a CUDA toolkit.")
      set(TESSERA_NCCL OFF)
    endif()
  endforeach()
endif()
