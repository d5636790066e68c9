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

# sn_test_properties(NAME LABEL [TIMEOUT]): what every test has in common; scripts that are added with
# add_test() use it too. Tests that measure load (labels soak, slow) never run beside another one; net tests
# wait for events, so they may. Exit status 77 = skipped.
function(sn_test_properties name label)
  set(timeout 60)
  if(ARGC GREATER 2)
    set(timeout ${ARGV2})
  endif()
  if(SN_SANITIZE MATCHES "thread")
    math(EXPR timeout "5 * ${timeout}") # such a program may be fifteen times slower
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout} SKIP_RETURN_CODE 77)
  if(label MATCHES "^(soak|slow)$")
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(SN_SANITIZE)
    # Allocations that cannot succeed are tested too, and must fail as they do without a sanitizer.
    set_tests_properties(${name} PROPERTIES ENVIRONMENT
      "ASAN_OPTIONS=allocator_may_return_null=1;TSAN_OPTIONS=allocator_may_return_null=1;UBSAN_OPTIONS=print_stacktrace=1")
  endif()
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
  sn_test_properties(${name} ${ARG_LABEL} ${ARG_TIMEOUT})
endfunction()
