# SPDX-License-Identifier: Apache-2.0
"""Forwards and targets with real TCP programs at both ends: what goes in comes out, or an end is seen promptly."""
import http.server
import os
import select
import signal
import socket
import struct
import threading
import time
import urllib.request

import harness
from harness import check, check_equal, read_all, run_threads, sha256, wait_until

MIB = 1 << 20
DATA = os.urandom(32 * MIB)
DIGEST = sha256(DATA)


def tunnels(lab, targets, settings=""):
    """`targets`: name -> (port, more of the target). Returns hub, edge and where each forward listens."""
    more = "targets:\n"
    for name, (port, extra) in targets.items():
        more += ("  %s: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]%s}\n"
                 % (name, port, extra))
    more += "forwards:\n"
    for name in targets:
        more += "  %s: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: %s}\n" % (name, name)
    hub, edge = lab.pair(more, settings)
    return hub, edge, {name: edge.bound(name) for name in targets}


def reset(sock):
    """Closes so that the other side sees a reset; an orderly end would only be half of one."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def time_to_refusal(address, limit):
    begin = time.monotonic()
    try:
        with harness.connect(address) as sock:
            time_to_end(sock, limit)
    except ConnectionResetError:
        pass  # so quick that connecting itself saw it
    return time.monotonic() - begin


def time_to_end(sock, limit):
    """How long until the other side ends or resets; what it says before counts as a failure."""
    begin = time.monotonic()
    sock.settimeout(limit)
    try:
        check_equal(sock.recv(1), b"", "what came instead of an end")
    except ConnectionResetError:
        pass
    except socket.timeout:
        raise harness.Failure("no end within %.1f s" % limit)
    return time.monotonic() - begin


def echo(conn):
    while True:
        data = conn.recv(262144)
        if not data:
            return
        conn.sendall(data)


def check_quiet(hub, edge):
    """Nothing is open any more at either end."""
    for agent in (hub, edge):
        wait_until(lambda: agent.view("streams") == [], 5, "%s has no stream" % agent.name)
        check_equal(agent.metric("tunnel.open_now"), 0, "tunnels of %s" % agent.name)


def test_http_download(lab):
    os.mkdir(lab.path("www"))
    with open(lab.path("www", "file"), "wb") as file:
        file.write(DATA[:8 * MIB])

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=lab.path("www"))

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    lab.closers.append(server.server_close)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    lab.closers.insert(0, server.shutdown)
    hub, edge, at = tunnels(lab, {"web": (server.server_address[1], "")})
    begin = time.monotonic()
    with urllib.request.urlopen("http://%s:%d/file" % at["web"], timeout=30) as answer:
        check_equal(sha256(answer.read()), sha256(DATA[:8 * MIB]), "SHA-256 of 8 MiB by HTTP")
    harness.note("8 MiB by HTTP in %.2f s" % (time.monotonic() - begin))
    check_quiet(hub, edge)
    check(edge.forward("web")["received_bytes"] >= 8 * MIB, "bytes counted by the forward")
    check(hub.target("web")["sent_bytes"] >= 8 * MIB, "bytes counted by the target")


def test_half_close(lab):
    """32 MiB each way, one after the other, with each side ending first (T30)."""
    seen = {}

    def server_reads_first(conn):
        seen["client first"] = read_all(conn)
        conn.sendall(DATA)

    def server_writes_first(conn):
        conn.sendall(DATA)
        conn.shutdown(socket.SHUT_WR)
        seen["server first"] = read_all(conn)

    def server_closes_first(conn):
        conn.sendall(DATA)

    first, second, third = [lab.server(handle) for handle in
                            (server_reads_first, server_writes_first, server_closes_first)]
    hub, edge, at = tunnels(lab, {"first": (first.port, ""), "second": (second.port, ""),
                                  "third": (third.port, "")})
    whole = (len(DATA), DIGEST)
    begin = time.monotonic()
    with harness.connect(at["first"], 60) as sock:
        sock.sendall(DATA)
        sock.shutdown(socket.SHUT_WR)
        check_equal(read_all(sock), whole, "the answer, client ends first")
    check_equal(seen["client first"], whole, "what the server got, client ends first")
    with harness.connect(at["second"], 60) as sock:
        check_equal(read_all(sock), whole, "the answer, server ends first")
        sock.sendall(DATA)
    wait_until(lambda: "server first" in seen, 20, "the server saw the end")
    check_equal(seen["server first"], whole, "what the server got, server ends first")
    with harness.connect(at["third"], 60) as sock:
        check_equal(read_all(sock), whole, "the answer, server closes first")
    harness.note("5 x 32 MiB in %.2f s" % (time.monotonic() - begin))
    check_equal(first.errors + second.errors + third.errors, [], "errors of the servers")
    check_quiet(hub, edge)


def test_both_ways_at_once(lab):
    server = lab.server(echo)
    hub, edge, at = tunnels(lab, {"echo": (server.port, "")})
    with harness.connect(at["echo"], 60) as sock:
        def send():
            sock.sendall(DATA)
            sock.shutdown(socket.SHUT_WR)

        _, got = run_threads([send, lambda: read_all(sock)], 60)
    check_equal(got, (len(DATA), DIGEST), "32 MiB echoed")
    check_quiet(hub, edge)


def test_target_down(lab):
    """Nobody listens there: the client is told when the wait is over, and not much later."""
    hub, edge, at = tunnels(lab, {"none": (harness.free_port(), ", connect_wait_ms: 400"),
                                  "now": (harness.free_port(), ", connect_wait_ms: 0")})
    with harness.connect(at["none"]) as sock:
        sock.sendall(b"hello")
        took = time_to_end(sock, 5)
    check(0.3 < took < 2.5, "connect_wait_ms is 400, it took", took, "s")
    took = time_to_refusal(at["now"], 5)
    check(took < 1.5, "connect_wait_ms is 0, it took", took, "s")
    wait_until(lambda: hub.target("none")["failed"] == 1, 5, "the target counts it")
    wait_until(lambda: edge.forward("none")["failed"] == 1, 5, "the forward counts it")
    hub.wait_line("TUNNEL-TARGET-FAILED.*target=none", 5)
    check_quiet(hub, edge)


def test_target_late(lab):
    """The service starts after its client has sent 4 MiB: all of it arrives (T31)."""
    port = harness.free_port()
    got = []
    hub, edge, at = tunnels(lab, {"late": (port, "")})
    begin = time.monotonic()
    with harness.connect(at["late"], 30) as sock:
        def send():
            sock.sendall(DATA[:4 * MIB])
            sock.shutdown(socket.SHUT_WR)
            return sock.recv(100)

        def serve_late():
            # That time passes is the case here.
            time.sleep(max(0.0, 1.5 - (time.monotonic() - begin)))

            def handle(conn):
                got.append(read_all(conn))
                conn.sendall(b"thanks")
            lab.server(handle, port)

        answer, _ = run_threads([send, serve_late], 30)
    check_equal(answer, b"thanks", "the answer")
    check_equal(got, [(4 * MIB, sha256(DATA[:4 * MIB]))], "what the service got")
    took = time.monotonic() - begin
    check(1.5 <= took < 6, "it took", took, "s")
    check_quiet(hub, edge)


def test_not_allowed(lab):
    server = lab.server(echo)
    hub, edge, at = tunnels(lab, {"closed": (server.port, ""), "open": (server.port, "")})
    # A fleet that says so would not even be rendered: the far side changes its mind on its own.
    hub.stop()
    hub.edit(lambda text: text.replace('- "amsterdam/*"', '- "paris/*"\n            - "amsterdam/desk"', 1))
    hub.start().wait_up(edge.name)
    edge.wait_up(hub.name)
    took = time_to_refusal(at["closed"], 5)
    check(took < 1, "the refusal took", took, "s")
    hub.wait_line("TUNNEL-DENIED agent=paris/hub .*agent=amsterdam/edge target=closed", 5)
    check_equal((hub.target("closed")["denied"], hub.metric("tunnel.denied")), (1, 1), "counted as denied")
    check_equal(server.accepted, 0, "connections that reached the service")
    wait_until(lambda: "not allowed" in edge.forward("closed")["error"], 5, "the forward says why")
    with harness.connect(at["open"]) as sock:
        sock.sendall(b"hello")
        check_equal(sock.recv(5), b"hello", "the other target")


def test_unknown_target(lab):
    """A forward that names what the other side does not have: refused by name, no address is tried."""
    server = lab.server(echo)
    hub, edge, _ = tunnels(lab, {"real": (server.port, "")})
    edge.stop()
    edge.edit(lambda text: text.replace('target: "real"', 'target: "unreal"'))
    edge.start().wait_up(hub.name)
    took = time_to_refusal(edge.bound("real"), 5)
    check(took < 1, "the refusal took", took, "s")
    hub.wait_line("TUNNEL-TARGET-UNKNOWN.*target=unreal", 5)
    check_equal(server.accepted, 0, "connections that reached the service")


def blackhole(lab):
    """A loopback address whose connections are never completed: a listener whose queue is full."""
    sock = socket.socket()
    lab.closers.append(sock.close)
    sock.bind(("127.0.0.1", 0))
    sock.listen(0)
    fillers = []
    for _ in range(8):
        filler = socket.socket()
        lab.closers.append(filler.close)
        filler.setblocking(False)
        filler.connect_ex(sock.getsockname())
        fillers.append(filler)
    time.sleep(0.1)  # a completed handshake on loopback takes microseconds; these show no sign that tells
    probe = socket.socket()
    lab.closers.append(probe.close)
    probe.settimeout(0.3)
    try:
        probe.connect(sock.getsockname())
    except socket.timeout:
        return sock.getsockname()[1]
    raise harness.Skip("this kernel completes connections of a full queue")


def test_slow_dial(lab):
    """A client whose target does not answer keeps nobody else waiting (T32)."""
    server = lab.server(echo)
    hub, edge, at = tunnels(lab, {"hole": (blackhole(lab), ", connect_wait_ms: 30000"),
                                  "good": (server.port, "")})
    stuck = [harness.connect(at["hole"]) for _ in range(20)]
    wait_until(lambda: len(hub.view("streams")) == len(stuck), 5, "the dials are under way")
    times = []
    for _ in range(10):
        begin = time.monotonic()
        with harness.connect(at["good"]) as sock:
            sock.sendall(b"hello")
            check_equal(sock.recv(5), b"hello", "the echo")
        times.append(time.monotonic() - begin)
    harness.note("connect and echo beside 20 stuck dials: best %.1f ms, worst %.1f ms"
                 % (min(times) * 1e3, max(times) * 1e3))
    check(sorted(times)[len(times) // 2] < 0.1, "good clients wait:", times)
    # Clients that give up take their dials with them.
    for sock in stuck:
        reset(sock)
    check_quiet(hub, edge)


def test_parallel(lab):
    """50 connections at once, each with its own bytes."""
    server = lab.server(echo)
    hub, edge, at = tunnels(lab, {"echo": (server.port, "")})

    def client(index):
        def run():
            mine = DATA[index * 100000:index * 100000 + 300000 + index]
            with harness.connect(at["echo"], 30) as sock:
                def send():
                    sock.sendall(mine)
                    sock.shutdown(socket.SHUT_WR)
                _, got = run_threads([send, lambda: read_all(sock)], 30)
                check_equal(got, (len(mine), sha256(mine)), "connection %d" % index)
        return run

    run_threads([client(index) for index in range(50)], 60)
    check_equal(server.errors, [], "errors of the server")
    check_equal((edge.forward("echo")["opened"], edge.forward("echo")["failed"]), (50, 0), "counts")
    check_quiet(hub, edge)


def test_resets(lab):
    """Clients and services that reset in the middle: the other end sees it, and nothing is left."""
    ends = []

    def handle(conn):
        conn.sendall(b"!")
        try:
            while conn.recv(65536):
                pass
            ends.append("end")
        except ConnectionResetError:
            ends.append("reset")

    def resetting(conn):
        conn.recv(100)
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    sink, rude, good = lab.server(handle), lab.server(resetting), lab.server(echo)
    hub, edge, at = tunnels(lab, {"sink": (sink.port, ""), "rude": (rude.port, ""), "echo": (good.port, "")})
    before = [harness.settled_figures(agent.pid) for agent in (hub, edge)]
    for _ in range(10):
        with harness.connect(at["sink"]) as sock:
            check_equal(sock.recv(1), b"!", "the service speaks first")
            sock.sendall(DATA[:MIB])
            reset(sock)
        with harness.connect(at["rude"]) as sock:
            sock.sendall(b"x" * 100)
            time_to_end(sock, 5)
    wait_until(lambda: len(ends) == 10, 10, "the service saw each client go")
    check_equal(ends, ["reset"] * 10, "what the service saw: a reset is not an end")
    with harness.connect(at["echo"]) as sock:
        sock.sendall(b"hello")
        check_equal(sock.recv(5), b"hello", "the echo afterwards")
    check_quiet(hub, edge)
    check_equal([harness.settled_figures(agent.pid) for agent in (hub, edge)], before,
                "descriptors and threads afterwards")


def test_slow_reader(lab):
    """A client that does not read stops its own stream only, within bounds."""
    source = lab.server(lambda conn: conn.sendall(DATA * 4))
    good = lab.server(echo)
    hub, edge, at = tunnels(lab, {"flood": (source.port, ""), "echo": (good.port, "")})
    with harness.connect(at["flood"]) as stalled:
        check_equal(len(stalled.recv(1, socket.MSG_PEEK)), 1, "it has begun")
        for _ in range(5):
            with harness.connect(at["echo"]) as sock:
                sock.sendall(DATA[:MIB])
                sock.shutdown(socket.SHUT_WR)
                check_equal(read_all(sock), (MIB, sha256(DATA[:MIB])), "the other stream")
        for agent in (hub, edge):
            check(agent.view("status")["resident_bytes"] < 256 * MIB * (4 if lab.is_sanitized else 1),
                  agent.name, "holds what nobody reads")
        check_equal(read_all(stalled), (4 * len(DATA), sha256(DATA * 4)), "it reads on after all")
    check_quiet(hub, edge)


def test_busy_machine(lab):
    """32 MiB with 8 busy loops beside: intact, and nobody is declared dead (T16)."""
    server = lab.server(lambda conn: (read_all(conn), conn.sendall(DATA)))
    hub, edge, at = tunnels(lab, {"web": (server.port, "")})
    lab.busy(8)
    with harness.connect(at["web"], 60) as sock:
        sock.shutdown(socket.SHUT_WR)
        begin = time.monotonic()
        check_equal(read_all(sock), (len(DATA), DIGEST), "32 MiB")
        harness.note("32 MiB beside 8 busy loops in %.2f s" % (time.monotonic() - begin))
    check_equal(hub.peer(edge.name)["sessions"], 1, "sessions")


def how_it_ends(conn, limit=20):
    """Reads to the end: what came, and whether it was an end or a reset."""
    conn.settimeout(limit)
    size = 0
    try:
        while True:
            data = conn.recv(262144)
            if not data:
                return "end", size
            size += len(data)
    except ConnectionResetError:
        return "reset", size


def test_killed_agent(lab):
    """An agent is killed in the middle of a download and an upload: nobody takes that for the end (G2)."""
    uploads = []

    def flood(conn):
        try:
            while True:
                conn.sendall(DATA[:MIB])
        except OSError:
            pass

    source, sink = lab.server(flood), lab.server(lambda conn: uploads.append(how_it_ends(conn)))
    hub, edge, at = tunnels(lab, {"down": (source.port, ""), "up": (sink.port, "")})
    for victim in (edge, hub):
        uploads.clear()
        received = hub.target("up")["received_bytes"]
        sent = edge.forward("down")["received_bytes"]
        down, up = harness.connect(at["down"]), harness.connect(at["up"])
        up.sendall(b"half a request")
        check_equal(len(down.recv(1)), 1, "the download has begun")
        wait_until(lambda: hub.target("up")["received_bytes"] == received + 14, 5, "the upload has begun")
        ends = []
        reader = threading.Thread(target=lambda: ends.append(how_it_ends(down)), daemon=True)
        reader.start()
        wait_until(lambda: edge.forward("down")["received_bytes"] > sent + 4 * MIB, 10, "the download is under way")
        victim.kill()
        victim.start()  # of its former boot nothing can be resumed: the other agent gives up at once
        edge.wait_up(hub.name)
        hub.wait_up(edge.name)
        wait_until(lambda: uploads and ends, 20, "both have ended")
        check_equal((ends[0][0], uploads), ("reset", [("reset", 14)]), "ends after %s was killed" % victim.name)
        reader.join()
        down.close()
        up.close()
        at = {name: edge.bound(name) for name in at}
        check_quiet(hub, edge)


def test_killed_after_the_end(lab):
    """What came to its end before the agent was killed is complete, wherever it waits."""
    size = MIB // 8
    server = lab.server(lambda conn: (conn.sendall(DATA[:size]), conn.shutdown(socket.SHUT_WR), conn.recv(1)))
    hub, edge, at = tunnels(lab, {"web": (server.port, "")})
    with harness.connect(at["web"]) as sock:  # it does not read: some of it stays in the agent's socket
        wait_until(lambda: edge.forward("web")["received_bytes"] == size, 10, "the edge has passed on everything")
        time.sleep(0.3)  # its end is right behind, and nothing shows that it was passed on, too
        edge.kill()
        check_equal(read_all(sock), (size, sha256(DATA[:size])), "what was complete")
    check(hub.is_running(), "the hub ended")


def test_idle(lab):
    """A tunnel that rests is ended by the side that says so; one that does not rest is not."""
    server = lab.server(echo)
    hub, edge, at = tunnels(lab, {"short": (server.port, ", idle_ms: 600"), "long": (server.port, "")})
    with harness.connect(at["short"]) as sock, harness.connect(at["long"]) as other:
        for _ in range(10):
            sock.sendall(b"x")
            check_equal(sock.recv(1), b"x", "the echo")
            time.sleep(0.1)  # that time passes is the case here
        took = time_to_end(sock, 10)
        check(0.3 < took < 5, "idle_ms is 600, it took", took, "s")
        other.sendall(b"x")
        check_equal(other.recv(1), b"x", "the echo of the other one")
    wait_until(lambda: edge.forward("short")["errors"] == {"timed-out": 1}, 5, "the forward says why")
    check_equal(hub.target("short")["errors"], {"timed-out": 1}, "the target says why")
    check_quiet(hub, edge)


def test_limits(lab):
    """Beyond a limit a client is reset at once and counted; a dead target keeps but a quarter of its places busy."""
    server = lab.server(echo)
    port, dead = server.port, harness.free_port()
    hub, edge = lab.pair(
        "targets:\n"
        "  few: {at: paris/hub, address: \"127.0.0.1:%d\", allow: \"*\"}\n"
        "  one: {at: paris/hub, address: \"127.0.0.1:%d\", allow: \"*\", max_per_agent: 1}\n"
        "  dead: {at: paris/hub, address: \"127.0.0.1:%d\", allow: \"*\", max_connections: 8}\n"
        "forwards:\n"
        "  few: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: few, max_connections: 2}\n"
        "  one: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: one}\n"
        "  dead: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: dead}\n" % (port, port, dead))
    at = {name: edge.bound(name) for name in ("few", "one", "dead")}

    def use(name):
        sock = harness.connect(at[name])
        sock.sendall(b"x")
        check_equal(sock.recv(1), b"x", "the echo through %s" % name)
        return sock

    held = [use("few"), use("few"), use("one")]
    for name in ("few", "one"):
        took = time_to_refusal(at[name], 5)
        check(took < 1, "the refusal took", took, "s")
    check_equal((edge.forward("few")["refused"], hub.target("one")["refused"]), (1, 1), "refused")
    edge.wait_line("FORWARD-FULL.*forward=few max_connections=2", 5)
    hub.wait_line("TARGET-FULL.*target=one agent=amsterdam/edge limit=max_per_agent value=1", 5)
    waiting = []
    for _ in range(20):
        try:
            waiting.append(harness.connect(at["dead"]))
        except ConnectionResetError:
            pass  # so quick that connecting itself saw it
    wait_until(lambda: hub.target("dead")["refused"] == 18, 5, "2 of 8 places may wait")
    check_equal(hub.target("dead")["waiting"], 2, "waiting")
    held.pop().close()
    wait_until(lambda: hub.target("one")["open"] == 0, 5, "a place is free again")
    held.append(use("one"))
    for sock in held + waiting:
        reset(sock)
    check_quiet(hub, edge)


def test_live_bytes(lab):
    """Bytes and rates are shown while they move."""
    def drip(conn):
        for _ in range(100):
            conn.sendall(DATA[:10000])
            time.sleep(0.02)

    server = lab.server(drip)
    hub, edge, at = tunnels(lab, {"web": (server.port, "")})
    with harness.connect(at["web"]) as sock:
        reader = threading.Thread(target=lambda: read_all(sock), daemon=True)
        reader.start()
        wait_until(lambda: edge.forward("web")["received_bytes"] > 20000, 5, "bytes of an open tunnel")
        wait_until(lambda: edge.forward("web")["received_rate"] > 20000, 5, "its rate")
        wait_until(lambda: hub.target("web")["sent_rate"] > 20000, 5, "its rate at the target")
        check_equal(edge.forward("web")["open"], 1, "it is open")
        wait_until(lambda: edge.forward("web")["received_bytes"] == 1000000, 20, "all bytes")
        reader.join(5)
    wait_until(lambda: edge.forward("web")["received_rate"] == 0, 10, "nothing moves any more")
    check_quiet(hub, edge)


def test_reload(lab):
    """Another file: forwards and permissions come and go, and connections that it does not concern lose no byte."""
    server = lab.server(echo)
    hub, edge, at = tunnels(lab, {"stay": (server.port, ""), "go": (server.port, ""), "lose": (server.port, "")})
    with harness.connect(at["stay"], 60) as stay, harness.connect(at["go"]) as go, harness.connect(at["lose"]) as lose:
        for sock in (go, lose):
            sock.sendall(b"x")
            check_equal(sock.recv(1), b"x", "the echo")

        def send():
            for at_byte in range(0, len(DATA), MIB):
                stay.sendall(DATA[at_byte:at_byte + MIB])
            stay.shutdown(socket.SHUT_WR)

        def reload():
            edge.edit(lambda text: text.replace("        go:\n", "        new:\n"))
            edge.signal(signal.SIGHUP)
            edge.wait_line("FORWARD-REMOVED.*forward=go open=1", 10)
            edge.wait_line("FORWARD-LISTENING.*forward=new", 10)
            # The last target's list.
            hub.edit(lambda text: '- "paris/*"'.join(text.rsplit('- "amsterdam/*"', 1)))
            hub.signal(signal.SIGHUP)
            hub.wait_line("TARGET-CLOSED-TO.*target=lose agent=amsterdam/edge tunnels=1", 10)

        _, got, _ = run_threads([send, lambda: read_all(stay), reload], 60)
        check_equal(got, (len(DATA), DIGEST), "32 MiB echoed meanwhile")
        time_to_end(lose, 5)
        check(time_to_refusal(at["lose"], 5) < 1, "it is denied at once")
        check_equal(edge.forward("go")["state"], "removed", "the forward that is gone")
        go.sendall(b"still here")
        check_equal(go.recv(100), b"still here", "the echo through a port that is closed")
        try:
            harness.connect(at["go"]).close()
            raise harness.Failure("the port is still open")
        except ConnectionRefusedError:
            pass
        with harness.connect(edge.bound("new")) as new:
            new.sendall(b"x")
            check_equal(new.recv(1), b"x", "the echo through the new one")
    check_equal((edge.bound("stay"), edge.forward("stay")["opened"]), (at["stay"], 1), "the one that was not touched")
    check_quiet(hub, edge)
    check_equal([each["name"] for each in edge.view("forwards")["forwards"] if each["name"] == "go"], [],
                "the one that is gone, after its last client")


if __name__ == "__main__":
    harness.main([test_http_download, test_half_close, test_both_ways_at_once, test_target_down,
                  test_target_late, test_not_allowed, test_unknown_target, test_slow_dial, test_parallel,
                  test_resets, test_slow_reader, test_busy_machine, test_killed_agent, test_killed_after_the_end,
                  test_idle, test_limits, test_live_bytes, test_reload])
