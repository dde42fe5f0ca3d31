# `cmake --install build --prefix DIR` gives a tree that runs wherever it is moved, without the virtual environment and without Python:
#   bin/tessera                  finds its libraries relative to itself
#   include/tessera, lib/*.a     headers and layers, for programs that build on Tessera
#   lib/torch/{include,lib}      libtorch as the wheel lays it out, so that its own relative paths hold; lib/nvidia beside it when it came with CUDA
#   lib/arrow                    libarrow and libparquet
#   lib/cmake/Tessera            find_package(Tessera): targets Tessera::core, Tessera::model, …, and Tessera::tessera for all of them
set(TESSERA_CMAKE_DESTINATION lib/cmake/Tessera)

install(TARGETS tessera RUNTIME DESTINATION bin)
set_target_properties(tessera PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/torch/lib:$ORIGIN/../lib/arrow")

# Every library target below a folder, except the carrier of the precompiled header.
function(tessera_collect_libraries folder output)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  set(found)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type MATCHES "STATIC_LIBRARY|INTERFACE_LIBRARY" AND NOT target STREQUAL "tessera_torch_pch")
      list(APPEND found ${target})
    endif()
  endforeach()
  foreach(subfolder ${subfolders})
    tessera_collect_libraries(${subfolder} below)
    list(APPEND found ${below})
  endforeach()
  set(${output} ${found} PARENT_SCOPE)
endfunction()
tessera_collect_libraries(${PROJECT_SOURCE_DIR}/src/tessera TESSERA_LIBRARIES)

add_library(tessera_tessera INTERFACE)
target_link_libraries(tessera_tessera INTERFACE ${TESSERA_LIBRARIES})
target_include_directories(tessera_options INTERFACE $<INSTALL_INTERFACE:include>)
target_compile_features(tessera_options INTERFACE $<INSTALL_INTERFACE:cxx_std_20>)
# Defined by TesseraConfig.cmake, relative to the tree.
target_link_libraries(tessera_torch INTERFACE $<INSTALL_INTERFACE:Tessera::libtorch>)
target_link_libraries(tessera_arrow INTERFACE $<INSTALL_INTERFACE:Tessera::libarrow>)

foreach(target tessera_tessera tessera_options tessera_torch tessera_arrow ${TESSERA_LIBRARIES})
  string(REGEX REPLACE "^tessera_" "" exported ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${exported})
  install(TARGETS ${target} EXPORT TesseraTargets ARCHIVE DESTINATION lib)
endforeach()
install(EXPORT TesseraTargets NAMESPACE Tessera:: DESTINATION ${TESSERA_CMAKE_DESTINATION})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/tessera DESTINATION include FILES_MATCHING PATTERN "*.h" PATTERN "program" EXCLUDE
        PATTERN "torch_pch" EXCLUDE)

# libtorch without its Python bindings and its own tests.
file(GLOB TESSERA_TORCH_RUNTIME ${TESSERA_TORCH}/lib/*.so ${TESSERA_TORCH}/lib/*.so.*)
list(FILTER TESSERA_TORCH_RUNTIME EXCLUDE REGEX "/lib[^/]*(python|shm|test|aoti_custom_ops|backend_with_compiler)[^/]*$")
install(PROGRAMS ${TESSERA_TORCH_RUNTIME} DESTINATION lib/torch/lib)
install(DIRECTORY ${TESSERA_TORCH}/include DESTINATION lib/torch PATTERN "pybind11" EXCLUDE)
if(TESSERA_TORCH_CUDA AND EXISTS ${TESSERA_TORCH}/../nvidia)
  install(DIRECTORY ${TESSERA_TORCH}/../nvidia DESTINATION lib FILES_MATCHING PATTERN "*.so" PATTERN "*.so.*")
endif()

install(PROGRAMS ${TESSERA_ARROW_RUNTIME} DESTINATION lib/arrow)

include(CMakePackageConfigHelpers)
set(TESSERA_TORCH_LIBRARIES c10 torch_cpu)
if(TESSERA_TORCH_CUDA)
  list(APPEND TESSERA_TORCH_LIBRARIES c10_cuda torch_cuda)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/TesseraConfig.cmake.in ${PROJECT_BINARY_DIR}/TesseraConfig.cmake
                              INSTALL_DESTINATION ${TESSERA_CMAKE_DESTINATION})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TesseraConfig.cmake ${PROJECT_BINARY_DIR}/TesseraConfigVersion.cmake DESTINATION ${TESSERA_CMAKE_DESTINATION})
install(FILES ${PROJECT_SOURCE_DIR}/cmake/Dependencies.cmake DESTINATION ${TESSERA_CMAKE_DESTINATION} RENAME TesseraDependencies.cmake)
