# Helpers so that every library of the project is declared in the same way.

# libstdc++ 12 uses a buffer that it deprecates itself inside std::stable_sort.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-deprecated-declarations -fno-omit-frame-pointer)

# dsv3_add_library(NAME sources... [LINK libs...]): a static library without MLIR.
function(dsv3_add_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()

# Makes a target see MLIR's headers, and the headers TableGen writes. The two
# shared libraries are linked by name: MLIR's own helper fails with the dylib.
function(dsv3_use_mlir target)
  separate_arguments(defs NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  target_compile_definitions(${target} PUBLIC ${defs})
  target_include_directories(${target} SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${target} PUBLIC MLIR LLVM)
endfunction()

# One precompiled header for every library on MLIR: it takes a pass from 20 s to 3 s.
# Called once, after find_package(MLIR).
function(dsv3_make_mlir_pch)
  add_library(dsv3_mlir_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/MlirPch.cpp)
  dsv3_use_mlir(dsv3_mlir_pch)
  target_precompile_headers(dsv3_mlir_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/MlirPch.h)
  # ccache needs to be told that the header's time stamps do not matter.
  target_compile_options(dsv3_mlir_pch PRIVATE -Xclang -fno-pch-timestamp)
endfunction()

# dsv3_add_mlir_library(NAME sources... [LINK libs...] [DEPENDS tablegen targets...])
function(dsv3_add_mlir_library name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  dsv3_use_mlir(${name})
  target_precompile_headers(${name} REUSE_FROM dsv3_mlir_pch)
  target_compile_options(${name} PRIVATE -Xclang -fno-pch-timestamp)
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# dsv3_add_tool(NAME sources... [LINK libs...]): a program in build/bin.
function(dsv3_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
endfunction()

# dsv3_add_unittest(NAME sources... [LINK libs...]): a GoogleTest program, one ctest entry.
function(dsv3_add_unittest name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE DSV3_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
endfunction()

# dsv3_add_reference(TARGET NAME FILE.td mlir-tblgen flags...): build/docs/NAME.md as part of TARGET.
function(dsv3_add_reference target name file)
  set(out ${CMAKE_BINARY_DIR}/docs/${name}.md)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/docs
    COMMAND ${MLIR_TABLEGEN_EXE} ${ARGN} -I ${CMAKE_SOURCE_DIR} -I ${MLIR_INCLUDE_DIRS} ${CMAKE_SOURCE_DIR}/${file} -o ${out}
    DEPENDS ${CMAKE_SOURCE_DIR}/${file}
    VERBATIM)
  add_custom_target(docs-${name} DEPENDS ${out})
  add_dependencies(${target} docs-${name})
endfunction()
