# SPDX-License-Identifier: Apache-2.0
# What an installation holds: the program, the plugins, and what a plugin author needs.
#
# A plugin calls the host through the table that it is handed and links nothing, so the headers are the
# whole development interface: the exported target sennit::plugin_api is INTERFACE. The modules of the
# runtime are static, internal and not installed.
include(CMakePackageConfigHelpers)

set(SN_PLUGIN_DIR ${CMAKE_INSTALL_LIBDIR}/sennit/plugins CACHE STRING
  "Where plugins are installed, relative to the prefix or absolute")

add_library(sn_plugin_api INTERFACE)
add_library(sennit::plugin_api ALIAS sn_plugin_api)
set_target_properties(sn_plugin_api PROPERTIES EXPORT_NAME plugin_api)
target_compile_features(sn_plugin_api INTERFACE c_std_11)
target_include_directories(sn_plugin_api INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/runtime/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS sn_plugin_api EXPORT sennit-targets)
install(EXPORT sennit-targets NAMESPACE sennit:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sennit)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/sennit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

# What a new plugin is begun with.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/plugins/_template/
  DESTINATION ${CMAKE_INSTALL_DATADIR}/sennit/template USE_SOURCE_PERMISSIONS)

# sn_install_plugin(target...): those of the targets that this configuration builds.
function(sn_install_plugin)
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      install(TARGETS ${target} LIBRARY DESTINATION ${SN_PLUGIN_DIR})
    endif()
  endforeach()
endfunction()

if(TARGET sennit)
  install(TARGETS sennit RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
sn_install_plugin(sn_plugin_tunnel sn_plugin_soak)

# Files that name the plugin folder. Relative to the prefix wherever possible, so that an installation
# can be moved.
if(IS_ABSOLUTE "${SN_PLUGIN_DIR}")
  set(SN_PC_PLUGINDIR "${SN_PLUGIN_DIR}")
else()
  set(SN_PC_PLUGINDIR "\${prefix}/${SN_PLUGIN_DIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_DATADIR}")
  set(SN_PC_TEMPLATEDIR "${CMAKE_INSTALL_DATADIR}/sennit/template")
else()
  set(SN_PC_TEMPLATEDIR "\${prefix}/${CMAKE_INSTALL_DATADIR}/sennit/template")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(SN_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(SN_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
# The prefix is known when it is installed (cmake --install --prefix), and written straight to its place, because two
# installations may be made of one build.
set(SN_PC_PREFIX "@CMAKE_INSTALL_PREFIX@")
configure_file(${PROJECT_SOURCE_DIR}/tools/cmake/sennit.pc.in ${PROJECT_BINARY_DIR}/sennit.pc.in @ONLY)
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(SN_PC_FOLDER "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
else()
  set(SN_PC_FOLDER "\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
install(CODE "
  set(pc \"${SN_PC_FOLDER}/sennit.pc\")
  message(STATUS \"Installing: \$ENV{DESTDIR}\${pc}\")
  configure_file(\"${PROJECT_BINARY_DIR}/sennit.pc.in\" \"\$ENV{DESTDIR}\${pc}\" @ONLY)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${pc}\")")

configure_package_config_file(${PROJECT_SOURCE_DIR}/tools/cmake/sennit-config.cmake.in
  ${PROJECT_BINARY_DIR}/sennit-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sennit PATH_VARS SN_PLUGIN_DIR)
# Before 1.0 any minor version may change the plugin ABI.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sennit-config-version.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/sennit-config.cmake ${PROJECT_BINARY_DIR}/sennit-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sennit)
