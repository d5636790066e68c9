# SPDX-License-Identifier: Apache-2.0
"""Whoever cannot prove to be a member is refused by either side before an actor hears of it, and is named."""
import base64
import os
import re
import shutil
import socket
import ssl
import subprocess

import harness
from harness import check, check_equal, wait_until

EXTENSION = "2.25.288199171214294804134665219997960077253"  # where agents carry their certificate
HOUR = 3600


class World:
    """A hub, an edge that is its peer, and `evil`, which dials the hub and is dialed by the edge."""

    def __init__(self, lab):
        self.lab = lab
        self.hub_port, self.evil_port = harness.free_port(), harness.free_port()
        lab.fleet("sites:\n"
                  "  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
                  "  amsterdam: {edge: {links: [paris/hub, oslo/evil]}}\n"
                  "  oslo: {evil: {listen: [\"tls://127.0.0.1:%d\"], links: [paris/hub]}}\n"
                  "settings: {reconnect: {min_ms: 50, max_ms: 200}}\n" % (self.hub_port, self.evil_port))
        self.hub, self.edge, self.evil = [lab.agent(name) for name in
                                          ("paris/hub", "amsterdam/edge", "oslo/evil")]
        self.authority = lab.path("fleet", "authority.key")
        self.evil_key = re.search(r"to: \"oslo/evil\"\s+key: \"(\S+)\"", open(self.edge.file).read()).group(1)
        self.keys = {}

    def start(self):
        self.hub.start()
        self.edge.start().wait_up(self.hub.name)
        self.hub.wait_up(self.edge.name)
        self.keys = {self.hub.name: self.hub.key(), self.edge.name: self.edge.key()}
        self.handled = self.handled_at_rest()
        return self

    def all_handled(self):
        return [agent.handled() for agent in (self.hub, self.edge)]

    def handled_at_rest(self):
        """When the outcomes of what was sent have been told, which is after the answers to it."""
        for agent in (self.hub, self.edge):
            wait_until(lambda: agent.view("ledger")["total"]["queued"] == 0, 10, "all of %s is settled" % agent.name)
        seen = []

        def is_same():
            seen.append(self.all_handled())
            return len(seen) > 1 and seen[-1] == seen[-2]
        wait_until(is_same, 10, "the actors are at rest")
        return seen[-1]

    def check_untouched(self):
        """Nobody's actor heard anything, and those who belong together still are."""
        check_equal(self.all_handled(), self.handled, "events handled by actors")
        check_equal([self.hub.peer(self.edge.name)["sessions"], self.edge.peer(self.hub.name)["sessions"]], [1, 1],
                    "sessions of the good ones")
        check(self.hub.is_up(self.edge.name), "the good peer is not up")
        self.edge.check_ping(self.hub.name, 2)
        self.hub.check_ping(self.edge.name, 2)
        self.handled = self.handled_at_rest()

    def make_evil_trusting(self):
        """It must not be the one that refuses: the good ones' keys are pinned, whatever mesh it is of."""
        pins = "".join("  \"%s\": \"%s\"\n" % pair for pair in self.keys.items())
        self.evil.edit(lambda text: text + "pins:\n" + pins)

    def forget_pin(self):
        """The edge's link to evil names no key any more."""
        self.edge.edit(lambda text: re.sub(r'(to: "oslo/evil"\s+)key: "\S+"\s+', r"\1", text))

    def check_refused(self, agent, key, reason):
        """`agent` refused the key for that reason, shows it and has logged it."""
        def ask():
            return [entry for entry in agent.refused(id=key) if entry["reason"].startswith(reason)]
        entry = wait_until(ask, 10, "%s shows %s as refused: %s" % (agent.name, key or "nobody's key", reason))[0]
        check(entry["since_ms"] < 60000 and entry["count"] >= 1, entry)
        agent.wait_line("PEER-REFUSED.*reason=%s.*key=%s" % (reason, key or "none"), 10)


def replace_cert(world, text):
    with open(world.evil.path("agent.cert"), "w") as file:
        file.write(text)


def forged(not_before, not_after, mesh="demo", name="oslo/evil"):
    def apply(world):
        world.lab.forge(world.authority, mesh, name, world.evil_key, not_before, not_after,
                        world.evil.path("agent.cert"))
    return apply


def of_another_mesh(world):
    forged(-HOUR, HOUR, mesh="other")(world)
    world.evil.edit(lambda text: text.replace('mesh: "demo"', 'mesh: "other"'))


def of_another_authority(world):
    if not os.path.exists(world.lab.path("foreign")):
        world.lab.run("init", world.lab.path("foreign"), "--mesh", "demo")
    world.lab.forge(world.lab.path("foreign", "authority.key"), "demo", "oslo/evil", world.evil_key, -HOUR, HOUR,
                    world.evil.path("agent.cert"))


def signed_by_itself(world):
    world.lab.forge(world.evil.path("node.key"), "demo", "oslo/evil", world.evil_key, -HOUR, HOUR,
                    world.evil.path("agent.cert"))


def altered(world):
    """One bit of the signature."""
    text = open(world.evil.path("agent.cert")).read()
    head, body, tail = re.match(r"(-----BEGIN.*?-----\n)(.*)(-----END.*)", text, re.S).groups()
    data = bytearray(base64.b64decode(body))
    data[-40] ^= 1
    replace_cert(world, head + base64.encodebytes(bytes(data)).decode() + tail)


# Reason, and what makes the stranger.
VARIANTS = [
    ("mismatch", of_another_mesh),
    ("expired", forged(-2 * HOUR, -HOUR)),
    ("not-yet-valid", forged(HOUR, 2 * HOUR)),
    ("bad-signature", altered),
    ("untrusted", of_another_authority),
    ("untrusted", signed_by_itself),
]


def test_certificates(lab):
    """Each wrong certificate, dialing and being dialed; the good one in the end shows that all else was right."""
    world = World(lab).start()
    world.make_evil_trusting()
    file, cert = open(world.evil.file).read(), open(world.evil.path("agent.cert")).read()
    for reason, make in VARIANTS:
        make(world)
        world.evil.start()
        for agent in (world.hub, world.edge):
            world.check_refused(agent, world.evil_key, reason)
        # The one that dials learns it, too.
        wait_until(lambda: world.evil.peer("paris/hub")["reason"], 10, "the stranger learns that it was refused")
        check(not world.evil.is_up("paris/hub"), "the stranger is up")
        check(not world.edge.is_up("oslo/evil"), "the stranger is up at the edge")
        check_equal(world.hub.peer("oslo/evil"), None, "a stranger in the hub's table of peers")
        wait_until(lambda: world.edge.peer("oslo/evil")["reason"].startswith(reason), 10, "the edge's link says why")
        check_equal(world.edge.peer("oslo/evil")["state"], "connecting", "state of the edge's link")
        world.check_untouched()
        world.evil.stop()
        replace_cert(world, cert)
        with open(world.evil.file, "w") as out:
            out.write(file)
    # Two reasons were "untrusted": one entry, counted.
    check_equal(len(world.hub.refused(id=world.evil_key)), len(VARIANTS) - 1, "entries of one key")
    world.evil.start()
    world.hub.wait_up("oslo/evil")
    world.edge.wait_up("oslo/evil")


def test_wrong_pin(lab):
    """The edge expects another key than the one that answers, although the authority vouches for that."""
    world = World(lab)
    other = lab.run("keygen", lab.path("other.key")).strip()
    world.edge.edit(lambda text: text.replace(world.evil_key, other))
    world.start()
    world.evil.start()
    world.hub.wait_up("oslo/evil")  # who has no pin for it takes it
    world.check_refused(world.edge, world.evil_key, "mismatch")
    check(not world.edge.is_up("oslo/evil"), "the edge is up with it")
    check(world.edge.peer("oslo/evil")["reason"].startswith("mismatch"), world.edge.peer("oslo/evil"))
    world.check_untouched()


def test_wrong_name(lab):
    """A member that answers at another member's address is not taken for it."""
    world = World(lab)
    world.forget_pin()
    world.edge.edit(lambda text: text.replace("127.0.0.1:%d" % world.evil_port, "127.0.0.1:%d" % world.hub_port))
    world.start()
    world.check_refused(world.edge, world.keys["paris/hub"], "mismatch")
    check(not world.edge.is_up("oslo/evil"), "the edge took one for the other")
    world.check_untouched()


# --- Programs that verify nothing ------------------------------------------------------------------------------


def octet_string(data):
    size = len(data)
    if size < 128:
        return bytes([4, size]) + data
    return bytes([4, 0x81, size]) + data if size < 256 else bytes([4, 0x82, size >> 8, size & 255]) + data


def x509(lab, name, algorithm, extension=None):
    """A self-signed X.509 certificate; returns certificate, key, and for Ed25519 the id of the key."""
    key, cert = lab.path(name + ".key"), lab.path(name + ".crt")
    if shutil.which("openssl") is None:
        raise harness.Skip("there is no openssl program to make certificates with")
    words = ["openssl", "req", "-x509", "-newkey", algorithm, "-nodes", "-keyout", key, "-out", cert, "-days", "1",
             "-subj", "/CN=stranger"]
    if extension is not None:
        words += ["-addext", "%s=DER:%s" % (EXTENSION, octet_string(extension).hex(":"))]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)
    if not algorithm.startswith("ed25519"):
        return cert, key, ""
    public = subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-outform", "DER"], capture_output=True).stdout
    return cert, key, "ed25519:" + public[-32:].hex()


def careless(side, cert=None, key=None, alpn="sennit/1"):
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn is not None:
        context.set_alpn_protocols([alpn])
    if cert is not None:
        context.load_cert_chain(cert, key)
    return context


def agent_cert(agent):
    body = re.search(r"-----BEGIN.*?-----\n(.*)-----END", open(agent.path("agent.cert")).read(), re.S).group(1)
    return base64.b64decode(body)


def hear(address, context):
    """Dials, says hello and more, and returns what it hears: the other side must say nothing, and end."""
    with harness.connect(address) as raw:
        try:
            with context.wrap_socket(raw) as tls:
                tls.sendall(b"\x01" + bytes(200))
                heard = b""
                while True:
                    data = tls.recv(4096)
                    if not data:
                        return heard
                    heard += data
        except (ssl.SSLError, ConnectionError):
            return b""


def test_careless_dialers(lab):
    """TLS clients that take any server: without a certificate, with one of their own, with a stolen one."""
    world = World(lab).start()
    address = ("127.0.0.1", world.hub_port)
    rsa, ed, stolen = x509(lab, "rsa", "rsa:2048"), x509(lab, "ed", "ed25519"), \
        x509(lab, "stolen", "ed25519", agent_cert(world.edge))
    for what, (cert, key, key_id), reason in (("no certificate", (None, None, ""), "untrusted"),
                                              # There is no way to prove an RSA key here, so it is not even shown.
                                              ("an RSA key", (rsa[0], rsa[1], ""), "untrusted"),
                                              ("a key of its own", ed, "untrusted"),
                                              ("a certificate of somebody else's key", stolen, "bad-signature")):
        heard = hear(address, careless(ssl.PROTOCOL_TLS_CLIENT, cert, key))
        check_equal(heard, b"", "what a dialer with %s heard" % what)
        world.check_refused(world.hub, key_id, reason)
        world.check_untouched()
    # Old protocols and other ones do not even come so far.
    old = careless(ssl.PROTOCOL_TLS_CLIENT, ed[0], ed[1])
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    check_equal(hear(address, old), b"", "what a TLS 1.2 dialer heard")
    check_equal(hear(address, careless(ssl.PROTOCOL_TLS_CLIENT, ed[0], ed[1], "h2")), b"", "what h2 heard")
    check_equal(hear(address, careless(ssl.PROTOCOL_TLS_CLIENT, ed[0], ed[1], None)), b"", "what no ALPN heard")
    world.check_untouched()


def listen_carelessly(lab, port, context, heard):
    """A TLS server that takes any client; what it hears goes to `heard`."""
    def handle(raw):
        raw.settimeout(10)
        try:
            with context.wrap_socket(raw, server_side=True) as tls:
                data = tls.recv(4096)
                if data:
                    heard.append(data)
        except (ssl.SSLError, OSError):
            pass

    return lab.server(handle, port)


def test_careless_listeners(lab):
    """TLS servers that take any client: the dialer tells them nothing, and says who they were."""
    world = World(lab)
    world.forget_pin()  # which would be looked at first
    world.start()
    rsa, ed, stolen = x509(lab, "rsa", "rsa:2048"), x509(lab, "ed", "ed25519"), \
        x509(lab, "stolen", "ed25519", agent_cert(world.evil))
    heard = []
    # One with an RSA key gives up by itself: it is told that none of its signatures would do.
    for (cert, key, key_id), reason in ((rsa, "protocol"), (ed, "untrusted"), (stolen, "bad-signature")):
        server = listen_carelessly(lab, world.evil_port, careless(ssl.PROTOCOL_TLS_SERVER, cert, key), heard)
        if key_id:
            world.check_refused(world.edge, key_id, reason)
        wait_until(lambda: world.edge.peer("oslo/evil")["reason"].startswith(reason), 10, "the link says why")
        check_equal(world.edge.peer("oslo/evil")["state"], "connecting", "state of the link")
        world.check_untouched()
        server.sock.shutdown(socket.SHUT_RDWR)
        server.close()
    check_equal(heard, [], "what the listeners heard")
    check_equal(world.edge.metric("net.sessions"), 1, "sessions of the edge")


if __name__ == "__main__":
    harness.main([test_certificates, test_wrong_pin, test_wrong_name, test_careless_dialers,
                  test_careless_listeners])
