# SPDX-License-Identifier: Apache-2.0
"""What an agent does where the system gives it too little: it says so and does not start, or it serves those first
who can mend it; and whatever hangs, SIGTERM ends it."""
import ctypes
import os
import re
import resource
import signal
import subprocess
import threading
import time

import harness
from harness import check, check_equal, wait_until

UID = 45678  # nobody's: limits of threads are per user
PTRACE_ATTACH = 16
WALL = 0x40000000


def spawn_limited(agent, *limits, uid=None):
    """As agent.spawn(), with (resource, soft, hard) limits, as another user."""
    def prepare():
        for what, soft, hard in limits:
            resource.setrlimit(what, (soft, hard))
        if uid is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        harness._die_with_parent()
    check(not agent.is_running(), agent.name, "runs already")
    agent.lines = []
    agent.is_ended = False
    agent.process = subprocess.Popen([agent.lab.sennit, "agent", "-c", agent.file], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=prepare)
    threading.Thread(target=agent._read, args=(agent.process.stderr, agent.lines), daemon=True).start()
    return agent


def wait_output(agent):
    wait_until(lambda: agent.is_ended, 5, "its output ends")


def hand_over(lab, agent, uid):
    """Gives the agent's folder to the user; skips where that is not possible."""
    if os.geteuid() != 0:
        raise harness.Skip("only root can run an agent as another user")
    for path in (lab.folder, lab.path("fleet"), lab.path("fleet", "out"), os.path.dirname(agent.folder)):
        os.chmod(path, 0o711)
    for folder, _, names in os.walk(agent.folder):
        for name in ["."] + names:
            os.chown(os.path.join(folder, name), uid, uid)
    # Threads of that user that others run would count, too.
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat("/proc/" + pid).st_uid == uid:
                raise harness.Skip("user %d runs processes already" % uid)
        except OSError:
            continue
    probe = os.fork()
    if probe == 0:
        os.setgroups([])
        os.setuid(uid)
        os._exit(0 if os.access(lab.sennit, os.X_OK) and os.access(agent.file, os.R_OK) else 1)
    if os.waitpid(probe, 0)[1] != 0:
        raise harness.Skip("another user cannot run %s" % lab.sennit)


def two(lab, more="", edges=1):
    """A hub and edges that dial it, not started."""
    port = harness.free_port()
    names = ["edge%d" % index for index in range(edges)]
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n  amsterdam: {%s}\n"
              "settings: {reconnect: {min_ms: 20, max_ms: 100}}\n%s"
              % (port, ", ".join("%s: {links: [paris/hub]}" % name for name in names), more))
    return [lab.agent("paris/hub")] + [lab.agent("amsterdam/" + name) for name in names]


def check_refused(agent, pattern):
    """It ends with 1 and one line, and was never ready."""
    check_equal(agent.wait(10), 1, "exit status")
    wait_output(agent)
    check_equal(len(agent.lines), 1, "lines: %r" % agent.lines)
    check(re.search("^sennit agent: .*" + pattern, agent.lines[0]), agent.lines[0])


# --- Threads, memory ---------------------------------------------------------------------------------------------


def test_few_threads(lab):
    """nng and the pools need threads when a peer comes: an agent that cannot have them does not start."""
    hub, edge = two(lab)
    hand_over(lab, hub, UID)
    edge.start()
    refused = []
    for most in (2, 6, 12, 20, 30, 200):
        spawn_limited(hub, (resource.RLIMIT_NPROC, most, most), uid=UID)
        wait_until(lambda: hub.is_ended or hub.has_line("^ready$"), 20, "it starts or ends")
        if hub.is_ended:
            refused.append(most)
            check_refused(hub, "threads .*ulimit -u.*TasksMax=")
            continue
        edge.wait_up(hub.name)
        edge.check_ping(hub.name)
        hub.stop()
    check(2 in refused and 12 in refused and 200 not in refused, "refused with", refused)


def test_little_memory(lab):
    """The same where address space is short: it starts and works, or does not start."""
    if lab.is_sanitized:
        raise harness.Skip("a sanitizer needs all of the address space")
    hub, edge = two(lab)
    edge.start()
    refused = []
    for mib in (100, 160, 240, 4000):
        spawn_limited(hub, (resource.RLIMIT_AS, mib << 20, mib << 20))
        wait_until(lambda: hub.is_ended or hub.has_line("^ready$"), 20, "it starts or ends")
        if hub.is_ended:
            refused.append(mib)
            check_equal(hub.wait(), 1, "exit status")
            check(any(line.startswith("sennit agent: ") for line in hub.lines), hub.lines)
            continue
        edge.wait_up(hub.name)
        edge.check_ping(hub.name)
        hub.stop()
    check(100 in refused and 4000 not in refused, "refused with", refused)


# --- Descriptors ---------------------------------------------------------------------------------------------------


def test_few_descriptors(lab):
    hub = two(lab)[0]
    for most in (10, 16, 24):
        spawn_limited(hub, (resource.RLIMIT_NOFILE, most, most))
        check_refused(hub, "descriptors.*ulimit -n.*LimitNOFILE=")
    spawn_limited(hub, (resource.RLIMIT_NOFILE, 64, 64)).wait_line("^ready$")
    hub.stop()


def echo(conn):
    while True:
        data = conn.recv(65536)
        if not data:
            return
        conn.sendall(data)


def tunnels_of(lab):
    server = lab.server(echo)
    server.sock.listen(1000)
    return ("targets:\n  echo: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n"
            "forwards:\n  echo: {at: amsterdam/edge0, listen: \"127.0.0.1:0\", target: echo}\n" % server.port)


def fill(address, count):
    """Connections that were echoed to, and how long those took that were not."""
    served, refused = [], []
    for _ in range(count):
        begin = time.monotonic()
        try:
            sock = harness.connect(address, 3)
            sock.settimeout(3)
            sock.sendall(b"x")
            if sock.recv(1) == b"x":
                served.append(sock)
                continue
        except OSError:
            pass
        refused.append(time.monotonic() - begin)
    return served, refused


def test_soft_limit_is_raised(lab):
    hub, edge = two(lab, tunnels_of(lab))
    hub.start()
    spawn_limited(edge, (resource.RLIMIT_NOFILE, 64, 1000)).wait_line("^ready$")
    edge.wait_up(hub.name)
    served, refused = fill(edge.bound("echo"), 100)
    check_equal((len(served), len(refused)), (100, 0), "tunnels")
    for sock in served:
        sock.close()


def test_tunnels_leave_a_reserve(lab):
    """Clients of tunnels use up what there is: the next ones are told at once, the operator and the mesh still get in."""
    hub, edge = two(lab, tunnels_of(lab))
    hub.start()
    spawn_limited(edge, (resource.RLIMIT_NOFILE, 80, 80)).wait_line("^ready$")
    edge.wait_up(hub.name)
    served, refused = fill(edge.bound("echo"), 100)
    check(len(served) >= 20, "only", len(served), "were served")
    check(len(refused) >= 20, "nobody was turned away")
    check(max(refused) < 1.0, "turned away after", max(refused), "s")
    edge.wait_line("DESCRIPTORS-SHORT .*ulimit -n", 5)
    check_equal(edge.command("status").returncode, 0, "status")
    edge.check_ping(hub.name)
    # The session's connections are lost and come back, while clients press for places.
    hub.signal(signal.SIGSTOP)
    wait_until(lambda: not edge.is_up(hub.name), 30, "the edge has noticed")
    hub.signal(signal.SIGCONT)
    edge.wait_up(hub.name, 20)
    edge.check_ping(hub.name)
    for sock in served:
        sock.close()
    wait_until(lambda: len(fill(edge.bound("echo"), 1)[0]) == 1, 15, "a client is served again")


def test_dialing_leaves_a_reserve(lab):
    """The same at the end that dials for the tunnels: another agent still joins."""
    hub, edge, late = two(lab, tunnels_of(lab), edges=2)
    spawn_limited(hub, (resource.RLIMIT_NOFILE, 80, 80)).wait_line("^ready$")
    edge.start().wait_up(hub.name)
    address = edge.bound("echo")
    socks = []
    for _ in range(100):
        sock = harness.connect(address, 3)
        sock.sendall(b"x")
        socks.append(sock)
    socks[0].settimeout(5)
    check_equal(socks[0].recv(1), b"x", "the first one is served")
    late.start().wait_up(hub.name)
    late.check_ping(hub.name)
    check_equal(hub.command("status").returncode, 0, "status")
    for sock in socks:
        sock.close()


# --- Signals -------------------------------------------------------------------------------------------------------


def blocks(pid, number):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        mask = int(re.search(r"SigBlk:\s*([0-9a-f]+)", file.read()).group(1), 16)
    return mask >> (number - 1) & 1


def start_until_main(agent):
    """Starts it, and returns when its main function runs. Before that no program can do anything."""
    agent.spawn()
    while not blocks(agent.pid, signal.SIGTERM) and agent.is_running():
        pass


def test_signals_while_starting(lab):
    """Whenever SIGTERM comes: the end is orderly. A SIGHUP before `ready` is nothing."""
    hub = two(lab)[0]
    for index in range(40):
        start_until_main(hub)
        time.sleep(index * 0.001)
        hub.signal((signal.SIGTERM, signal.SIGINT)[index % 2])
        check_equal(hub.wait(15), 0, "exit status, %d ms after main" % index)
        check(not os.path.exists(hub.path("run", "control.sock")), "its socket is left")
    for index in range(5):
        start_until_main(hub)
        hub.signal(signal.SIGHUP)
        hub.wait_line("^ready$")
        check_equal(hub.view("status")["pid"], hub.pid, "pid")
        check(not hub.has_line("RELOAD"), hub.lines)
        hub.stop()


def attach(tid):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_ATTACH, tid, None, None) != 0:
        raise harness.Skip("ptrace is not allowed here")
    os.waitpid(tid, WALL)


def test_hanging_worker(lab):
    """A worker that never comes back: the main thread gives up, with 1, in time."""
    port = harness.free_port()
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
              "settings: {drain_ms: 300, workers: 2}\n" % port)
    hub = lab.agent("paris/hub")
    for twice in (False, True):
        hub.start()
        tids = {}
        for tid in os.listdir("/proc/%d/task" % hub.pid):
            with open("/proc/%d/task/%s/comm" % (hub.pid, tid), encoding="ascii") as file:
                tids[file.read().strip()] = int(tid)
        workers = [tid for name, tid in tids.items() if name.startswith("worker-")]
        check(workers, "no worker among", tids)
        for tid in workers:
            attach(tid)
        begin = time.monotonic()
        hub.signal(signal.SIGTERM)
        if twice:
            hub.signal(signal.SIGTERM)
        # We are their tracer: the process is gone when we have waited for its dead threads.
        while workers and time.monotonic() < begin + 15:
            workers = [tid for tid in workers if os.waitpid(tid, WALL | os.WNOHANG)[0] == 0]
            time.sleep(0.01)
        took = time.monotonic() - begin
        if workers:
            hub.signal(signal.SIGKILL)
            for tid in workers:
                os.waitpid(tid, WALL)
        check_equal(hub.wait(15), 1, "exit status")
        check(took < 4.0, "it took", took, "s")
        wait_output(hub)
        check(hub.has_line("^sennit agent: not everything has ended"), hub.lines)


# --- Links ---------------------------------------------------------------------------------------------------------


def test_link_cannot_be_opened(lab):
    """Sessions that come and go because no message link can be opened: the cause is told, once, with what to do."""
    hub, edge = two(lab)
    hub.start()
    os.rename(hub.path("run"), hub.path("gone"))
    edge.start()
    hub.wait_line("LINK-FAILED .*err=not-found .*restart the agent", 15)
    wait_until(lambda: sum("PEER-DOWN" in line for line in hub.lines) >= 3, 15, "sessions came and went")
    check_equal(sum("LINK-FAILED" in line for line in hub.lines), 1, "lines about it")
    os.rename(hub.path("gone"), hub.path("run"))
    edge.wait_up(hub.name)
    edge.check_ping(hub.name)


# --- Messages ------------------------------------------------------------------------------------------------------


def refused_line(agent, status):
    agent.spawn()
    check_equal(agent.wait(10), status, "exit status")
    wait_output(agent)
    return "\n".join(agent.lines)


def edit(agent, old, new):
    with open(agent.file, encoding="utf-8") as file:
        text = file.read()
    check(re.search(old, text, re.M), "no", old, "in", text)
    with open(agent.file, "w", encoding="utf-8") as file:
        file.write(re.sub(old, new, text, flags=re.M))


def test_what_stands_in_the_way(lab):
    hub = two(lab)[0]
    os.makedirs(hub.path("run", "control.sock"))
    os.chmod(hub.path("run"), 0o700)
    check("control.sock is a folder" in refused_line(hub, 1), hub.lines)
    os.rmdir(hub.path("run", "control.sock"))
    os.rename(hub.path("agent.cert"), hub.path("kept"))
    os.mkdir(hub.path("agent.cert"))
    check("agent.cert: not a regular file" in refused_line(hub, 2), hub.lines)
    os.rmdir(hub.path("agent.cert"))
    os.mkfifo(hub.path("agent.cert"))
    check("agent.cert: not a regular file" in refused_line(hub, 2), hub.lines)
    os.unlink(hub.path("agent.cert"))
    os.symlink("agent.cert", hub.path("agent.cert"))
    check("a symbolic link leads back to itself" in refused_line(hub, 2), hub.lines)
    os.unlink(hub.path("agent.cert"))
    os.rename(hub.path("kept"), hub.path("agent.cert"))
    edit(hub, "^run:.*", "run: node.key")
    check("node.key is a file; `run:` must name a folder" in refused_line(hub, 1), hub.lines)
    edit(hub, "^run:.*", "run: run")
    edit(hub, "^data:.*", "data: agent.cert")
    check("agent.cert is a file; `data:` must name a folder" in refused_line(hub, 1), hub.lines)
    edit(hub, "^data:.*", "data: data")
    hub.start()


def test_foreign_run_folder(lab):
    hub = two(lab)[0]
    if os.geteuid() != 0:
        raise harness.Skip("only root can give a folder away")
    os.mkdir(hub.path("run"), 0o700)
    os.chown(hub.path("run"), UID, UID)
    said = refused_line(hub, 2)
    check("belongs to another user" in said and "chown 0 " in said, said)


if __name__ == "__main__":
    harness.main([test_few_threads, test_little_memory, test_few_descriptors, test_soft_limit_is_raised,
                  test_tunnels_leave_a_reserve, test_dialing_leaves_a_reserve, test_signals_while_starting,
                  test_hanging_worker, test_link_cannot_be_opened, test_what_stands_in_the_way,
                  test_foreign_run_folder])
