#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: soak.sh SENNIT SCENARIO.yaml
# Runs the scenario in a folder of its own. When it fails shows the verdict and the end of all logs.
set -u

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'kill -TERM "$pid" 2>/dev/null; wait "$pid"; exit 1' INT TERM

"$1" soak "$2" --out "$folder/out" &
pid=$!
wait "$pid"
status=$?
if [ "$status" -ne 0 ]; then
    cat "$folder/out/verdict.json"
    find "$folder/out" -name '*.log' -print -exec tail -n 60 {} \;
fi
exit "$status"
