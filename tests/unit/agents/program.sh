#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The program as scripts see it: exit status, what goes to which output, plugins found beside it.
# usage: program.sh PROGRAM
set -eu
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
    echo "$1" >&2
    cat out err >&2
    exit 1
}

# expect STATUS COMMAND...: runs it; the outputs are left in `out` and `err`.
expect() {
    wanted=$1
    shift
    status=0
    "$program" "$@" >out 2>err </dev/null || status=$?
    [ "$status" -eq "$wanted" ] || fail "sennit $*: exit status $status, not $wanted"
}

# says FILE TEXT
says() {
    grep -qF -- "$2" "$1" || fail "no \"$2\" in $1"
}

expect 2
says out "usage: sennit COMMAND"
expect 0 --help
expect 0 render --help
says out "--valid DAYS"
expect 0 version
says out "sennit "
expect 0 --version
expect 2 rednr
says err 'did you mean `render`?'

expect 0 init mesh --mesh trial
expect 1 init mesh --mesh trial
says err "exists already"
expect 0 check mesh/trial.yaml
[ ! -s err ] || fail "a good fleet has findings"
expect 0 render mesh/trial.yaml --out agents
[ "$(wc -l <out)" -eq 2 ] || fail "not a line an agent"
expect 0 check agents/paris/hub/agent.yaml agents/amsterdam/edge/agent.yaml

# The plugin's own schema is asked, and points into the file.
sed 's/connect_wait_ms/conect_wait_ms/' agents/paris/hub/agent.yaml >agents/paris/hub/bad.yaml
line=$(grep -n conect_wait_ms agents/paris/hub/bad.yaml | cut -d: -f1)
expect 2 check agents/paris/hub/bad.yaml
says err "agents/paris/hub/bad.yaml:$line:"
says err 'did you mean `connect_wait_ms`?'
sed 's/name: "tunnel"/name: "tunel"/' agents/paris/hub/agent.yaml >agents/paris/hub/bad.yaml
expect 2 check agents/paris/hub/bad.yaml
says err "there is no plugin called tunel"

# From another folder, with nothing running there.
cd agents/paris/hub
expect 3 status
says err "run/control.sock"
says err "sennit agent -c agent.yaml"
expect 3 forwards --json
expect 3 ping amsterdam/edge --count 1
expect 2 ping edge
expect 2 status --jsno
says err 'did you mean `--json`?'
expect 2 peers -c none.yaml
chmod 644 node.key
expect 2 agent -c agent.yaml
says err "chmod 600"
