#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The program as scripts see it: exit status, what goes to which output, plugins found beside it.
# usage: program.sh PROGRAM FOLDER-OF-EXAMPLES
set -eu
program=$1
config=$2
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

# A fleet's plugins: those that are here have their part checked, a typo is asked about.
cat mesh/trial.yaml >mesh/plugins.yaml
cat >>mesh/plugins.yaml <<END
plugins:
  - {name: soack, at: "paris/*"}
END
expect 0 check mesh/plugins.yaml
says err ':12: plugins[0].name: warning: there is no plugin called soack'
says err 'did you mean `soak`?'
expect 0 check --reference tunnel
says out '| `forwards.NAME.open_wait_ms` |'

# The shipped fleets, rendered: each of their agents could start.
for name in two-sites annotated; do
    mkdir "$name"
    sed '/^ *key: "ed25519:/d' "$config/$name.yaml" >"$name/fleet.yaml"
    expect 0 keygen "$name/authority.key"
    expect 0 check "$name/fleet.yaml"
    [ ! -s err ] || fail "$name.yaml is warned about"
    expect 0 render "$name/fleet.yaml" --out "$name/out"
    expect 0 check "$name"/out/*/*/agent.yaml
    [ "$(wc -l <out)" -ge 2 ] || fail "$name.yaml: too few agents"
done

# A result that cannot be written is no success.
if [ -w /dev/full ]; then
    for words in version --help "check mesh/trial.yaml" "check --reference fleet" "keygen lost.key" \
        "render mesh/trial.yaml --out agents" "render --help"; do
        status=0
        # shellcheck disable=SC2086 # the words are meant
        "$program" $words >/dev/full 2>err || status=$?
        [ "$status" -eq 1 ] || fail "sennit $words >/dev/full: exit status $status, not 1"
        says err "the output cannot be written"
    done
fi
"$program" --help 2>err | :
[ ! -s err ] || fail "a reader that went away is complained about"

# Every view says what its columns mean.
for view in status peers forwards streams actors plugins ledger metrics; do
    expect 0 "$view" --help
    [ "$(wc -l <out)" -ge 4 ] || fail "$view --help says too little"
done
for command in "" $("$program" --help | awk '/^  [a-z]/ { print $1 }'); do
    # shellcheck disable=SC2086 # no word at all is meant, too
    expect 0 $command --help
    awk 'length > 100 { exit 1 }' out || fail "$command --help is too wide"
done

# From another folder, with nothing running there.
cd agents/paris/hub
expect 3 status
says err "run/control.sock"
says err "sennit agent -c agent.yaml"
expect 3 forwards --json
expect 3 ping amsterdam/edge --count 1
expect 3 why amsterdam/edge
expect 2 ping edge
expect 2 why edge
expect 2 status --jsno
says err 'did you mean `--json`?'
expect 2 peers -c none.yaml
expect 2 status -c "$folder/mesh/trial.yaml"
says err "this is a fleet file"
expect 2 agent -c "$folder/mesh/trial.yaml"
says err "trial.yaml:3:1: .: this is a fleet file"
[ "$(wc -l <err)" -eq 1 ] || fail "more than one line about a fleet file"
chmod 644 node.key
expect 2 agent -c agent.yaml
says err "sennit agent: node.key may be read by others"
says err "chmod 600"
rm node.key
expect 2 agent -c agent.yaml
says err "sennit agent: node.key: there is no such file; make it on this machine with"
expect 2 agent -c none.yaml
says err "sennit agent: none.yaml: there is no such file"
