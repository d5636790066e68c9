#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An installation serves an author of plugins who has nothing else of Sennit: found by CMake and by
# pkg-config, the public headers compile with a strict compiler, and the result needs no library.
#
# usage: test_install.sh BUILD-FOLDER
set -eu
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset DESTDIR

# pkg-config file and CMake package name the configured prefix; DESTDIR moves it all under $work.
DESTDIR=$work cmake --install "$build" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
pc=$(find "$work" -name sennit.pc)
config=$(find "$work" -name sennit-config.cmake)
if [ -z "$pc" ] || [ -z "$config" ]; then echo "sennit.pc or the CMake package is missing"; exit 1; fi

mkdir "$work/author"
cd "$work/author"
includes=$(find "$work" -path '*/include/sennit/*.h')
if [ -z "$includes" ]; then echo "no public header installed"; exit 1; fi
{
    for header in $includes; do echo "#include <sennit/$(basename "$header")>"; done
    echo 'extern __attribute__((visibility("default"))) const enum sn_err author_value;'
    echo 'const enum sn_err author_value = SN_OK;'
} >author.c
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(author LANGUAGES C)
find_package(sennit 0.1 REQUIRED)
if(NOT SENNIT_PLUGIN_DIR)
  message(FATAL_ERROR "SENNIT_PLUGIN_DIR is not set")
endif()
add_library(author MODULE author.c)
target_link_libraries(author PRIVATE sennit::plugin_api)
target_compile_options(author PRIVATE -Wall -Wextra -Wpedantic -Werror)
CMAKE
{ cmake -G Ninja -S . -B by-cmake -Dsennit_DIR="$(dirname "$config")" && cmake --build by-cmake; } \
    >cmake.log 2>&1 || { cat cmake.log; exit 1; }
if [ ! -f by-cmake/libauthor.so ]; then echo "the plugin was not built"; exit 1; fi

export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$work PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1
# shellcheck disable=SC2046 # words are wanted here
cc -std=c11 -Wall -Wextra -Wpedantic -Werror -fPIC -shared $(pkg-config --cflags sennit) \
    $(pkg-config --libs sennit) -o author.so author.c
if [ -z "$(pkg-config --variable=plugindir sennit)" ]; then echo "no plugindir in sennit.pc"; exit 1; fi
if [ -n "$(pkg-config --libs sennit)" ]; then echo "a plugin must link nothing"; exit 1; fi
