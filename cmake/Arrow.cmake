# Imported target for Arrow and Parquet, made by hand from the pip wheel of pyarrow, which brings libraries and headers. Nothing of Python is used.
#   TESSERA_ARROW   cache entry: the folder that holds include/, libarrow.so.N and libparquet.so.N
if(NOT TESSERA_ARROW)
  file(GLOB TESSERA_ARROW_IN_VENV ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/pyarrow)
  if(TESSERA_ARROW_IN_VENV)
    list(GET TESSERA_ARROW_IN_VENV 0 TESSERA_ARROW)
  endif()
endif()
set(TESSERA_ARROW "${TESSERA_ARROW}" CACHE PATH "pyarrow folder (include/, libarrow.so.N, libparquet.so.N)")
file(GLOB TESSERA_ARROW_RUNTIME ${TESSERA_ARROW}/libarrow.so.* ${TESSERA_ARROW}/libparquet.so.*)
list(FILTER TESSERA_ARROW_RUNTIME INCLUDE REGEX "\\.so\\.[0-9]+$")
list(LENGTH TESSERA_ARROW_RUNTIME count)
if(NOT count EQUAL 2)
  message(FATAL_ERROR "no Arrow in '${TESSERA_ARROW}' (libarrow.so.N or libparquet.so.N is missing)\n"
                      "  rule: Parquet and Arrow files are read with the libraries of the pyarrow wheel\n"
                      "  fix:  run scripts/setup, or set TESSERA_ARROW to the folder of an installed pyarrow")
endif()

add_library(tessera_arrow INTERFACE)
target_include_directories(tessera_arrow SYSTEM INTERFACE $<BUILD_INTERFACE:${TESSERA_ARROW}/include>)
set(TESSERA_ARROW_LIBRARIES)
foreach(file ${TESSERA_ARROW_RUNTIME})
  get_filename_component(name ${file} NAME)
  list(APPEND TESSERA_ARROW_LIBRARIES ${name})
  add_library(tessera_${name} SHARED IMPORTED GLOBAL)
  set_target_properties(tessera_${name} PROPERTIES IMPORTED_LOCATION ${file})
  target_link_libraries(tessera_arrow INTERFACE $<BUILD_INTERFACE:tessera_${name}>)
endforeach()
