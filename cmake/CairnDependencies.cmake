# SPDX-License-Identifier: BSD-3-Clause
# What Cairn is built with. CAIRN_WITH_X is AUTO (use when found), ON (must be found) or OFF.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost REQUIRED COMPONENTS program_options)
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
endif()

foreach(part MPI TORCH HDF5 ISAL)
  set(CAIRN_WITH_${part} AUTO CACHE STRING "Build with ${part}: AUTO, ON or OFF")
  set_property(CACHE CAIRN_WITH_${part} PROPERTY STRINGS AUTO ON OFF)
  if(NOT CAIRN_WITH_${part} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "CAIRN_WITH_${part} is '${CAIRN_WITH_${part}}': AUTO, ON or OFF expected")
  endif()
  set(CAIRN_HAVE_${part} FALSE)
  set(CAIRN_${part}_TEXT "off")
endforeach()

# Records the outcome of looking for a part; ON and not found ends the configuration.
macro(cairn_part part found text hint)
  if(${found})
    set(CAIRN_HAVE_${part} TRUE)
    set(CAIRN_${part}_TEXT "${text}")
  elseif(CAIRN_WITH_${part} STREQUAL "ON")
    message(FATAL_ERROR "CAIRN_WITH_${part}=ON, but it was not found. ${hint}")
  else()
    set(CAIRN_${part}_TEXT "not found")
  endif()
endmacro()

if(NOT CAIRN_WITH_MPI STREQUAL "OFF")
  find_package(MPI QUIET COMPONENTS CXX)
  cairn_part(MPI "${MPI_CXX_FOUND}" "${MPI_CXX_VERSION}" "Debian: openmpi-bin libopenmpi-dev")
endif()

if(NOT CAIRN_WITH_ISAL STREQUAL "OFF")
  pkg_check_modules(ISAL QUIET IMPORTED_TARGET libisal)
  cairn_part(ISAL "${ISAL_FOUND}" "${ISAL_VERSION}" "Debian: libisal-dev")
endif()

# Probed only: nothing links HDF5 or libtorch yet.
if(NOT CAIRN_WITH_HDF5 STREQUAL "OFF")
  pkg_search_module(HDF5 QUIET hdf5-serial hdf5)
  cairn_part(HDF5 "${HDF5_FOUND}" "${HDF5_VERSION}" "Debian: libhdf5-dev")
endif()

if(NOT CAIRN_WITH_TORCH STREQUAL "OFF")
  file(GLOB torch_candidates ${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/torch)
  find_path(CAIRN_TORCH_ROOT include/ATen/core/Tensor.h HINTS ${torch_candidates}
            DOC "Directory of libtorch: holds include/ and lib/")
  set(torch_version "")
  if(CAIRN_TORCH_ROOT AND EXISTS ${CAIRN_TORCH_ROOT}/version.py)
    file(STRINGS ${CAIRN_TORCH_ROOT}/version.py torch_version REGEX "^__version__")
    string(REGEX REPLACE ".*'([^']*)'.*" "\\1" torch_version "${torch_version}")
  endif()
  cairn_part(TORCH "${CAIRN_TORCH_ROOT}" "${torch_version}"
             "launch/setup.sh installs it; else set CAIRN_TORCH_ROOT")
endif()

# CRC-32: ISA-L when there, zlib always (it also combines CRCs).
add_library(cairn_crc INTERFACE)
target_link_libraries(cairn_crc INTERFACE ZLIB::ZLIB)
if(CAIRN_HAVE_ISAL)
  target_link_libraries(cairn_crc INTERFACE PkgConfig::ISAL)
  target_compile_definitions(cairn_crc INTERFACE CAIRN_HAVE_ISAL)
endif()

function(cairn_summary)
  message(STATUS "Cairn ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}")
  foreach(part MPI TORCH HDF5 ISAL)
    message(STATUS "  ${part}: ${CAIRN_${part}_TEXT}")
  endforeach()
endfunction()
