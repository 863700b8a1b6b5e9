# SPDX-License-Identifier: BSD-3-Clause
# What `cmake --install` leaves: libraries, public headers, the program, the licence, and the package that
# find_package(cairn) finds. One export file a library, so that a program finds only what it asks for. Nothing
# in them is an absolute path: the tree may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CAIRN_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)

function(cairn_install_library name)
  install(TARGETS cairn_${name}_library EXPORT cairn_${name}_export
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT cairn_${name}_export NAMESPACE cairn:: FILE cairn_${name}.cmake
          DESTINATION ${CAIRN_PACKAGE_DIR})
endfunction()

function(cairn_install_package)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cairnConfig.cmake.in cairnConfig.cmake
                                INSTALL_DESTINATION ${CAIRN_PACKAGE_DIR} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(cairnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cairnConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/cairnConfigVersion.cmake
          DESTINATION ${CAIRN_PACKAGE_DIR})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/cairn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          PATTERN mpi.hpp EXCLUDE PATTERN torch.hpp EXCLUDE)
  if(TARGET cairn::torch)
    install(FILES ${PROJECT_SOURCE_DIR}/cmake/CairnLibtorch.cmake DESTINATION ${CAIRN_PACKAGE_DIR})
  endif()
  foreach(part mpi torch)
    if(TARGET cairn::${part})
      install(FILES ${PROJECT_SOURCE_DIR}/include/cairn/${part}.hpp
              DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cairn)
    endif()
  endforeach()
  install(TARGETS cairn DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
