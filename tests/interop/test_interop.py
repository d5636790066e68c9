# SPDX-License-Identifier: Apache-2.0
"""Real programs through a forward, each with its own protocol's habits: many connections or one for long, one side
silent, bulk both ways, ends in every order. A program that is not installed is skipped."""
import glob
import hashlib
import json
import os
import pwd
import re
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))

import harness
from harness import check, check_equal, free_port, note, sha256, wait_until
import programs
from programs import find, need, run, running

MIB = 1 << 20


def forward(lab, port):
    """Agents with a forward to the port. Returns them, and the port where it begins."""
    hub, edge = lab.pair(
        "targets:\n  it: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n"
        "forwards:\n  it: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: it}\n" % port)
    return hub, edge, edge.bound("it")[1]


def check_quiet(hub, edge, resets=False):
    """Nothing failed, and nothing is open any more. With `resets` programs may have reset connections themselves."""
    for agent in (hub, edge):
        wait_until(lambda: agent.view("streams") == [], 10, "%s has no stream" % agent.name)
    check_equal(hub.target("it")["denied"], 0, "denied connections")
    if not resets:
        check_equal((edge.forward("it")["failed"], hub.target("it")["failed"]), (0, 0), "failed connections")


def digest_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            data = file.read(MIB)
            if not data:
                return digest.hexdigest()
            digest.update(data)


def digest_of_tree(folder):
    digest = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(folder, "**"), recursive=True)):
        name = os.path.relpath(path, folder)
        digest.update(("%s %o\n" % (name, os.stat(path).st_mode)).encode())
        if os.path.isfile(path):
            digest.update(digest_of(path).encode())
    return digest.hexdigest()


def write_random(path, size):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(os.urandom(size))
    return path


# --- SSH and rsync ----------------------------------------------------------------------------------------


def test_ssh_and_scp(lab):
    """A command with input and output, and 16 MiB there and back."""
    ssh, scp, _, _ = need("ssh", "scp", "sshd", "ssh-keygen")
    server = programs.Ssh(lab)
    with server.server():
        hub, edge, port = forward(lab, server.port)
        said = run([ssh, *server.options(), "-p", str(port), "127.0.0.1", "echo hello; exit 0"])
        check_equal(said.strip().split("\n")[-1], "hello", "what the command said")
        there, back = lab.path("there"), lab.path("back")
        whole = digest_of(write_random(lab.path("file"), 16 * MIB))
        remote = "127.0.0.1:"
        run([scp, "-q", *server.options(), "-P", str(port), lab.path("file"), remote + there])
        check_equal(digest_of(there), whole, "SHA-256 of what was sent")
        run([scp, "-q", *server.options(), "-P", str(port), remote + there, back])
        check_equal(digest_of(back), whole, "SHA-256 of what came back")
        with open(there, "rb") as file:
            piped = run([ssh, *server.options(), "-p", str(port), "127.0.0.1", "sha256sum"], stdin=file)
        check(piped.split()[:1] == [whole], "SHA-256 of what went through a pipe")
        check_quiet(hub, edge)


def test_rsync(lab):
    """A tree from the daemon, then a changed one back to it."""
    rsync, = need("rsync")
    port = free_port()
    for index in range(200):
        write_random(lab.path("tree", "d%d" % (index % 7), "e%d" % (index % 3), "f%d" % index), (index * 7919) % 131072)
    write_random(lab.path("tree", "large"), 8 * MIB)
    os.mkdir(lab.path("upload"))
    names = {"lock": lab.path("rsync.lock"), "tree": lab.path("tree"), "upload": lab.path("upload"),
             "port": port, "id": "uid = root\ngid = root\n" if programs.is_root() else ""}
    conf = lab.write("rsyncd.conf",
                     "port = %(port)d\naddress = 127.0.0.1\nuse chroot = no\nlock file = %(lock)s\n%(id)s"
                     "[tree]\npath = %(tree)s\nread only = yes\n[upload]\npath = %(upload)s\nread only = no\n" % names)
    with running(lab, "rsyncd", [rsync, "--daemon", "--no-detach", "--config=" + conf, "--log-file=/dev/null"], port):
        hub, edge, at = forward(lab, port)
        url = "rsync://127.0.0.1:%d/" % at
        copy = lab.path("copy")
        run([rsync, "-a", url + "tree/", copy + "/"])
        check_equal(digest_of_tree(copy), digest_of_tree(lab.path("tree")), "digest of the tree that came")
        write_random(os.path.join(copy, "d1", "new"), MIB)
        os.remove(os.path.join(copy, "d2", "e2", "f2"))
        run([rsync, "-a", "--delete", copy + "/", url + "upload/"])
        check_equal(digest_of_tree(lab.path("upload")), digest_of_tree(copy), "digest of the tree that went")
        run([rsync, "-a", "--delete", "--checksum", url + "upload/", copy + "/"])
        check_equal(digest_of_tree(copy), digest_of_tree(lab.path("upload")), "digest when nothing changed")
        check_quiet(hub, edge)


# --- iperf3 -----------------------------------------------------------------------------------------------


def test_iperf3(lab):
    """Four flows beside a control connection, in both directions."""
    iperf3, = need("iperf3")
    port = free_port()
    with running(lab, "iperf3", [iperf3, "-s", "-B", "127.0.0.1", "-p", str(port)], port):
        hub, edge, at = forward(lab, port)
        for way, options in (("up", []), ("down", ["-R"])):
            said = run([iperf3, "-c", "127.0.0.1", "-p", str(at), "-P", "4", "-t", "1", "-J", *options])
            end = json.loads(said)["end"]
            sent, received = end["sum_sent"]["bytes"], end["sum_received"]["bytes"]
            check(sent > 0 and received > 0, "iperf3", way, "sent", sent, "received", received)
            for flow in end["streams"]:
                check(flow["sender"]["bytes"] > 0 and flow["receiver"]["bytes"] > 0, "a flow stood still:", flow)
            note("iperf3 -P 4 %s: %.0f MB/s" % (way, end["sum_received"]["bits_per_second"] / 8e6))
        check_equal(edge.forward("it")["opened"], 10, "connections: a control one and four flows, twice")
        check_quiet(hub, edge, resets=True)  # its end stops flows in the middle of data


# --- HTTP -------------------------------------------------------------------------------------------------


def nginx(lab):
    """An nginx that serves www/; returns it as a context, and its port."""
    program, = need("nginx")
    port = free_port()
    os.makedirs(lab.path("nginx"), exist_ok=True)
    os.makedirs(lab.path("www"), exist_ok=True)
    temps = "".join("  %s_temp_path %s;\n" % (name, lab.path("nginx", name))
                    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    # As root it would serve as www-data, who may not enter the test's folder.
    conf = lab.write("nginx.conf", "%sdaemon off;\nworker_processes 1;\npid %s;\nerror_log stderr;\n"
                     "events { worker_connections 1024; }\n"
                     "http {\n%s  access_log off;\n  keepalive_requests 1000000;\n"
                     "  server { listen 127.0.0.1:%d backlog=1024; root %s; }\n}\n" %
                     ("user root;\n" if programs.is_root() else "", lab.path("nginx", "pid"), temps, port,
                      lab.path("www")))
    words = [program, "-e", "stderr", "-p", lab.path("nginx"), "-c", conf]
    return running(lab, "nginx", words, port, stop=signal.SIGQUIT), port


def test_curl_keep_alive(lab):
    """Several files of all sizes over one connection."""
    curl, = need("curl")
    server, port = nginx(lab)
    sizes = {"empty": 0, "one": 1, "small": 1000, "page": 65536, "large": 8 * MIB, "last": 12345}
    for name, size in sizes.items():
        write_random(lab.path("www", name), size)
    with server:
        hub, edge, at = forward(lab, port)
        words = [curl, "-sS", "--fail", "--http1.1", "-w", "%{num_connects} %{http_code}\n"]
        for name in sizes:
            words += ["http://127.0.0.1:%d/%s" % (at, name), "-o", lab.path("got-" + name)]
        said = run(words).split("\n")
        check_equal(sorted(said[:-1]), ["0 200"] * (len(sizes) - 1) + ["1 200"], "connections made and status of each")
        for name in sizes:
            check_equal(digest_of(lab.path("got-" + name)), digest_of(lab.path("www", name)), "SHA-256 of " + name)
        check_equal(edge.forward("it")["opened"], 1, "connections that the forward saw")
        check_quiet(hub, edge)


def test_curl_parallel(lab):
    """100 requests at once."""
    curl, = need("curl")
    server, port = nginx(lab)
    for index in range(100):
        write_random(lab.path("www", "f%d" % index), 1000 + index * 1021)
    with server:
        hub, edge, at = forward(lab, port)
        config = "".join("url = \"http://127.0.0.1:%d/f%d\"\noutput = \"%s\"\n" % (at, i, lab.path("got%d" % i))
                         for i in range(100))
        run([curl, "-sS", "--fail", "--http1.1", "-Z", "--parallel-immediate", "--parallel-max", "100",
             "-K", lab.write("curl.conf", config)])
        for index in range(100):
            check_equal(digest_of(lab.path("got%d" % index)), digest_of(lab.path("www", "f%d" % index)),
                        "SHA-256 of file %d" % index)
        opened = edge.forward("it")["opened"]
        check(opened > 1, "all went over one connection")
        note("100 requests over %d connections" % opened)
        check_quiet(hub, edge)


def test_wrk(lab):
    """As many requests as it can, over 50 connections that stay."""
    wrk, = need("wrk")
    server, port = nginx(lab)
    write_random(lab.path("www", "page"), 4096)
    with server:
        hub, edge, at = forward(lab, port)
        said = run([wrk, "-t", "2", "-c", "50", "-d", "3s", "--timeout", "10s", "http://127.0.0.1:%d/page" % at])
        requests = re.search(r"(\d+) requests in", said)
        check(requests is not None and int(requests.group(1)) > 0, "no request was answered:", said)
        check("Socket errors" not in said and "Non-2xx" not in said, "wrk saw errors:", said)
        note("wrk: %s" % re.search(r"Requests/sec: *(\S+)", said).group(1), "requests/s")
        check_equal(edge.forward("it")["opened"], 51, "connections: 50, and one that it tries first")
        check_quiet(hub, edge, resets=True)  # it ends without waiting for the last answers


# --- Databases --------------------------------------------------------------------------------------------


def find_postgres():
    """The newest server that is installed: Debian keeps each version in a folder of its own."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda path: int(path.split("/")[4]))
    if found:
        return os.path.dirname(found[-1])
    if find("postgres") is None or find("initdb") is None:
        raise harness.Skip("postgresql is not installed (tools/setup --interop)")
    return os.path.dirname(find("postgres"))


def postgres_user():
    """It refuses to run as root: who it runs as instead."""
    if not programs.is_root():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise harness.Skip("no user to run postgresql as")


def test_postgres(lab):
    """COPY of 50 MB in and out again."""
    psql, = need("psql")
    folder, user, port = find_postgres(), postgres_user(), free_port()
    data = tempfile.mkdtemp(prefix="sn-pg-", dir="/tmp")  # not in the test's folder, which is closed to others
    lab.closers.append(lambda: shutil.rmtree(data, ignore_errors=True))
    more = {"cwd": data}
    if user is not None:
        os.chown(data, user.pw_uid, user.pw_gid)
        more.update(user=user.pw_uid, group=user.pw_gid, extra_groups=[])
    run([os.path.join(folder, "initdb"), "-D", data, "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C",
         "--no-sync", "--no-instructions"], **more)
    words = [os.path.join(folder, "postgres"), "-D", data, "-p", str(port)]
    for setting in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_wal_size=256MB",
                    "dynamic_shared_memory_type=mmap", "autovacuum=off"):
        words += ["-c", setting]
    with open(lab.path("rows"), "wb") as file:
        for number in range(50000):
            file.write(b"%d\t%s\n" % (number, os.urandom(500).hex().encode()))
    # SIGINT: it ends its sessions at once and gives its shared memory back.
    with running(lab, "postgres", words, port, stop=signal.SIGINT, **more):
        hub, edge, at = forward(lab, port)
        base = [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(at), "-U", "tester",
                "-d", "postgres"]
        # It listens before it is ready.
        wait_until(lambda: "ready to accept connections" in programs.tail(lab.path("postgres.log")), 30, "it recovers")
        run([*base, "-c", "CREATE TABLE rows (number int, value text)"])
        with open(lab.path("rows"), "rb") as file:
            run([*base, "-c", "COPY rows FROM STDIN"], stdin=file)
        with open(lab.path("out"), "wb") as file:
            run([*base, "-c", "COPY (SELECT * FROM rows ORDER BY number) TO STDOUT"], stdout=file)
        check_equal(digest_of(lab.path("out")), digest_of(lab.path("rows")), "SHA-256 of the rows")
        check_equal(run([*base, "-A", "-t", "-c", "SELECT count(*) FROM rows"]).strip(), "50000", "rows")
        check_quiet(hub, edge)


def test_redis(lab):
    """Pipelined and plain requests of 50 clients, and a large binary value."""
    redis, cli, benchmark = need("redis-server", "redis-cli", "redis-benchmark")
    port = free_port()
    words = [redis, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no",
             "--dir", lab.folder, "--daemonize", "no", "--protected-mode", "no"]
    with running(lab, "redis", words, port):
        hub, edge, at = forward(lab, port)
        base = [cli, "-h", "127.0.0.1", "-p", str(at)]
        with open(write_random(lab.path("value"), 4 * MIB), "rb") as file:
            check_equal(run([*base, "-x", "SET", "large"], stdin=file).strip(), "OK", "SET")
        with open(lab.path("got"), "wb") as file:
            run([*base, "--raw", "GET", "large"], stdout=file)
        with open(lab.path("got"), "rb") as file:
            got = file.read()
        check_equal(sha256(got[:-1]), digest_of(lab.path("value")), "SHA-256 of the value (and a line's end)")
        for more in ([], ["-P", "16"]):
            said = run([benchmark, "-h", "127.0.0.1", "-p", str(at), "-n", "20000", "-c", "50", "-q", "--csv",
                        "-t", "ping_mbulk,set,get,lpush", *more])
            rows = [line.split(",") for line in said.replace('"', "").strip().split("\n")]
            check(len(rows) >= 4, "redis-benchmark said", said)
            rates = {row[0]: row[1] for row in rows if row[0] in ("SET", "GET")}
            check_equal(len(rates), 2, "rates of SET and GET in %s" % said)
            note("redis-benchmark", *more, "SET %(SET)s/s, GET %(GET)s/s" % rates)
        check_equal(run([*base, "GET", "nothing"]).strip(), "", "GET of what is not there")
        check_quiet(hub, edge)


if __name__ == "__main__":
    harness.main([test_ssh_and_scp, test_rsync, test_iperf3, test_curl_keep_alive, test_curl_parallel, test_wrk,
                  test_postgres, test_redis])
