# SPDX-License-Identifier: Apache-2.0
"""usage: test_command.py SENNIT

What `sennit soak` does when something goes wrong: each fault shows in the exit status and in the verdict,
nothing is written outside of the folder, and no process is left.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SENNIT = os.path.abspath(sys.argv[1])
FLAP = ("scenario: flap\nup_min_ms: 200\nup_max_ms: 300\nstop_min_ms: 9000\nstop_max_ms: 9000\n"
        "bytes: 65536\n")
ENDLESS = "scenario: delivery\nmessages: 60000\nsize_min: 4096\nbusy: 1\n"


def processes_of(folder):
    """Processes that have the folder in their command line, by number."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(folder in word for word in words):
            found[int(pid)] = words
    return found


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def state_of(pid):
    """As the kernel shows it; "" when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def is_alive(pid):
    """Not so much as a zombie, which its next parent may not have waited for."""
    return state_of(pid) not in ("", "Z")


def wait_for(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.out = os.path.join(self.folder, "out")

    def tearDown(self):
        left = processes_of(self.folder)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder)
        self.assertEqual(left, {}, "processes are left")

    def scenario(self, text):
        path = os.path.join(self.folder, "scenario.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_soak(self, text, *more):
        return subprocess.run([SENNIT, "soak", self.scenario(text), "--out", self.out, *more],
                              capture_output=True, text=True, check=False, timeout=100)

    def start_soak(self, text, **more):
        return subprocess.Popen([SENNIT, "soak", self.scenario(text), "--out", self.out],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def agents(self):
        return sorted(pid for pid, words in processes_of(self.out).items() if words[1] == "agent")

    def verdict(self):
        with open(os.path.join(self.out, "verdict.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_pass_leaves_key_and_verdict_only(self):
        done = self.run_soak("scenario: delivery\nmessages: 10\nsize_min: 16\n", "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(self.out)), ["authority.key", "verdict.json"])
        verdict = self.verdict()
        self.assertTrue(verdict["pass"])
        self.assertFalse(verdict["interrupted"])
        self.assertEqual(verdict["seed"], 7)
        self.assertEqual(verdict["sent"], 20)
        self.assertEqual(verdict["delivered"], 20)

    def test_control_class_and_kept_folders(self):
        done = self.run_soak("scenario: delivery\nmessages: 50\nsize_max: 900\nclass: control\n"
                             "dial: both\n", "--keep")
        self.assertEqual(done.returncode, 0, done.stderr)
        kept = os.listdir(os.path.join(self.out, "start-001"))
        self.assertEqual(sorted(kept), ["agents", "edge.log", "fleet.yaml", "hub.log", "render.log"])

    def test_bad_scenario_writes_nothing(self):
        done = self.run_soak("scenario: delivery\nmesages: 10\n")
        self.assertEqual(done.returncode, 2)
        self.assertIn("scenario.yaml:2:1: mesages: ", done.stderr)
        self.assertIn("did you mean `messages`?", done.stderr)
        self.assertFalse(os.path.exists(self.out))

    def test_used_folder_is_refused(self):
        os.mkdir(self.out)
        open(os.path.join(self.out, "mine"), "w", encoding="utf-8").close()
        done = self.run_soak("scenario: delivery\n")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(os.listdir(self.out), ["mine"])

    def test_killed_agent_is_a_failure(self):
        soak = self.start_soak(ENDLESS)
        wait_for("two agents", lambda: len(self.agents()) == 2)
        os.kill(self.agents()[0], signal.SIGKILL)
        _, stderr = soak.communicate(timeout=60)
        self.assertEqual(soak.returncode, 1, stderr)
        verdict = self.verdict()
        self.assertFalse(verdict["pass"])
        self.assertIn("ended with status 137", " ".join(verdict["failures"]))
        self.assertIn("hub.log", os.listdir(os.path.join(self.out, "start-001")))

    def test_time_out_is_a_failure(self):
        done = self.run_soak(ENDLESS + "timeout_ms: 1000\n")
        self.assertEqual(done.returncode, 1)
        verdict = self.verdict()
        self.assertIn("not done after 1000 ms", " ".join(verdict["failures"]))
        self.assertGreater(verdict["sent"], verdict["delivered"])

    def test_interrupt_ends_everything(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            soak = self.start_soak(ENDLESS)
            wait_for("two agents", lambda: len(self.agents()) == 2)
            children = children_of(soak.pid)
            self.assertEqual(len(children), 3)  # the busy one, too
            soak.send_signal(number)
            _, stderr = soak.communicate(timeout=60)
            self.assertEqual(soak.returncode, 1, stderr)
            verdict = self.verdict()
            self.assertTrue(verdict["interrupted"])
            self.assertEqual(verdict["failures"], ["start 1: interrupted"])
            self.assertEqual(verdict["failure_count"], 1)
            self.assertEqual(verdict["lost"], 0)
            for child in children:
                self.assertFalse(os.path.exists(f"/proc/{child}"))
            shutil.rmtree(self.out)


    def test_nothing_of_a_flap_outlives_a_kill(self):
        # Whatever the relay's state is, also while it is stopped.
        soak = self.start_soak(FLAP)
        stopped = []

        def is_relay_stopped():
            stopped[:] = [child for child in children_of(soak.pid) if state_of(child) == "T"]
            return bool(stopped)

        wait_for("a stopped relay", is_relay_stopped)
        children = children_of(soak.pid)
        self.assertEqual(len(children), 3)
        soak.kill()
        soak.communicate(timeout=60)
        wait_for("the end of all", lambda: not any(is_alive(child) for child in children), 10)

    def test_interrupt_ends_a_flap(self):
        soak = self.start_soak(FLAP)
        wait_for("agents and a relay", lambda: len(children_of(soak.pid)) == 3)
        children = children_of(soak.pid)
        soak.send_signal(signal.SIGINT)
        _, stderr = soak.communicate(timeout=60)
        self.assertEqual(soak.returncode, 1, stderr)
        self.assertEqual(self.verdict()["failures"], ["start 1: interrupted"])
        for child in children:
            self.assertFalse(os.path.exists(f"/proc/{child}"))

    def test_killed_agent_fails_a_flap(self):
        soak = self.start_soak(FLAP)
        wait_for("agents and a relay", lambda: len(children_of(soak.pid)) == 3)
        os.kill(self.agents()[0], signal.SIGKILL)
        _, stderr = soak.communicate(timeout=60)
        self.assertEqual(soak.returncode, 1, stderr)
        self.assertIn("ended with status 137", " ".join(self.verdict()["failures"]))

    def test_helpers_want_all_they_need(self):
        for words in (["--relay", "1"], ["--to", "1"], ["--side", "1"], ["--kib", "1"],
                      ["--relay", "0", "--to", "1"], ["--relay", "1", "--to", "65536"],
                      ["--busy", "1", "--relay", "1", "--to", "1"], ["--busy", "1", "x.yaml"]):
            done = subprocess.run([SENNIT, "soak", *words], capture_output=True, check=False,
                                  timeout=60)
            self.assertEqual(done.returncode, 2, words)

    def test_nothing_outlives_a_kill(self):
        soak = self.start_soak(ENDLESS)
        wait_for("two agents", lambda: len(self.agents()) == 2)
        children = children_of(soak.pid)
        self.assertEqual(len(children), 3)
        soak.kill()
        soak.communicate(timeout=60)
        wait_for("the end of all", lambda: not any(is_alive(child) for child in children), 10)

    def test_the_terminal_is_the_command_s(self):
        # Ctrl-C reaches the command's whole process group: not the agents, which it ends itself.
        soak = self.start_soak(ENDLESS, start_new_session=True)
        wait_for("two agents", lambda: len(self.agents()) == 2)
        os.killpg(soak.pid, signal.SIGINT)
        soak.communicate(timeout=60)
        self.assertEqual(self.verdict()["failures"], ["start 1: interrupted"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
