# SPDX-License-Identifier: BSD-3-Clause
# Defines cairn::libtorch where libtorch is found, and CAIRN_TORCH_ROOT, CAIRN_TORCH_VERSION. Part of the
# installed package too.
#
# Not by find_package(Torch): that of a wheel with CUDA ends the configuration where no CUDA toolkit is
# installed, and the bridge needs none. A program that has called it gets the targets it defined.
function(cairn_find_libtorch)
  set(hints ${ARGN})
  if(Torch_DIR)
    list(APPEND hints ${Torch_DIR}/../../..)
  endif()
  set(prefixes ${CMAKE_PREFIX_PATH})
  if(DEFINED ENV{CMAKE_PREFIX_PATH})
    string(REPLACE ":" ";" from_environment "$ENV{CMAKE_PREFIX_PATH}")
    list(APPEND prefixes ${from_environment})
  endif()
  foreach(prefix ${prefixes})
    list(APPEND hints ${prefix} ${prefix}/../..)  # of libtorch itself; of torch.utils.cmake_prefix_path
  endforeach()
  find_path(CAIRN_TORCH_ROOT include/ATen/core/Tensor.h HINTS ${hints} NO_DEFAULT_PATH
            DOC "Directory of libtorch: holds include/ and lib/")
  if(NOT CAIRN_TORCH_ROOT)
    return()
  endif()

  set(version "unknown")
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(version STREQUAL "unknown" AND EXISTS ${CAIRN_TORCH_ROOT}/include/${header})
      file(STRINGS ${CAIRN_TORCH_ROOT}/include/${header} numbers REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
      string(REGEX REPLACE "#define TORCH_VERSION_[A-Z]+ " "" numbers "${numbers}")
      if(numbers)
        list(JOIN numbers "." version)
      endif()
    endif()
  endforeach()
  set(CAIRN_TORCH_VERSION ${version} PARENT_SCOPE)

  if(TARGET cairn::libtorch)
    return()
  endif()
  add_library(cairn::libtorch INTERFACE IMPORTED)
  if(TARGET torch_library)
    target_link_libraries(cairn::libtorch INTERFACE torch_library)
    return()
  endif()
  target_include_directories(cairn::libtorch INTERFACE ${CAIRN_TORCH_ROOT}/include
                             ${CAIRN_TORCH_ROOT}/include/torch/csrc/api/include)
  target_link_libraries(cairn::libtorch INTERFACE ${CAIRN_TORCH_ROOT}/lib/libtorch.so
                        ${CAIRN_TORCH_ROOT}/lib/libtorch_cpu.so ${CAIRN_TORCH_ROOT}/lib/libc10.so)
endfunction()
