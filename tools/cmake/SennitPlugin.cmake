# SPDX-License-Identifier: Apache-2.0

# sn_add_plugin(NAME SOURCES a.c ... [FOLDER dir])
# Target sn_plugin_NAME: the shared object NAME.so in ${CMAKE_BINARY_DIR}/plugins (or FOLDER). It sees the
# public headers only, links nothing, and exports nothing but `sn_plugin`: what it calls is found in the
# program that loads it.
function(sn_add_plugin name)
  cmake_parse_arguments(ARG "" "FOLDER" "SOURCES" ${ARGN})
  if(NOT ARG_FOLDER)
    set(ARG_FOLDER ${CMAKE_BINARY_DIR}/plugins)
  endif()
  set(map ${PROJECT_SOURCE_DIR}/tools/cmake/plugin.map)
  add_library(sn_plugin_${name} MODULE ${ARG_SOURCES})
  target_include_directories(sn_plugin_${name} PRIVATE ${PROJECT_SOURCE_DIR}/runtime/include)
  target_link_libraries(sn_plugin_${name} PRIVATE sn_options)
  target_link_options(sn_plugin_${name} PRIVATE -Wl,--version-script=${map})
  set_target_properties(sn_plugin_${name} PROPERTIES
    OUTPUT_NAME ${name} PREFIX "" SUFFIX ".so"
    LIBRARY_OUTPUT_DIRECTORY ${ARG_FOLDER}
    LINK_DEPENDS ${map})
  # An agent refuses what others may write to, which is how some users' files are made (umask 002).
  add_custom_command(TARGET sn_plugin_${name} POST_BUILD
    COMMAND chmod go-w $<TARGET_FILE:sn_plugin_${name}> VERBATIM)
endfunction()

# sn_link_host(TARGET): the program loads plugins, so it exports the public functions (SN_API); everything
# else is hidden. That they are all linked in is the business of runtime/plugin/exports.c.
function(sn_link_host target)
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
  target_link_libraries(${target} PRIVATE sn_plugin)
endfunction()
