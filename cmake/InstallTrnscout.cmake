# Two components: `python` is what a wheel holds, `dev` is the C++ package that
# find_package(trnscout) finds.
include(CMakePackageConfigHelpers)

if(SKBUILD)
  install(TARGETS trnscout_runtime trnscout_device
          LIBRARY DESTINATION trnscout COMPONENT python)
  install(TARGETS _core _runtime
          LIBRARY DESTINATION trnscout COMPONENT python)
endif()

install(TARGETS trnscout_core trnscout_runtime EXPORT trnscoutTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(TARGETS trnscout_device
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/trnscout
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(EXPORT trnscoutTargets NAMESPACE trnscout::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/trnscout COMPONENT dev)
configure_package_config_file(
  ${CMAKE_SOURCE_DIR}/cmake/trnscoutConfig.cmake.in
  ${CMAKE_BINARY_DIR}/trnscoutConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/trnscout)
write_basic_package_version_file(
  ${CMAKE_BINARY_DIR}/trnscoutConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/trnscoutConfig.cmake
              ${CMAKE_BINARY_DIR}/trnscoutConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/trnscout COMPONENT dev)
