#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A new plugin from the installed template, with nothing else of Sennit than what is installed: built by make and by
# CMake, run in an agent that finds it by `path:`, and installed beside the program's own plugins; each answers.
#
# usage: test_kit.sh BUILD-FOLDER
set -eu
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset DESTDIR MAKEFLAGS MAKELEVEL CFLAGS LDFLAGS
command -v pkg-config >/dev/null && command -v make >/dev/null || exit 77

step() {
    name=$1
    shift
    "$@" >"$work/log" 2>&1 || {
        echo "failed: $name"
        cat "$work/log"
        exit 1
    }
}

step "install" cmake --install "$build" --prefix "$work/prefix"
pc=$(find "$work/prefix" -name sennit.pc)
PATH=$work/prefix/bin:$PATH
PKG_CONFIG_PATH=${pc%/*}
export PATH PKG_CONFIG_PATH
template=$(pkg-config --variable=templatedir sennit)
plugins=$(pkg-config --variable=plugindir sennit)
for folder in "$template" "$plugins"; do
    case $folder in "$work/prefix"/*) ;; *) echo "$folder is not in the prefix"; exit 1 ;; esac
    if [ ! -d "$folder" ]; then echo "there is no $folder"; exit 1; fi
done

# As it is.
cp -r "$template" "$work/echo"
cd "$work/echo"
step "make check" make check CFLAGS="-O2 -Wall -Wextra -Wpedantic -Wconversion -Werror"
step "cmake" cmake -B by-cmake -S . -DCMAKE_C_FLAGS="-Wpedantic -Werror"
step "cmake --build" cmake --build by-cmake
step "ctest" ctest --test-dir by-cmake --output-on-failure
for file in echo.so by-cmake/echo.so; do
    symbols=$(nm -D --defined-only "$file" | awk '{ print $3 }' | grep -v '^_' || :)
    if [ "$symbols" != sn_plugin ]; then echo "$file exports $symbols"; exit 1; fi
    if readelf -d "$file" | grep NEEDED | grep -v 'libc\.so'; then echo "$file needs libraries"; exit 1; fi
done

# Under a name of its own, installed: then the name alone is enough.
cp -r "$template" "$work/parrot"
cd "$work/parrot"
mv echo.c parrot.c
sed -i 's/echo/parrot/g' parrot.c Makefile CMakeLists.txt test.sh
step "make check of the copy" make check
step "make install" make install
"$work/prefix/bin/sennit" init "$work/mesh" --mesh trial >/dev/null
cat >"$work/mesh/fleet.yaml" <<END
mesh: trial
authority: authority.key
sites:
  home: {one: {}}
plugins:
  - {name: parrot, at: home/one}
END
step "check" sennit check "$work/mesh/fleet.yaml"
if grep -q warning "$work/log"; then cat "$work/log"; exit 1; fi
sennit check --reference parrot | grep -q max_bytes || { echo "no reference of the copy"; exit 1; }
