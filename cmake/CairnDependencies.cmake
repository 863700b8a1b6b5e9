# SPDX-License-Identifier: BSD-3-Clause
# What Cairn is built with. CAIRN_WITH_X is AUTO (use when found), ON (must be found) or OFF.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost CONFIG REQUIRED COMPONENTS program_options)
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

# Records the outcome of looking for a part: `found` is the name of a variable. ON and not found ends the
# configuration.
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

# FindMPI gives the version of the standard; the library's own one is in its pkg-config file.
function(cairn_mpi_text result)
  pkg_check_modules(CAIRN_OMPI QUIET ompi)
  if(CAIRN_OMPI_FOUND)
    set(${result} "Open MPI ${CAIRN_OMPI_VERSION}" PARENT_SCOPE)
  else()
    set(${result} "MPI ${MPI_CXX_VERSION}" PARENT_SCOPE)
  endif()
endfunction()

function(cairn_torch_text result)
  set(version "version unknown")
  if(EXISTS ${CAIRN_TORCH_ROOT}/version.py)
    file(STRINGS ${CAIRN_TORCH_ROOT}/version.py line REGEX "^__version__" LIMIT_COUNT 1)
    string(REGEX REPLACE ".*['\"]([^'\"]*)['\"].*" "\\1" version "${line}")
  endif()
  set(${result} "${version} (probed only)" PARENT_SCOPE)
endfunction()

if(NOT CAIRN_WITH_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI QUIET COMPONENTS CXX)
  cairn_mpi_text(mpi_text)
  cairn_part(MPI MPI_CXX_FOUND "${mpi_text}" "Debian: openmpi-bin libopenmpi-dev (launch/setup.sh)")
endif()

if(NOT CAIRN_WITH_ISAL STREQUAL "OFF")
  pkg_check_modules(ISAL QUIET IMPORTED_TARGET libisal)
  cairn_part(ISAL ISAL_FOUND "${ISAL_VERSION}" "Debian: libisal-dev (launch/setup.sh)")
endif()

# Nothing links HDF5 or libtorch yet. The serial HDF5 is wanted, whichever of its variants are installed.
if(NOT CAIRN_WITH_HDF5 STREQUAL "OFF")
  pkg_search_module(CAIRN_HDF5 QUIET hdf5-serial hdf5)
  cairn_part(HDF5 CAIRN_HDF5_FOUND "${CAIRN_HDF5_VERSION} (probed only)" "Debian: libhdf5-dev (launch/setup.sh)")
endif()

if(NOT CAIRN_WITH_TORCH STREQUAL "OFF")
  file(GLOB torch_candidates ${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/torch)
  find_path(CAIRN_TORCH_ROOT include/ATen/core/Tensor.h HINTS ${torch_candidates} NO_DEFAULT_PATH
            DOC "Directory of libtorch: holds include/ and lib/")
  cairn_torch_text(torch_text)
  cairn_part(TORCH CAIRN_TORCH_ROOT "${torch_text}" "launch/setup.sh installs it; else set CAIRN_TORCH_ROOT")
endif()

# Runs the tests' Python: the virtual environment's, with torch, where launch/setup.sh made one.
set(CAIRN_TEST_PYTHON "" CACHE FILEPATH "Python that runs the tests; empty: build/venv's, else python3")
set(CAIRN_PYTHON_COMMAND python3)
if(CAIRN_TEST_PYTHON)
  set(CAIRN_PYTHON_COMMAND ${CAIRN_TEST_PYTHON})
elseif(EXISTS ${PROJECT_SOURCE_DIR}/build/venv/bin/python3)
  set(CAIRN_PYTHON_COMMAND ${PROJECT_SOURCE_DIR}/build/venv/bin/python3)
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
