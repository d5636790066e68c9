# SPDX-License-Identifier: Apache-2.0
# One interface target carries the language level, warnings and hardening of all our code; nothing is
# set globally, so that a parent project is not affected.
add_library(sn_options INTERFACE)
target_compile_features(sn_options INTERFACE c_std_11)
target_compile_options(sn_options INTERFACE
  -fvisibility=hidden -fno-strict-aliasing -fno-omit-frame-pointer -fstack-protector-strong
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -Wundef -Wcast-qual -Wpointer-arith -Wwrite-strings -Wformat=2 -Wimplicit-fallthrough
  -Wno-missing-field-initializers
  $<$<BOOL:${SN_WERROR}>:-Werror>)
target_compile_definitions(sn_options INTERFACE
  $<$<BOOL:${SN_COVERAGE}>:SN_COVERAGE=1>)
if(NOT SN_SANITIZE)
  # Works on optimized code only, and hides errors from the sanitizers.
  target_compile_definitions(sn_options INTERFACE
    $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:_FORTIFY_SOURCE=2>)
endif()
if(SN_SANITIZE)
  target_compile_options(sn_options INTERFACE -fsanitize=${SN_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(sn_options INTERFACE -fsanitize=${SN_SANITIZE})
endif()
if(SN_COVERAGE)
  target_compile_options(sn_options INTERFACE --coverage)
  target_link_options(sn_options INTERFACE --coverage)
endif()
if(SN_FUZZ)
  # Everything reports its coverage to libFuzzer; only the targets link its main().
  target_compile_options(sn_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(sn_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_link_options(sn_options INTERFACE -Wl,-z,relro,-z,now)

# These two have no form that an interface target could carry. C_EXTENSIONS stays on: gnu11 makes the
# POSIX declarations visible.
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
