#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The plugin in a real agent: it is loaded, refuses what its configuration refuses, and answers.
#
# usage: test.sh ECHO.so        the environment variable SENNIT names the program; else it is the one in PATH
set -eu
plugin=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
sennit=${SENNIT:-sennit}
work=$(mktemp -d)
agent=
end() {
    if [ -n "$agent" ]; then kill "$agent" 2>/dev/null && wait "$agent" || :; fi
    rm -rf "$work"
}
trap end EXIT
cd "$work"

fail() {
    printf "%s\n" "$1"
    cat log 2>/dev/null || :
    exit 1
}

# answers WANTED WORD...: what `sennit call` prints
answers() {
    wanted=$1
    shift
    got=$("$sennit" call -c agents/home/one/agent.yaml "$@") || fail "sennit call $* failed"
    [ "$got" = "$wanted" ] || fail "sennit call $*: $got, not $wanted"
}

# A mesh of one agent that runs the plugin, allowed by its digest.
"$sennit" init mesh --mesh trial >/dev/null
cat >mesh/fleet.yaml <<END
mesh: trial
authority: authority.key
sites:
  home: {one: {}}
plugins:
  - {name: echo, at: home/one, path: "$plugin", sha256: "$("$sennit" plugins --hash "$plugin")", config: {max_bytes: 20}}
END
"$sennit" check mesh/fleet.yaml >/dev/null
sed 's/max_bytes: 20/max_bytes: 2, min_bytes: 3/' mesh/fleet.yaml >mesh/bad.yaml
if "$sennit" check mesh/bad.yaml 2>log; then fail "a configuration that contradicts itself is accepted"; fi
grep -q 'min_bytes. is above' log || fail "it is refused for another reason"
"$sennit" render mesh/fleet.yaml --out agents >/dev/null

"$sennit" agent -c agents/home/one/agent.yaml 2>log &
agent=$!
for _ in $(seq 300); do
    if grep -q '^ready$' log; then break; fi
    kill -0 "$agent" 2>/dev/null || fail "the agent has ended"
    sleep 0.1
done
"$sennit" plugins -c agents/home/one/agent.yaml --json >plugins.json
grep -q '"state":"running"' plugins.json || fail "the plugin does not run: $(cat plugins.json)"

answers '{"hello":"world"}' home/one:echo echo.say '{"hello":"world"}'
answers 'null' :echo echo.say
answers 'null' :echo echo.say '"more than twenty bytes"'
"$sennit" call -c agents/home/one/agent.yaml --json :echo echo.say '"more than twenty bytes"' |
    grep -q '"type":"echo.refused"' || fail "what is too long is not refused"
"$sennit" metrics -c agents/home/one/agent.yaml | grep -q 'echo.said .* 2 ' || fail "it was not counted"

kill "$agent"
wait "$agent" || fail "the agent did not end well"
agent=
printf "good\n"
