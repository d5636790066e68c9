# SPDX-License-Identifier: Apache-2.0
"""Plugins in running agents: those that are allowed run and are asked with `call`; the others are marked as failed,
with the reason, and the agent runs on."""
import json
import os
import re
import shutil

import harness
from harness import check, check_equal, wait_until

OTHER = "a" * 64


def built(lab, *names):
    """A file of the build that the program belongs to."""
    return os.path.realpath(os.path.join(os.path.dirname(lab.sennit), "..", *names))


def trial(lab, name):
    return built(lab, "tests", "net", "plugins", name + ".so")


def sample(lab, name):
    return built(lab, "tests", "unit", "plugin", "samples", name + ".so")


def digest(lab, path):
    text = lab.run("plugins", "--hash", path).strip()
    with open(path, "rb") as file:
        check_equal(text, harness.sha256(file.read()), "digest of %s" % path)
    return text


def lone(lab, plugins, settings=""):
    """An agent with these entries under `plugins:`."""
    port = harness.free_port()
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n" % port)
    hub = lab.agent("paris/hub")
    hub.edit(lambda text: text + settings + "plugins:\n" + "".join("  - %s\n" % json.dumps(entry)
                                                                   for entry in plugins))
    return hub


def state(agent, name):
    return next(entry for entry in agent.view("plugins") if entry["name"] == name)


def call(agent, *words):
    return agent.command("call", *words)


def answer(agent, *words):
    done = call(agent, *words)
    check(done.returncode == 0, "call", words, "exit status", done.returncode, done.stderr)
    return done.stdout


def no_answer(agent, status, reason, *words):
    done = call(agent, *words)
    check_equal((done.returncode, done.stdout), (status, ""), "call %s: %s" % (words[:2], done.stderr))
    check(reason in done.stderr, "call", words[:2], "said", done.stderr, "not", reason)
    return done.stderr


def test_call(lab):
    """Questions within an agent and between two, as far as the access rules let them."""
    rules = ("plugins:\n  - {name: echo, at: \"*\", config: {max_bytes: 196608}}\n"
             "access:\n  - {to: \"paris/hub:echo\", types: [echo.say], from: [amsterdam/edge]}\n")
    hub, edge = lab.pair(rules)
    check_equal(answer(edge, "paris/hub:echo", "echo.say", "{\"a\": [1, 2.5, \"x\"]}"),
                "{\"a\": [1, 2.5, \"x\"]}\n", "the answer as it was sent")
    check_equal(answer(edge, ":echo", "echo.say"), "null\n", "without a payload")
    check_equal(answer(hub, "paris/hub:echo", "echo.say", "7"), "7\n", "by its own name")
    whole = json.loads(answer(edge, "paris/hub:echo", "echo.say", "true", "--json"))
    check_equal((whole["from"], whole["type"], whole["payload"]), ("paris/hub:echo", "echo.said", True), whole)
    check(whole["us"] > 0, whole)
    # The rule is for one direction, one type and one actor.
    said = no_answer(hub, 1, "denied", "amsterdam/edge:echo", "echo.say")
    check("{to: \"amsterdam/edge:echo\", types: [echo.say], from: [paris/hub]}" in said, "which rule?", said)
    no_answer(edge, 1, "denied", "paris/hub:echo", "echo.other")
    no_answer(edge, 1, "denied", "paris/hub:control", "echo.say")
    no_answer(edge, 1, "knows no agent", "tokyo/none:echo", "echo.say")
    no_answer(edge, 1, "no actor nobody", ":nobody", "echo.say")
    no_answer(edge, 1, "timed out", ":echo", "echo.other", "--timeout", "200")
    # What is refused here and now.
    for reason, words in (("no JSON", (":echo", "echo.say", "{no")), ("no JSON", (":echo", "echo.say", "")),
                          ("no JSON", (":echo", "echo.say", "1 2")), ("more than 8 levels", (":echo", "echo.say", "[" * 9 + "]" * 9)),
                          ("SITE/AGENT:ACTOR", ("echo", "echo.say")), ("SITE/AGENT:ACTOR", ("paris/hub", "echo.say")),
                          ("labels with dots", (":echo", "Echo")), ("labels with dots", (":echo", "a" * 70)),
                          ("usage:", (":echo",)), ("--timeout", (":echo", "echo.say", "--timeout", "0")),
                          ("no such file", (":echo", "echo.say", "@" + lab.path("none")))):
        no_answer(edge, 2, reason, *words)
    # As much as a message takes, and no byte more.
    most = "\"%s\"" % ("x" * (192 * 1024 - 2))
    check_equal(answer(edge, "paris/hub:echo", "echo.say", "@" + lab.write("most", most)), most + "\n", "192 KiB")
    no_answer(edge, 2, "at most 196608", ":echo", "echo.say", "@" + lab.write("more", most + " "))
    hub.stop()
    no_answer(edge, 1, "timed out", "paris/hub:echo", "echo.say", "--timeout", "300")
    edge.stop()
    check_equal(call(edge, ":echo", "echo.say").returncode, 3, "without an agent")


def test_no_actor(lab):
    """An actor that a rule allows, and that nobody provides."""
    hub, edge = lab.pair("access:\n  - {to: \"paris/hub:echo\", types: [\"*\"], from: [\"*\"]}\n")
    no_answer(edge, 1, "no such actor: paris/hub has none called echo", "paris/hub:echo", "echo.say")
    check_equal((hub.view("plugins"), edge.command("plugins").stdout), ([], "none\n"), "no plugins at all")


def test_payloads(lab):
    """Whatever an actor answers is printed as one JSON value that no terminal obeys."""
    hub = lone(lab, [{"name": "talk", "path": trial(lab, "talk"), "sha256": digest(lab, trial(lab, "talk"))}]).start()
    for kind, wanted in (("json", " [1, {\"a\": null}]"), ("msgpack", "{\"a\":1}"), ("text", "{\"text\":\"hello\"}"),
                         ("letter", "{\"text\":\"h\"}"), ("binary", "{\"base64\":\"//4AAQ==\"}"), ("empty", "null"),
                         ("control", "\"\\u007f\\u009b31m\"")):
        check_equal(answer(hub, ":talk", "talk." + kind), wanted + "\n", kind)
        whole = json.loads(answer(hub, ":talk", "talk." + kind, "--json"))
        check_equal(whole["payload"], json.loads(wanted), kind)


def test_metrics_of_others(lab):
    """An index beyond the plugin's own table is counted and told, and changes nothing."""
    hub = lone(lab, [{"name": "talk", "path": trial(lab, "talk")}, {"name": "echo"}], "plugins_allow: any\n").start()
    before = {entry["name"]: entry["value"] for entry in hub.view("metrics")}
    answer(hub, ":talk", "talk.count")
    after = {entry["name"]: entry["value"] for entry in hub.view("metrics")}
    changed = {name for name in after if after[name] != before[name]}
    check_equal(after["talk.asked"], 1, "its own")
    check_equal(after["actor.wrong_metrics"], 2, "counted")
    check(not {name for name in changed if name.startswith("echo.")}, "metrics of echo changed", changed)
    hub.wait_line("METRIC-UNKNOWN.*index=1 metrics=1", 5)


def test_failures(lab):
    """Nothing that is wrong with a plugin keeps the agent, or the other plugins, from running."""
    copy = lab.path("lib")
    os.mkdir(copy)
    with open(sample(lab, "good"), "rb") as file:
        data = file.read()
    with open(os.path.join(copy, "cut.so"), "wb") as file:
        file.write(data[:900])
    lab.write("lib/text.so", "no shared object\n")
    for name in os.listdir(copy):
        os.chmod(os.path.join(copy, name), 0o644)
    wrong = {"wrong-magic": "not a plugin descriptor", "wrong-major": "plugin ABI", "newer-minor": "plugin ABI",
             "short-struct": "descriptor has 24 bytes", "wrong-name": "calls itself `other`",
             "no-symbol": "does not export `sn_plugin`", "not-linked": "sn_sample_missing"}
    entries = [{"name": name, "path": sample(lab, name)} for name in wrong]
    wrong.update({"tunel": "did you mean `tunnel`", "gone": "no such thing", "cut": "cut short", "text": "not a shared object",
                  "clash": "another actor called `ping`", "doubt": "its own check", "talk-copy": "metrics"})
    entries += [{"name": "tunel"}, {"name": "gone", "path": "/nowhere/gone.so"},
                {"name": "cut", "path": copy + "/cut.so"}, {"name": "text", "path": copy + "/text.so"},
                {"name": "clash", "path": trial(lab, "clash")}, {"name": "talk-copy", "path": trial(lab, "talk-copy")},
                {"name": "doubt", "path": trial(lab, "doubt"), "config": {"key": 1}},
                {"name": "stumble", "path": trial(lab, "stumble")}, {"name": "echo"}]
    hub = lone(lab, entries, "plugins_allow: any\n").start()
    hub.wait_line("PLUGIN-FAILED.*wrong-magic.*cause=.*descriptor", 5)
    for name, cause in wrong.items():
        entry = state(hub, name)
        check_equal(entry["state"], "failed", name)
        check(cause in entry["cause"], name, "cause:", entry["cause"])
        check_equal(entry["actors"], [], "actors of %s" % name)
    # Its actor is started again a few times before it is given up.
    hub.wait_line("PLUGIN-FAILED.*stumble.*failed too often", 20)
    entry = wait_until(lambda: state(hub, "stumble")["state"] == "failed" and state(hub, "stumble"), 10, "stumble failed")
    check("its actor stumble failed too often" in entry["cause"], entry)
    check_equal(entry["actors"], [{"name": "stumble", "state": "failed"}], "actors of stumble")
    echo = state(hub, "echo")
    check_equal((echo["state"], echo["cause"], echo["actors"]), ("running", "", [{"name": "echo", "state": "running"}]), "echo")
    check_equal(echo["sha256"], digest(lab, echo["file"]), "digest of echo")
    check_equal([message["type"] for message in echo["messages"]], ["echo.say"], "messages of echo")
    check(echo["version"] and echo["abi"], echo)
    check_equal(answer(hub, ":echo", "echo.say", "1"), "1\n", "echo answers")
    hub.check_ping("paris/hub")
    done = hub.command("plugins")
    check("state:   running" in done.stdout and "echo.say" in done.stdout, "for people:", done.stdout)
    # `check` says all of it before anything runs.
    done = lab.command("check", hub.file)
    check_equal(done.returncode, 2, "check of the same file")
    for name, cause in wrong.items():
        if name not in ("clash", "talk-copy"):  # these fail beside others only
            check(cause in done.stderr, name, "is not found by check:", done.stderr)
    hub.stop()


def test_allowed(lab):
    """Which file is loaded: own ones, or those whose digest is listed, and none that others may write to."""
    hub = lone(lab, [])
    hub.edit(lambda text: text.replace("plugins:\n", ""))
    head = open(hub.file).read()
    own = hub.path("lib", "talk.so")
    os.mkdir(hub.path("lib"))
    shutil.copy(trial(lab, "talk"), own)
    os.chmod(own, 0o644)
    right = digest(lab, own)

    def run(settings, entry, mode=0o644):
        os.chmod(own, mode)
        with open(hub.file, "w") as file:
            file.write("%s%splugins:\n  - %s\n" % (head, settings, json.dumps(entry)))
        checked = lab.command("check", hub.file)
        hub.start()
        view = state(hub, entry["name"])
        hub.stop()
        check_equal(checked.returncode, 0 if view["state"] == "running" else 2, "check of %s: %s" % (entry, checked.stderr))
        return view["state"], view["cause"] + "; " + view["hint"]

    entry = {"name": "talk", "path": "lib/talk.so"}  # relative to the file, not to where the agent was started
    got, why = run("", entry)
    check(got == "failed" and "nothing allows it" in why and right in why, got, why)
    for settings, more, wanted in (("", {"sha256": right}, "running"), ("", {"sha256": [OTHER, right.upper()]}, "running"),
                                   ("", {"sha256": OTHER}, "failed"), ("plugins_allow: any\n", {}, "running"),
                                   ("plugins_allow: any\n", {"sha256": OTHER}, "failed"),
                                   ("plugins_allow: listed\n", {"sha256": right}, "running"),
                                   ("plugins_allow: listed\n", {}, "failed")):
        got, why = run(settings, dict(entry, **more))
        check_equal(got, wanted, "%s %s: %s" % (settings, more, why))
    check_equal(run("", {"name": "echo"})[0], "running", "an own one")
    got, why = run("plugins_allow: listed\n", {"name": "echo"})
    check(got == "failed" and "sha256" in why, got, why)
    for mode in (0o664, 0o646):
        got, why = run("", dict(entry, sha256=right), mode)
        check(got == "failed" and "chmod go-w" in why, oct(mode), got, why)
    os.chmod(hub.path("lib"), 0o777)
    got, why = run("", dict(entry, sha256=right))
    check(got == "failed" and "chmod go-w" in why, got, why)


def test_reload(lab):
    """Beside one that failed, another one takes a changed configuration; which file a plugin is needs a restart."""
    hub = lone(lab, [{"name": "gone", "path": "/nowhere/gone.so"}, {"name": "echo", "config": {"max_bytes": 3}}],
               "plugins_allow: any\n").start()
    check_equal(answer(hub, ":echo", "echo.say", "123"), "123\n", "before")
    hub.edit(lambda text: text.replace("\"max_bytes\": 3", "\"max_bytes\": 2"))
    done = hub.command("reload")
    check_equal(done.returncode, 0, "reload: %s" % done.stderr)
    check_equal((answer(hub, ":echo", "echo.say", "123"), answer(hub, ":echo", "echo.say", "12")), ("null\n", "12\n"), "after")
    hub.edit(lambda text: text.replace("/nowhere/", "/elsewhere/"))
    done = hub.command("reload")
    check(done.returncode == 2 and "restart" in done.stderr, "another file:", done.returncode, done.stderr)
    check_equal([entry["state"] for entry in hub.view("plugins")], ["failed", "running"], "states")
    hub.stop()


def test_fleet_of_other_machines(lab):
    """What is wrong with a fleet is refused; that this machine has another file, or none, is not."""
    fleet = ("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:7400\"]}}\n"
             "plugins:\n  - {name: talk, at: \"*\", path: \"%s\", sha256: %s}\n")
    for path, sha256, status, said in ((trial(lab, "talk"), OTHER, 0, "warning: .*not the file"),
                                       ("/nowhere/talk.so", OTHER, 0, "warning: .*nowhere"),
                                       ("lib/talk.so", OTHER, 0, "warning: not checked here"),
                                       (trial(lab, "talk"), digest(lab, trial(lab, "talk")), 0, "^$"),
                                       (sample(lab, "no-symbol"), digest(lab, sample(lab, "no-symbol")), 2, "sn_plugin"),
                                       (trial(lab, "talk"), "x" * 64, 2, "hexadecimal")):
        folder = lab.fleet(fleet % (path, sha256), render=False)
        done = lab.command("check", os.path.join(folder, "fleet.yaml"))
        check_equal(done.returncode, status, "%s %s: %s" % (path, sha256, done.stderr))
        check(re.search(said, done.stderr), "check of", path, "said:", done.stderr)


def test_overwritten(lab):
    """A plugin that is allowed by its digest runs on as it was, whatever becomes of its file."""
    file = lab.path("talk.so")
    shutil.copy(trial(lab, "talk"), file)
    os.chmod(file, 0o644)
    hub = lone(lab, [{"name": "talk", "path": file, "sha256": digest(lab, file)}]).start()
    with open(file, "r+b") as out:
        out.truncate(0)
    check_equal(answer(hub, ":talk", "talk.text"), "{\"text\":\"hello\"}\n", "after it was cut")
    check_equal(state(hub, "talk")["state"], "running", "state")
    hub.stop()


if __name__ == "__main__":
    harness.main([test_call, test_no_actor, test_payloads, test_metrics_of_others, test_failures, test_allowed,
                  test_reload, test_fleet_of_other_machines, test_overwritten])
