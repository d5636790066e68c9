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
    other.wait_line("another agent is running")
    check_equal(os.stat(hub.path("run", "control.sock")).st_ino, inode, "the live socket")
    check_equal(hub.view("status")["pid"], hub.pid, "pid")
    hub.stop()
    other.start()
    check_equal(other.view("status")["pid"], other.pid, "pid")


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
                  test_killed_clients, test_garbage, test_many_clients, test_idle_clients, test_waiting_asks,
                  test_dripping_clients, test_all_places_are_taken])
