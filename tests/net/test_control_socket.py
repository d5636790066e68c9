# SPDX-License-Identifier: Apache-2.0
"""The control socket: private, never stolen, and not to be upset by its clients."""
import ctypes
import os
import random
import signal
import socket
import stat
import struct
import subprocess
import threading
import time

import harness
from harness import check, check_equal, wait_until

NOBODY = 65534
PTRACE_ATTACH = 16
WALL = 0x40000000
# map {"verb": "status"} in msgpack
STATUS = b"\x81\xa4verb\xa6status"


def alone(lab, settings=""):
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:0\"]}}\n" + settings)
    return lab.agent("paris/hub").start()


def open_control(agent):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(agent.path("run", "control.sock"))
    return sock


def framed(body):
    return struct.pack(">I", len(body)) + body


def read_exactly(sock, size):
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        check(more, "the agent closed after", len(data), "bytes of", size)
        data += more
    return data


def read_reply(sock):
    return read_exactly(sock, struct.unpack(">I", read_exactly(sock, 4))[0])


def is_closed(sock):
    """Waits for the other side to close."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_modes(lab):
    os.umask(0)
    try:
        hub = alone(lab)
    finally:
        os.umask(0o022)
    info = os.stat(hub.path("run", "control.sock"))
    check(stat.S_ISSOCK(info.st_mode), "not a socket")
    check_equal(info.st_mode & 0o777, 0o600, "mode of the socket")
    check_equal(os.stat(hub.path("run")).st_mode & 0o777, 0o700, "mode of the run folder")
    check_equal(os.stat(hub.path("data")).st_mode & 0o777, 0o700, "mode of the data folder")


def test_open_run_folder(lab):
    """Somebody else could put sockets there: refused, with the way to mend it."""
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:0\"]}}\n")
    hub = lab.agent("paris/hub")
    os.mkdir(hub.path("run"))
    os.chmod(hub.path("run"), 0o755)
    hub.spawn()
    check_equal(hub.wait(), 2, "exit status")
    hub.wait_line("chmod 700 .*run")
    os.chmod(hub.path("run"), 0o700)
    hub.start()


def test_stale_socket(lab):
    """What a killed agent left is replaced by its successor (T35)."""
    hub = alone(lab)
    for _ in range(3):
        hub.kill()
        check_equal(hub.command("status").returncode, 3, "exit status against a stale socket")
        hub.start()
        # Its answer comes through the new socket; the file's inode may well be the old number again.
        check_equal(hub.view("status")["pid"], hub.pid, "pid")


def test_second_instance(lab):
    """A second agent on the same data is refused, and takes nothing from the first one."""
    hub = alone(lab)
    inode = os.stat(hub.path("run", "control.sock")).st_ino
    other = harness.Agent(lab, hub.name, hub.folder)
    lab.agents.append(other)
    other.spawn()
    check_equal(other.wait(), 1, "exit status")
    other.wait_line(r"another agent \(pid %d\) is running on .*data; stop it first" % hub.pid)
    check_equal(os.stat(hub.path("run", "control.sock")).st_ino, inode, "the live socket")
    check_equal(hub.view("status")["pid"], hub.pid, "pid")
    hub.stop()
    other.start()
    check_equal(other.view("status")["pid"], other.pid, "pid")


def is_refused(lab, hub, other, field):
    """`other` is told who has the folder; the one that has it notices nothing."""
    inode = os.stat(hub.path("run", "control.sock")).st_ino
    other.spawn()
    check_equal(other.wait(), 1, "exit status with the same %s" % field)
    other.wait_line(r"another agent \(pid %d\) is running on .*; stop it first, or give this one its own `%s:`" %
                    (hub.pid, field))
    check_equal(os.stat(hub.path("run", "control.sock")).st_ino, inode, "the live socket")
    check_equal(hub.view("status")["pid"], hub.pid, "pid")


def test_shared_folders(lab):
    """One of the two folders in common is enough, by whatever name; and when the one who has it is killed, the other
    starts at once."""
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:0\"]}, spare: {listen: [\"tls://127.0.0.1:0\"]}}\n")
    hub, spare = lab.agent("paris/hub").start(), lab.agent("paris/spare")
    good = open(spare.file).read()
    os.symlink(hub.folder, lab.path("link"))
    for field in ("data", "run"):
        os.symlink(hub.path(field), lab.path("link-" + field))
        for name in (hub.path(field), lab.path("link-" + field)):
            with open(spare.file, "w") as file:
                file.write(good.replace("%s: \"%s\"" % (field, field), "%s: \"%s\"" % (field, name)))
            is_refused(lab, hub, spare, field)
        hub.kill()
        spare.start()
        spare.kill()
        # What that one left is no hindrance, either.
        hub.start()
    # The same agent by another name of its own folder.
    other = harness.Agent(lab, hub.name, lab.path("link"))
    lab.agents.append(other)
    is_refused(lab, hub, other, "data")
    hub.kill()
    other.start()
    check_equal(other.view("status")["pid"], other.pid, "pid")
    other.stop()
    check_equal((hub.run_files(), os.path.exists(hub.path("data", "lock"))), ([], True), "what is left")


def test_race(lab):
    """Many start at the same time: one runs, the others are refused."""
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:0\"]}}\n")
    agents = [lab.agent("paris/hub") for _ in range(4)]
    for _ in range(1 if lab.is_sanitized else 3):
        for agent in agents:
            agent.spawn()
        wait_until(lambda: sum(not agent.is_running() for agent in agents) == len(agents) - 1, 60, "one is left")
        left = [agent for agent in agents if agent.is_running()]
        left[0].wait_ready()
        check_equal(left[0].view("status")["pid"], left[0].pid, "pid")
        for agent in agents:
            if agent is not left[0]:
                check_equal(agent.wait(), 1, "exit status")
                agent.wait_line(r"another agent( \(pid \d+\))? is running on")
        left[0].kill()


def test_folders_of_others(lab):
    """Folders that others could put something into are not used, and the message says how to mend them; `check` says
    the same, with a place."""
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:0\"]}}\n")
    hub = lab.agent("paris/hub")
    files = sorted(os.listdir(hub.folder) + ["data", "run"])
    for field in ("data", "run"):
        os.mkdir(hub.path(field), 0o700)
    cases = [("run", mode, "chmod 700 .*run") for mode in (0o710, 0o701)]
    cases += [("data", mode, "chmod go-w .*data") for mode in (0o720, 0o702)]
    cases += [(field, None, "chown %d .*%s" % (os.geteuid(), field)) for field in ("data", "run") if os.geteuid() == 0]
    for field, mode, hint in cases:
        if mode is None:
            os.chown(hub.path(field), NOBODY, NOBODY)
        else:
            os.chmod(hub.path(field), mode)
        hub.spawn()
        check_equal(hub.wait(), 2, "exit status with %s of mode %s" % (field, mode))
        hub.wait_line("^sennit agent: .*" + hint)
        check_equal((sorted(os.listdir(hub.folder)), hub.run_files()), (files, []), "nothing was made")
        done = hub.lab.command("check", hub.file)
        check_equal(done.returncode, 2, "exit status of check")
        check(any(line.startswith(hub.file + ":") and ": %s: " % field in line and line.split(": ")[0].count(":") == 2
                  for line in done.stderr.splitlines()), done.stderr)
        if mode is None:
            os.chown(hub.path(field), os.geteuid(), os.getegid())
        os.chmod(hub.path(field), 0o700)
    os.chmod(hub.path("data"), 0o755)  # others may look on, if the operator lets them
    check_equal(hub.lab.command("check", hub.file).returncode, 0, "exit status of check")
    hub.start()


def as_nobody(*words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          user=NOBODY, group=NOBODY, extra_groups=[])


def hear_as_nobody(path):
    """What the agent says to somebody else who connects and says nothing, up to its end."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(30)
                sock.connect(path)
                for data in iter(lambda: sock.recv(4096), b""):
                    os.write(writer, data)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        heard = file.read()
    os.waitpid(pid, 0)
    return heard


def test_another_user(lab):
    """The folder keeps others out. Where somebody opened it, the agent itself does: it reads nothing from them, tells
    them why at once, and counts them."""
    if os.geteuid() != 0:
        raise harness.Skip("only root can be somebody else")
    hub = alone(lab)
    for folder in (lab.folder, lab.path("fleet"), lab.path("fleet", "out"), lab.path("fleet", "out", "paris"), hub.folder):
        os.chmod(folder, 0o755)
    done = as_nobody(lab.sennit, "status", "-c", hub.file)
    if done.returncode in (126, 127) or "cannot execute" in done.stderr:
        raise harness.Skip("the program is not for everybody")
    check_equal(done.returncode, 3, "exit status: %s" % done.stderr)
    check("runs as another user" in done.stderr, done.stderr)
    check_equal(hub.metric("control.denied"), 0, "refused so far")
    os.chmod(hub.path("run"), 0o755)
    os.chmod(hub.path("run", "control.sock"), 0o666)
    begin = time.monotonic()
    verbs = ("status", "peers", "streams", "actors", "plugins", "ledger", "metrics", "reload")
    for verb in verbs:
        done = as_nobody(lab.sennit, verb, "-c", hub.file)
        check_equal(done.returncode, 1, "exit status of %s: %s" % (verb, done.stderr))
        check("this agent answers its own user only" in done.stderr, verb, "said", done.stderr)
        check_equal(done.stdout, "", "what %s told" % verb)
    done = as_nobody(lab.sennit, "ping", hub.name, "--count", "1", "-c", hub.file)
    check(done.returncode != 0 and "received 1" not in done.stdout, "a stranger pinged")
    # One that says nothing is refused as well, and at once.
    silent = hear_as_nobody(hub.path("run", "control.sock"))
    check(b"its own user only" in silent, silent)
    count = hub.metric("control.denied")
    check(count >= len(verbs) + 2, count, "were counted")
    with hub.changed:
        lines = [line for line in hub.lines if "CONTROL-DENIED" in line]
    check(all("uid=%d" % NOBODY in line for line in lines), lines)
    check(1 <= len(lines) <= 1 + time.monotonic() - begin, len(lines), "lines for", count)
    check("RELOAD" not in "".join(hub.lines), "a stranger reloaded it")
    check_equal(hub.view("status")["pid"], hub.pid, "the operator is served")


def test_killed_clients(lab):
    """Clients that go in the middle of a request, or before the answer."""
    hub = alone(lab)
    hub.view("status")
    before = harness.settled_figures(hub.pid)[0]
    whole = framed(STATUS)
    for cut in range(1, len(whole) + 1):
        with open_control(hub) as sock:
            sock.sendall(whole[:cut])
    # And real ones: killed while they wait for somebody who does not answer.
    clients = [lab.spawn([hub.lab.sennit, "ping", hub.name, "-c", hub.file, "--count", "100000"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(4)]
    wait_until(lambda: harness.descriptors(hub.pid) >= before + len(clients), 10, "the clients are connected")
    for client in clients:
        client.kill()
        client.wait()
    wait_until(lambda: harness.descriptors(hub.pid) == before, 10, "their descriptors are gone")
    check_equal(hub.view("status")["pid"], hub.pid, "pid")


def test_garbage(lab):
    hub = alone(lab)
    hub.view("status")
    before = harness.settled_figures(hub.pid)[0]
    seed = random.randrange(1 << 32)
    harness.note("seed", seed)
    rng = random.Random(seed)
    # Lengths that no request has: dropped before anything is read for them.
    for size in (0, 256 * 1024 + 1, 1 << 31, (1 << 32) - 1):
        with open_control(hub) as sock:
            sock.sendall(struct.pack(">I", size))
            check(is_closed(sock), "a request of", size, "bytes was waited for")
    # Bodies that are no request: answered, or dropped.
    for body in [b"\xc1", b"\x81", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 64,
                 b"\x81\xa4verb\xa6statut", b"\x81\xa4verb\x01"] + [rng.randbytes(rng.randrange(1, 200))
                                                                    for _ in range(100)]:
        with open_control(hub) as sock:
            sock.sendall(framed(body))
            read_reply(sock)
            # The connection still works.
            sock.sendall(framed(STATUS))
            check(b"uptime_ms" in read_reply(sock), "no status after", body)
    with open_control(hub) as sock:
        for byte in framed(STATUS):
            sock.sendall(bytes([byte]))
        check(b"uptime_ms" in read_reply(sock), "no status for single bytes")
        sock.sendall(framed(STATUS) * 3)
        for _ in range(3):
            check(b"uptime_ms" in read_reply(sock), "no status for requests in a row")
    wait_until(lambda: harness.descriptors(hub.pid) == before, 10, "the descriptors are gone")
    check_equal(hub.view("status")["pid"], hub.pid, "pid")


def test_many_clients(lab):
    """Twenty at once are all served: nobody is turned away because others ask, too."""
    hub, edge = lab.pair()
    clients = [subprocess.Popen([lab.sennit, "ping", hub.name, "-c", edge.file, "--count", "5"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
               for _ in range(20)]
    lab.processes += clients
    failed = []
    for client in clients:
        _, said = client.communicate(timeout=30)
        if client.returncode != 0:
            failed.append(said)
    check_equal(failed, [], "clients that were not served")


def test_idle_clients(lab):
    """Connections that say nothing do not lock the operator out for long, nor cost anything in the end."""
    hub = alone(lab)
    hub.view("status")
    before = harness.settled_figures(hub.pid)[0]
    idle = [open_control(hub) for _ in range(16 + 4)]
    wait_until(lambda: hub.command("status", "--json").returncode == 0, 15, "the operator is served")
    for sock in idle:
        sock.close()
    wait_until(lambda: harness.descriptors(hub.pid) == before, 10, "the descriptors are gone")
    check_equal(hub.view("status")["pid"], hub.pid, "pid")


def ask_frame(to, timeout_ms):
    """An `ask` in msgpack."""
    def text(value):
        return bytes([0xd9, len(value)]) + value.encode()
    return framed(b"\x85" + text("verb") + text("ask") + text("to") + text(to) + text("type") + text("ping.echo") +
                  text("timeout_ms") + b"\xce" + struct.pack(">I", timeout_ms) + text("payload") + b"\xc4\x00")


def timed(agent, *words):
    begin = time.monotonic()
    done = agent.command(*words)
    check_equal(done.returncode, 0, "exit status of %s: %s" % (words, done.stderr))
    return time.monotonic() - begin


def test_waiting_asks(lab):
    """Questions whose answers do not come take half of the places at most: more are refused at once, and the
    operator is served."""
    hub, edge = lab.pair()
    edge.view("status")
    hub.signal(signal.SIGSTOP)
    asking, refused = [], 0
    for _ in range(16):
        sock = open_control(edge)
        sock.sendall(ask_frame("paris/hub:ping", 60000))
        asking.append(sock)
    for sock in asking:
        sock.settimeout(1)
        try:
            refused += b"too many questions" in read_reply(sock)
        except socket.timeout:
            pass
    check_equal(refused, 8, "refused at once")
    for words in (("status",), ("peers",), ("forwards",), ("ping", edge.name, "--count", "1")):
        took = timed(edge, *words)
        check(took < 5.0, words, "took", took, "s")
    # A ping that finds no place tries for a moment, and then says why.
    done = edge.command("ping", "paris/hub", "--count", "1")
    check_equal(done.returncode, 1, "exit status")
    check("too many questions wait for an answer" in done.stderr, done.stderr)
    # Places are free again when those who asked are gone.
    for sock in asking:
        sock.close()
    hub.signal(signal.SIGCONT)
    edge.wait_up(hub.name, 30)
    edge.check_ping(hub.name)


def test_dripping_clients(lab):
    """Requests that come byte by byte are not waited for."""
    hub = alone(lab)
    hub.view("status")
    socks = [open_control(hub) for _ in range(20)]
    stop = threading.Event()

    def drip():
        # A request that is long enough never to be complete.
        data = iter(framed(b"\xc4" * 1000))
        while not stop.is_set():
            byte = bytes([next(data)])
            for sock in socks:
                try:
                    sock.sendall(byte)
                except OSError:
                    pass
            stop.wait(0.3)

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        time.sleep(0.1)
        took = timed(hub, "status")
        check(took < 6.0, "the operator waited", took, "s")
        # Alone as well: a request has its time.
        check(is_closed(socks[0]), "a request was waited for")
    finally:
        stop.set()
        thread.join()
    for sock in socks:
        sock.close()


def attach_workers(pid):
    """Stops the workers, and only them, as if they hung. Returns their numbers."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = []
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/comm" % (pid, tid), encoding="ascii") as file:
            if not file.read().startswith("worker-"):
                continue
        found.append(int(tid))
    for tid in found[1:]:  # not the first one: it is the control socket's
        if libc.ptrace(PTRACE_ATTACH, tid, None, None) != 0:
            raise harness.Skip("ptrace is not allowed here")
        os.waitpid(tid, WALL)
    return found[1:]


def test_all_places_are_taken(lab):
    """Views that cannot be completed hold all places: whoever comes next is told so."""
    hub = alone(lab, "settings: {workers: 2}\n")
    hub.view("status")
    hung = attach_workers(hub.pid)
    socks = []
    for _ in range(16):
        sock = open_control(hub)
        sock.sendall(framed(b"\x81\xa4verb\xa7streams"))
        socks.append(sock)
    try:
        done = hub.command("status")
    finally:
        hub.signal(signal.SIGKILL)
        for tid in hung:
            os.waitpid(tid, WALL)  # we are their tracer: the process is not gone before
    check_equal(done.returncode, 1, "exit status")
    check("all places for clients of this agent are taken" in done.stderr, done.stderr)


if __name__ == "__main__":
    harness.main([test_modes, test_open_run_folder, test_stale_socket, test_second_instance,
                  test_shared_folders, test_race, test_folders_of_others, test_another_user,
                  test_killed_clients, test_garbage, test_many_clients, test_idle_clients, test_waiting_asks,
                  test_dripping_clients, test_all_places_are_taken])
