# SPDX-License-Identifier: BSD-3-Clause
# A layer is a folder of src/: cairn_layer(zip DEPENDS cairn_tensor) compiles src/zip/*.cpp into cairn_zip,
# which sees the include paths of what it depends on and nothing else. Libraries are made of layers.

function(cairn_layer name)
  cmake_parse_arguments(layer "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp
       ${PROJECT_SOURCE_DIR}/src/${name}/*/*.cpp)
  add_library(cairn_${name} STATIC ${sources})
  target_include_directories(cairn_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(cairn_${name} PUBLIC ${layer_DEPENDS})
endfunction()

# cairn::core, cairn::mpi, cairn::torch: what programs link, here and where Cairn is installed. One archive of
# the objects of its layers. LINKS: what a program needs besides; headers of the layers only are not among it.
function(cairn_library name)
  cmake_parse_arguments(library "" "" "LAYERS;LINKS" ${ARGN})
  list(TRANSFORM library_LAYERS REPLACE "(.+)" "$<TARGET_OBJECTS:cairn_\\1>")
  set(target cairn_${name}_library)
  add_library(${target} STATIC ${library_LAYERS})
  add_library(cairn::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME cairn_${name} EXPORT_NAME ${name} LINKER_LANGUAGE CXX
                        ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_link_libraries(${target} INTERFACE ${library_LINKS})
  cairn_install_library(${name})
endfunction()

# Builds what runs under the sanitizers, the tests labelled unit or sanitized:
# cmake --build … --target sanitized_tests.
add_custom_target(sanitized_tests)
function(cairn_sanitized_target target)
  add_dependencies(sanitized_tests ${target})
endfunction()

# cairn_test(zip DEPENDS cairn_zip): the gtest program test_zip from tests/zip/*.cpp, label unit.
function(cairn_test name)
  cmake_parse_arguments(test "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(test_${name} PRIVATE ${test_DEPENDS} GTest::gtest_main)
  target_compile_definitions(test_${name} PRIVATE CAIRN_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  add_test(NAME unit.${name} COMMAND test_${name})
  set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 300)
  cairn_sanitized_target(test_${name})
endfunction()
