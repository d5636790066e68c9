# SPDX-License-Identifier: Apache-2.0

# sn_add_module(NAME SOURCES a.c ... [DEPS other modules ...] [LIBS imported targets ...])
# A module of the runtime: static library sn_NAME whose headers are included as "NAME/x.h".
function(sn_add_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_library(sn_${name} STATIC ${ARG_SOURCES})
  target_include_directories(sn_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/runtime ${PROJECT_SOURCE_DIR}/runtime/include)
  target_link_libraries(sn_${name} PUBLIC sn_options)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(sn_${name} PUBLIC sn_${dep})
  endforeach()
  target_link_libraries(sn_${name} PRIVATE ${ARG_LIBS})
endfunction()

# sn_add_test(NAME LABEL unit|conformance|... SOURCES a.c ... [DEPS modules] [LIBS targets] [ARGS ...]
#             [TIMEOUT seconds] [WRAP functions...])
# A cmocka program and its ctest entry. WRAP lists functions replaced through the linker's --wrap.
function(sn_add_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;DEPS;LIBS;ARGS;WRAP" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sn_options)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${name} PRIVATE sn_${dep})
  endforeach()
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} PkgConfig::cmocka)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  foreach(symbol IN LISTS ARG_WRAP)
    target_link_options(${name} PRIVATE -Wl,--wrap=${symbol})
  endforeach()
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
    SKIP_RETURN_CODE 77)
endfunction()
