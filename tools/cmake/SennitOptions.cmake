# SPDX-License-Identifier: Apache-2.0
# One interface target carries the language level, warnings and hardening of all our code; nothing is
# set globally, so that a parent project is not affected.
add_library(sn_options INTERFACE)
target_compile_features(sn_options INTERFACE c_std_11)
target_compile_options(sn_options INTERFACE
  -fvisibility=hidden -fno-strict-aliasing -fno-omit-frame-pointer
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -Wundef -Wcast-qual -Wpointer-arith -Wwrite-strings -Wformat=2 -Wimplicit-fallthrough
  -Wno-missing-field-initializers
  $<$<BOOL:${SN_WERROR}>:-Werror>)
target_compile_definitions(sn_options INTERFACE
  $<$<AND:$<NOT:$<CONFIG:Debug>>,$<STREQUAL:${SN_SANITIZE},>>:_FORTIFY_SOURCE=2>
  $<$<BOOL:${SN_COVERAGE}>:SN_COVERAGE=1>)
if(SN_SANITIZE)
  target_compile_options(sn_options INTERFACE -fsanitize=${SN_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(sn_options INTERFACE -fsanitize=${SN_SANITIZE})
endif()
if(SN_COVERAGE)
  target_compile_options(sn_options INTERFACE --coverage)
  target_link_options(sn_options INTERFACE --coverage)
endif()
target_link_options(sn_options INTERFACE -Wl,-z,relro,-z,now)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
