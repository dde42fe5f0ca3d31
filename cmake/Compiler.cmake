# Flags every Tessera target shares: warnings are errors, ccache is used when present.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers hit the cache only with these two relaxations; with a base directory, clones at other places share it.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# The compiler's default linker: Debian 12's lld 14 lost unwind entries of functions that GCC placed in groups, so that exceptions ended the program.

# -O2: -O3 costs a quarter more build time and speeds up only loops over numbers, which ask for it themselves.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# The files of a target are compiled some together: what they include is read, and what they share of templates compiled, once for all of them. The
# whole build takes two fifths of the time. So names in the anonymous namespaces of a layer, or of a layer's tests, differ from each other.
# -DCMAKE_UNITY_BUILD=OFF compiles each file by itself, and compile_commands.json then names them: for editors, and for scripts/tidy.
if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)

add_library(tessera_options INTERFACE)
# OpenMP everywhere, so that one precompiled header serves all. At run time the libgomp of the libtorch wheel serves the whole process.
target_link_libraries(tessera_options INTERFACE OpenMP::OpenMP_CXX)
target_compile_options(tessera_options INTERFACE $<BUILD_INTERFACE:-Wall;-Wextra;-Wpedantic;-Werror;-Wno-unused-parameter>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these falsely inside libstdc++ at -O2 and above.
  target_compile_options(tessera_options INTERFACE $<BUILD_INTERFACE:-fpch-preprocess;-Wno-restrict;-Wno-dangling-pointer;-Wno-maybe-uninitialized>
                                                   $<BUILD_INTERFACE:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Clang reports libstdc++ 12's own use of std::get_temporary_buffer in std::stable_sort.
  target_compile_options(tessera_options INTERFACE $<BUILD_INTERFACE:-Wno-deprecated-declarations>)
endif()
target_include_directories(tessera_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
if(TESSERA_SANITIZE)
  add_compile_options(-fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${TESSERA_SANITIZE})
endif()
