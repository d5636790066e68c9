# SPDX-License-Identifier: Apache-2.0
"""A member with a good certificate that breaks every rule above TLS: its own session may suffer, nobody else's, and no
handler runs for anything but a genuine message, once. STOP_STEP=1 in the environment stops handshakes at every byte,
RANDOM_FRAMES=10000 sends so many."""
import os
import random
import time

import harness
import hostile
from harness import check, check_equal, wait_until

STOP_STEP = int(os.environ.get("STOP_STEP", "0"))  # 0: what the time allows
RANDOM_FRAMES = int(os.environ.get("RANDOM_FRAMES", "0"))
HUGE = (1 << 32) - 1, 1 << 60
PARCEL_MAX = 256 * 1024
MESSAGE_MAX = 192 * 1024
HOPS = 4  # the hop count of the framing counts in its length

# Types of frames.
HELLO, AUTH, READY, REFUSE, PING, PONG, GOODBYE = range(1, 8)
OPEN, ACCEPT, DATA, ACK, END, RESET = range(16, 22)

# --- Parcels -------------------------------------------------------------------------------------------------------

# Where a byte of a parcel is altered, and how its refusal is counted. The hop count (194) is open to change.
PARTS = [("magic", 0, "other"), ("version", 3, "other"), ("class", 4, "other"), ("flags", 5, "auth"),
         ("source", 6, "other"), ("destination", 38, "other"), ("source's epoch", 77, "other"),
         ("destination's epoch", 85, "other"), ("sequence, far ahead", 86, "other"), ("size", 97, "other"),
         ("digest", 98, "auth"), ("signature", 130, "auth"), ("end of the signature", 193, "auth"),
         ("nonce", 195, "auth"), ("ciphertext", 219, "auth"), ("tag", 290, "auth")]


def check_counted(world, member, before, kind, what, count=1):
    def ask():
        now = world.refusals(member)
        return all(now[key] == before[key] + (count if key == kind else 0) for key in now)
    try:
        wait_until(ask, 10, "counted")
    except harness.Failure:
        raise harness.Failure("%s: expected %d more of %s than %s, got %s" %
                              (what, count, kind, before, world.refusals(member)))


def try_parcels(world, member):
    """Parcels that are repeated, altered, of another place, time or class, or forged ahead of the genuine one."""
    member.join()
    first, _ = member.make()
    member.send(first)
    member.expect(first)
    before = world.refusals(member)
    member.send(first, "count=3")
    check_counted(world, member, before, "replay", "the same again", 3)
    # Each part of one that has not been seen; then that one itself.
    genuine, _ = member.make()
    for what, at, kind in PARTS:
        before = world.refusals(member)
        member.do("alter name=%s as=x at=%d xor=1" % (genuine, at))
        member.send("x")
        check_counted(world, member, before, kind, what)
    member.do("alter name=%s as=x cut=1" % genuine)
    member.do("alter name=%s as=y grow=1" % genuine)
    before = world.refusals(member)
    member.send("x")
    member.send("y")
    check_counted(world, member, before, "other", "longer and shorter ones", 2)
    member.send(genuine)
    member.expect(genuine)
    # What is signed well, and not meant for this place.
    sequence = member.make(name="next")[1]["sequence"]
    for lie in ("dest=" + "11" * 32, "src=" + "22" * 32, "src_epoch=1", "src_epoch=0x7fffffffffffffff", "dest_epoch=1",
                "dest_epoch=0xffffffffffffffff", "seq=%d" % (sequence + 5), "seq=0xffffffffffffffff"):
        before = world.refusals(member)
        member.make("%s %s" % (lie, "" if lie.startswith("seq") else "seq=%d" % sequence), name="x")
        member.send("x")
        check_counted(world, member, before, "other", lie)
    before = world.refusals(member)
    member.send("next", "class=0")
    check_counted(world, member, before, "other", "the other class")
    # Acknowledgements of a time to come, without a good signature: the real ones still count.
    before = world.refusals(member)
    member.make("ack_only=on acked=0 seq=0x7fffffffffffffff", name="ack")
    member.do("alter name=ack as=x at=140 xor=1")
    member.send("x")
    check_counted(world, member, before, "auth", "a forged acknowledgement")
    member.send("next")
    member.expect("next")
    wait_until(lambda: world.ledger(member)["queued"] == 0, 10, "real acknowledgements are taken")
    # Another boot of the member, and of the hub: the old ones are of no use.
    member.join()
    before = world.refusals(member)
    member.send(first)
    member.send("next")
    check_counted(world, member, before, "other", "those of a former boot of the member", 2)
    member.ask()
    metric = world.hub.metric("net.parcels_refused")
    totals = world.refusals(member)
    check_equal(metric, totals["auth"] + totals["other"], "refusals by the metric and by the ledger")
    world.check_genuine()


def try_after_restart(world, member):
    """What was recorded before the hub's restart, on a session after it. To be called last."""
    member.join()
    recorded, _ = member.make()
    member.send(recorded)
    member.expect(recorded)
    member.do("close")
    world.hub.stop()
    world.hub.start()
    member.join(boot=False)
    before = world.refusals(member)
    member.send(recorded, "count=2")
    check_counted(world, member, before, "other", "those to a former boot of the hub", 2)
    member.ask()
    check_equal(world.ledger(member)["parcels"]["messages_received"], 1, "messages after the restart")


def bodies():
    """Bodies that are signed and sealed well and are none: msgpack as message.h describes it, with a fault."""
    message = "8402a470696e6703a470696e6704a470696e67" + "07c400"  # to, from, type, an empty payload
    yield from ("c1", "80", "90", "00", "c0", "ff", "8103", "810300", "dfffffffff", "8104ddffffffff", "8104dcffff")
    yield "820301" + "0490"  # no message
    yield "820301" + "0491" + "80"  # one without names
    yield "820302" + "0491" + message  # a base ahead of the sequence
    yield "830301" + "0301" + "0491" + message  # a key twice
    yield "820301" + "0492" + message  # fewer than announced
    yield "820301" + "0491" + message + "00"  # something behind it
    yield "820301" + "0491" + message.replace("02a470696e67", "0205")  # a handle that was not given
    yield "820301" + "0491" + message.replace("02a470696e67", "029205a470696e67")  # one out of turn
    yield "820301" + "0491" + message.replace("02a470696e67", "02a4ff696e67")  # no text
    yield "820301" + "0491" + message.replace("02a470696e67", "02a470690067")  # a NUL in it
    yield "820301" + "0491" + message.replace("02a470696e67", "02d940" + "61" * 64)  # a name too long
    for name in ("a4702067", "a470223d67", "a45069676e", "a4700a7067", "a0", "a12e"):  # no names of actors and types
        yield "820301" + "0491" + message.replace("03a470696e67", "03" + name)
        yield "820301" + "0491" + message.replace("04a470696e67", "049200" + name)
    yield "820301" + "0491" + "8501" + "03" + message[2:]  # a kind that is none
    yield "820301" + "0491" + "8506cfffffffffffffffff" + message[2:]  # a deadline beyond the end of time
    yield "820301" + "0491" + "8407c6ffffffff" + message[2:]  # a payload of 4 GiB
    yield "820301" + "0491" + "8508" + "91" * 40 + "c0" + message[2:]  # nested deeply
    yield "8201cd10000301"  # acknowledges what was not sent, without a message
    yield "8301cfffffffffffffffff0301" + "0491" + message  # the same, with one
    yield "8401000291920190" + "0301" + "0491" + message  # refusals of what is not acknowledged
    yield "8301a470696e67"


def try_bodies(world, member):
    """A peer that signs nonsense loses its session, and nothing of the parcel is done."""
    for body in bodies():
        member.join()
        before = world.refusals(member)
        member.make("body=" + body, name="x")
        member.send("x")
        member.ends("the body " + body)
        check_counted(world, member, before, "other", "the body " + body)
    # Acknowledgements: of what was not sent, and going back.
    member.join()
    member.ask("acked=0")
    member.ask("acked=0")
    member.make("ack_only=on acked=1000000", name="x")
    member.send("x")
    member.ends("an acknowledgement of what was not sent")


def try_refused_messages(world, member):
    """Messages to nobody, to actors that are not for it, and answers that nobody asked for: each is refused, and how many
    refusals the hub keeps is bounded."""
    refused = world.ledger(member)["parcels"]["messages_refused"]
    late = world.hub.metric("actor.late_replies")
    member.join()
    for lie in ("to=nobody", "to=control", "to=tunnel type=tunnel.open", "kind=0 to=control", "kind=2 correlation=0",
                "kind=2 correlation=1", "kind=2 correlation=0xffffffffffffffff"):
        name, _ = member.make(lie)
        member.send(name)
        member.do("wait for=acked name=%s" % name)
        check(member.is_up(), lie, "ended the session")
    got = world.ledger(member)["parcels"]["messages_refused"]
    # Answers are placed: the actor that asked, if any did, tells them from late ones, and drops them.
    check_equal(got, refused + 5, "messages refused")
    member.genuine += 2
    wait_until(lambda: world.hub.metric("actor.late_replies") >= late + 2, 10, "answers that nobody asked for are dropped")
    peak = 0
    for index in range(9):
        member.make("base=1 kind=0 to=nobody messages=4000 size=0", name="lot%d" % index)
        member.do("send name=lot%d" % index, None)
        peak = max(peak, harness.rss_kib(world.hub.pid))
    member.ends("more refusals than a peer may cause")
    if not world.lab.is_sanitized:
        check(peak < world.rss + hostile.REST_KIB, "memory went from", world.rss, "to", peak, "KiB")


def try_sizes(world, member):
    """Messages and parcels of the largest size pass; a byte more, or a length that lies, ends that session only."""
    for size in (0, 1, MESSAGE_MAX - 1, MESSAGE_MAX):
        if not member.is_up():
            member.join()
        name, _ = member.make("size=%d" % size)
        member.send(name)
        member.expect_any(name)
    before = world.refusals(member)
    member.do("sp hex=01%016x00000001 fill=%d" % (PARCEL_MAX + HOPS, PARCEL_MAX))
    check_counted(world, member, before, "other", "a parcel of the largest size, of nothing")
    member.ask()
    name, _ = member.make("size=%d" % (MESSAGE_MAX + 1))
    member.send(name)
    member.ends("a message that is a byte too long")
    peak = harness.rss_kib(world.hub.pid)
    lengths = (PARCEL_MAX + HOPS + 1, 0, HOPS) + HUGE + ((1 << 64) - 1,)
    for index, head in enumerate(["01%016x00000001" % length for length in lengths] +
                                 ["00", "02", "01%016x00000000" % 100, "01%016x00000002" % 100]):
        member.join()
        member.do("sp class=%d hex=%s fill=1000" % (index % 2, head))
        member.ends("framing of " + head)
        peak = max(peak, harness.rss_kib(world.hub.pid))
    for size in (PARCEL_MAX + 1,) + HUGE[:1]:
        member.join()
        member.do("frame type=%d stream=1 size=%d fill=2000" % (DATA, size))
        member.ends("a frame with %d bytes" % size)
        member.join()
        member.do("frame type=%d size=%d fill=2000" % (PING, size))
        member.ends("a heartbeat of %d bytes" % size)
    if not world.lab.is_sanitized:
        check(peak < world.rss + hostile.REST_KIB, "memory went from", world.rss, "to", peak, "KiB")
    member.ask()


def try_lost_acks(world, member):
    """The same parcel on five sessions, as if no acknowledgement had come: the handler runs once, what follows is
    not held up. And the other way round: what the hub sends comes again, the same bytes, until it is acknowledged."""
    hub = world.hub
    member.join()
    name, _ = member.make()
    for index in range(5):
        if index > 0:
            member.join(boot=False)
        member.do("set acks=off answers=off")
        before = world.refusals(member)
        member.send(name)
        if index == 0:
            member.expect(name)
        else:
            check_counted(world, member, before, "replay", "session %d" % index)
        done, _ = hub.ping(member.name, 1, "--timeout", "200")
        check_equal(done.returncode, 1, "exit status of a ping that is not answered")
        member.do("close how=%s" % ("fin", "reset")[index % 2])
        # The hub may not have noticed yet; the same boot takes over at once.
    member.join(boot=False)
    member.do("set acks=on answers=on")
    member.ask()
    hub.check_ping(member.name, 3)
    member.genuine += 3  # the answers to the hub's pings
    answer = member.do("wait for=repeats ms=10000")
    check(answer["repeats"] > 0, "the hub did not send again")
    check_equal((answer["repeats_altered"], answer["wrong"]), (0, 0), "what came again differs")
    wait_until(lambda: world.ledger(member)["queued"] == 0, 10, "all that waited is settled")
    ledger = world.ledger(member)
    check_equal(ledger["accepted"], ledger["delivered"] + sum(ledger["undelivered"].values()) +
                sum(ledger["unknown"].values()), "accepted = settled")


def test_messages(lab):
    world = hostile.World(lab, ["evil"])
    member = world.member("evil")
    for attempt in (try_parcels, try_bodies, try_refused_messages, try_sizes, try_lost_acks):
        world.run(attempt, member)
    member.do("close")
    world.check_unharmed()
    try_after_restart(world, world.member("evil"))


# --- Frames --------------------------------------------------------------------------------------------------------


def frames_that_end_it(stream, at, other):
    """Breaches of the protocol of sessions and streams. `stream` is one of the link's, on which `at` bytes were sent;
    `other` is an id of the hub's that it has not used."""
    yield from ("frame type=%d" % kind for kind in (0, 8, 15, 22, 255, HELLO, READY))
    yield "frame type=%d fill=64" % AUTH
    yield from ("frame type=%d fill=%d" % pair for pair in ((PING, 7), (PING, 9), (PONG, 7), (READY, 1)))
    yield "frame type=%d flags=1 fill=8" % PING
    yield "frame type=%d qos=4 fill=8" % PING
    yield "frame type=%d stream=1 fill=8" % PING
    yield "frame type=%d offset=1 fill=8" % PING
    yield "frame type=%d fill=8193" % REFUSE
    yield "frame type=%d hex=c1" % REFUSE
    yield "raw hex=050000010000000800000000000000000000000000000000 fill=8"
    # Streams that never were, were not ours to open, or are opened wrongly.
    yield from ("frame type=%d stream=0 fill=8" % kind for kind in (OPEN, ACCEPT, DATA, ACK, END, RESET))
    yield from ("frame type=%d ordinal=900 fill=8" % kind for kind in (ACCEPT, DATA, ACK, END))
    yield "frame type=%d ordinal=900 u32=3" % RESET
    yield "frame type=%d stream=%d u32=3" % (RESET, other)
    yield "frame type=%d ordinal=900 u64=1 flags=0x80" % ACK
    yield "open stream=%d" % other
    yield "open stream=0x4000000000000001"
    yield "open stream=0xffffffffffffffff"
    yield "open ordinal=900 service="
    yield "open ordinal=900 credit=1"
    yield "open ordinal=900 credit=0x7fffffffffffffff"
    yield "frame type=%d ordinal=900 hex=c1" % OPEN
    yield "frame type=%d ordinal=900 hex=dfffffffff" % OPEN
    yield "frame type=%d ordinal=900 offset=1 hex=80" % OPEN
    yield "open ordinal=900 count=2"
    # A stream that is: data before, between and beyond, empty, and with numbers that wrap.
    yield "frame type=%d stream=%d offset=%d" % (DATA, stream, at)
    for offset in (0, at - 1, at + 1, 1 << 30, 1 << 62, (1 << 63) + at, (1 << 64) - 1, (1 << 64) - 4):
        yield "frame type=%d stream=%d offset=%d fill=8" % (DATA, stream, offset)
    for total in (0, at - 1, at + 1, (1 << 64) - 1):
        yield "frame type=%d stream=%d offset=%d u64=0" % (END, stream, total)
    yield "frame type=%d stream=%d offset=%d u64=1" % (END, stream, at)  # a wrong checksum
    yield "frame type=%d stream=%d offset=%d fill=7" % (END, stream, at)
    # Acknowledgements of what was not sent, that go back, and credit that is taken back or wraps.
    for ack, limit in ((1 << 20, 1 << 21), ((1 << 64) - 1, (1 << 64) - 1), (0, (1 << 64) - 1), (8, 0), (8, 7),
                       (8, (1 << 30) + 9), (0, 1), (0, 0)):
        yield "frame type=%d stream=%d offset=%d u64=%d" % (ACK, stream, ack, limit)
    yield "frame type=%d stream=%d offset=8 u64=8 flags=2" % (ACK, stream)
    yield "frame type=%d stream=%d offset=0 fill=9" % (ACK, stream)
    yield "frame type=%d stream=%d offset=0" % (ACCEPT, stream)
    yield "frame type=%d stream=%d offset=%d" % (ACCEPT, stream, (1 << 64) - 1)
    # The end of one of the link's streams is the end of the link.
    yield from ("frame type=%d stream=%d u32=%d" % (RESET, stream, reason) for reason in (0, 24, 0xffffffff))


def frames_that_do_not(stream, other):
    """What a peer may do, however little sense it makes, and what it is answered."""
    yield "frame type=%d fill=8" % PONG, {}
    yield "frame type=%d fill=8 count=4000" % PING, {"pong": 100}
    yield "open ordinal=2000", {"reset": 1}
    yield "open ordinal=2001 service=link meta=00", {"reset": 1}
    yield "open ordinal=2002 service=link meta=ff", {"reset": 1}
    yield "open ordinal=2003 flags=0x80", {"reset": 1}
    yield "frame type=%d ordinal=2000 u64=1 flags=0x80" % ACK, {"reset": 1}
    yield "frame type=%d ordinal=2000 u64=1" % ACK, {}
    yield "frame type=%d ordinal=2000 u32=3 count=100" % RESET, {}
    yield "frame type=%d ordinal=2000 fill=100 count=100" % DATA, {}
    yield "open ordinal=2100 step=2 count=3000", {"reset": 3000}


def try_frames(world, member):
    link = member.join()
    stream, at = link["stream"], link["written"]
    other = 0x100001 if stream % 2 == (0 if link["is_ours"] else 1) else 0x100000
    for line, heard in frames_that_do_not(stream, other):
        member.do(line)
        for kind, count in heard.items():
            member.hear(kind, count)
        check(member.is_up(), line, "ended the session")
    member.ask()
    tried = 0
    for line in frames_that_end_it(stream, at, other):
        member.join()
        member.do(line)
        member.ends(line)
        tried += 1
    harness.note("%d sessions ended" % tried)
    member.ask()
    world.hub.wait_line("PEER-DOWN.*peer=oslo/evil.*broke the protocol", 5)


def try_random_frames(world, member):
    """Frames of numbers that are likely to hurt."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    harness.note("seed", seed)
    numbers = [0, 1, 7, 8, 9, 255, 8192, 65535, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63,
               (1 << 64) - 1]
    link = member.join()
    for _ in range(RANDOM_FRAMES or (20 if world.lab.is_sanitized else 100)):
        if not member.is_up():
            link = member.join()
        kind = rng.choice((DATA, ACK, ACK, END, RESET, OPEN, ACCEPT, rng.randrange(256)))
        stream = rng.choice((link["stream"], link["stream"] ^ 1, link["stream"] + 2, rng.choice(numbers)))
        offset = rng.choice((link["written"], 0, rng.choice(numbers)))
        flags = rng.choice((0, 0, 0x80, 1 << rng.randrange(8), rng.randrange(256)))
        payload = rng.choice(("u64=%d" % rng.choice(numbers), "u32=%d" % rng.randrange(40), "fill=%d" % rng.randrange(100),
                              "hex=" + rng.randbytes(rng.randrange(1, 40)).hex()))
        member.do("frame type=%d flags=%d stream=%d offset=%d %s" % (kind, flags, stream, offset, payload), None)
    member.do("close")


def try_takeovers(world, member):
    """The same boot again and again, each time taking over from itself, with and without a message link."""
    member.do("boot")
    for index in range(16 if world.lab.is_sanitized else 48):
        check_equal(member.dial("slot=%d" % (index % 8))["step"], "up", "a takeover")
        if index % 3 == 0:
            member.do("link slot=%d ms=1000" % (index % 8), None)
    for slot in range(8):
        member.do("close slot=%d" % slot)


def try_garbage_in_tls(world, member):
    """Bytes below and above TLS that are none of it."""
    for line in ("tcp fill=100", "tcp hex=170303ffff fill=70000", "tcp hex=15030300020228", "tcp hex=1603030001ff",
                 "raw fill=100000", "raw hex=ffffffffffffffff fill=16"):
        member.join()
        member.do(line)
        member.ends(line)


class Sink:
    """A service behind the hub: keeps what each connection sent, and whether it ended as it should."""

    def __init__(self, lab):
        self.ended = []
        self.port = lab.server(self._read).port

    def _read(self, conn):
        data = b""
        end = "end"
        try:
            while piece := conn.recv(65536):
                data += piece
        except ConnectionResetError:
            end = "reset"
        self.ended.append((end, data))

    def targets(self):
        return "targets:\n  sink: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"oslo/*\"]}\n" % self.port

    def last(self, count):
        wait_until(lambda: len(self.ended) >= count, 20, "%d connections of the service have ended" % count)
        return self.ended[count - 1]


def try_tunnels(world, member):
    """Streams to a service: bytes that come twice, differently, are taken once; whatever the stream's end lacks, the
    service sees no good end."""
    service = "service=tunnel qos=2 meta=" + b"sink".hex()

    def tunnel(ordinal):
        if not member.is_up():
            member.join()
        member.heard.clear()
        member.do("open ordinal=%d %s" % (ordinal, service))
        member.hear("accept", 1)
        return "ordinal=%d" % ordinal

    def frame(kind, stream, offset, more):
        member.do("frame type=%d %s offset=%d %s" % (kind, stream, offset, more))

    stream = tunnel(500)
    frame(DATA, stream, 0, "hex=" + b"hello".hex())
    frame(ACK, stream, 0, "u64=65536 flags=0x80")  # it says that it moved from another connection
    frame(DATA, stream, 0, "hex=" + b"HELLO world".hex())
    frame(DATA, stream, 3, "hex=" + b"XYZ".hex())
    frame(END, stream, 11, "u64=1")
    member.hear("reset", 1)
    check(member.is_up(), "a wrong checksum ended the session, not the stream")
    check_equal(world.sink.last(1), ("reset", b"hello world"), "what the service got")
    ends = ((END, 999, "u64=1"), (END, 1001, "u64=1"), (DATA, 999, "fill=2"), (DATA, 1001, "fill=2"), (ACK, 1, "u64=9"))
    for index, (kind, offset, more) in enumerate(ends):
        stream = tunnel(501)
        frame(DATA, stream, 0, "fill=1000")
        frame(kind, stream, offset, more)
        member.ends("a stream with %d at %d" % (kind, offset))
        member.join()  # another boot: nothing of the former one waits
        check_equal(world.sink.last(2 + index)[0], "reset", "end of the service's connection")
    stream = tunnel(502)
    for index in range(64):
        member.do("frame type=%d %s offset=%d fill=262144" % (DATA, stream, index * 262144), None)
    member.ends("16 MiB without credit")


def try_floods(world, member):
    """100,000 streams are opened by one that reads the answers, and by one that does not."""
    count = 100000 if not world.lab.is_sanitized else 20000
    member.join()
    answer = member.do("open ordinal=1000 step=2 count=%d" % count)
    check_equal((answer["frames"], answer["end"]), (count, "none"), "streams opened")
    check(member.is_up(), "opening streams ended the session")


def try_silence(world, member):
    """Four at once: one floods and reads nothing, one answers no heartbeat and asks on, two stop in the middle of a frame.
    All are given up, by the deadline of heartbeats."""
    hub = world.hub
    deaf, rude, half, header = [world.member(name) for name in ("deaf", "rude", "half", "header")]
    for each in (deaf, rude, half, header):
        each.join()
    deaf.do("set deaf=on")
    deaf.do("open ordinal=1000 step=2 count=30000", None)
    deaf.do("frame type=%d fill=8 count=20000" % PING, None)
    for each in (rude, half, header):
        each.do("set pong=off")
    half.do("frame type=%d stream=%d offset=8 size=100000 hex=0100000000" % (DATA, half.link["stream"]))
    header.do("raw hex=0500")

    def all_down():
        rude.do("frame type=%d fill=8" % PING, None)
        return not any(hub.is_up(each.name) for each in (deaf, rude, half, header))
    wait_until(all_down, 20, "all are given up")
    for each in (rude, half, header):
        each.ends("silence")
        hub.wait_line("PEER-DOWN.*peer=%s.*no answer to heartbeats" % each.name, 5)
    deaf.do("close how=reset")
    for each in (deaf, rude, half, header):
        each.ask()
        each.do("close")


def test_streams(lab):
    sink = Sink(lab)
    world = hostile.World(lab, ["evil", "deaf", "rude", "half", "header"],
                          "  heartbeat: {interval_ms: 200, deadline_ms: 2000}\n" + sink.targets())
    world.sink = sink
    member = world.member("evil")
    for attempt in (try_frames, try_random_frames, try_tunnels, try_garbage_in_tls, try_takeovers, try_floods, try_silence):
        world.run(attempt, member)
    world.check_unharmed()


# --- Handshakes ----------------------------------------------------------------------------------------------------


def try_hello(world, member):
    """HELLOs that lie, handshakes out of order, clocks from beyond time, and a member that reads no answer."""
    hub = world.hub
    for lie, reason in (("version=2", "version"), ("version=0", "version"), ("mesh=other", "mismatch"),
                        ("agent=amsterdam/good", "mismatch"), ("id=wrong", "mismatch"), ("auth=wrong", "bad-signature")):
        answer = member.dial(lie)
        check("refused" in answer and answer["refused"]["reason"] == reason, lie, "was answered by", answer)
    for lie in ("session=0", "lane=9", "epoch=0", "order=wrong"):
        member.dial(lie)
        member.ends(lie)
    for lie in ("lane=1", "lane=8", "lane=1 session=99"):
        check_equal(member.dial(lie)["refused"]["text"], "there is no such session", lie)
    member.join()
    check_equal(member.dial("slot=1 lane=1 session=99")["refused"]["text"], "there is no such session", "wrong session")
    check_equal(member.dial("slot=1 lane=1")["step"], "up", "a second lane")
    check_equal(member.dial("slot=2 lane=1")["refused"]["text"], "there is no such session", "a third lane")
    member.ask()
    for wall in (0x8000000000000000, 0x7fffffffffffffff, 0, (1 << 64) - 1):
        member.do("boot")
        check_equal(member.dial("wall=%d" % wall)["step"], "up", "a clock of %d" % wall)
        wait_until(lambda: hub.is_up(member.name), 10, "up")
        hub.view("peers")
    member.do("boot")
    member.dial()
    # A refusal of a session that is up, with words that are to be printed.
    member.do("frame type=%d hex=8300070100%s" % (REFUSE, "02aa" + b'x"\x1b[31m \xc2\x9b'.hex()))
    member.ends("a refusal")
    wait_until(lambda: hub.peer(member.name)["reason"].startswith("denied: refused by the peer"), 10, "it is shown")
    member.ask()


def try_stops(world, member):
    """Dialing, a member stops after every so many bytes, and hangs up or falls silent; likewise when it is dialed."""
    member.do("boot")
    whole = member.dial()["sent"]
    member.do("close")
    points = range(0, whole + 1, STOP_STEP or (64 if world.lab.is_sanitized else 16))
    for index, point in enumerate(points):
        slot = index % 8
        member.dial("slot=%d stop=%d ms=%d" % (slot, point, 20), None)
        if index % 8 < 6:  # two of eight stay, silent, until their turn comes again
            member.do("close slot=%d how=%s" % (slot, ("fin", "reset")[index % 2]))
    harness.note("%d handshakes of %d bytes were left" % (len(points), whole))
    for slot in range(8):
        member.do("close slot=%d" % slot)


def accept_up(member):
    """The next connection of the hub, if it becomes a session: one that waited here may be given up by now."""
    answer = member.do("accept", None)
    if answer.get("step") == "up":
        return answer
    member.do("close how=reset", None)
    return None


def try_as_listener(world, member):
    """The same from the side that is dialed: it lies, or stops after so many bytes; the hub dials again and again, and
    has its session as soon as all is well."""
    hub = world.hub
    member.do("listen port=%d" % world.lazy_port)
    answer = wait_until(lambda: accept_up(member), 60, "dialed by the hub")
    member.do("close how=goodbye")
    whole = answer["sent"]
    for lie in ("lane=1", "session=5", "mesh=other", "agent=oslo/evil", "id=wrong", "auth=wrong", "order=wrong", "version=9",
                "epoch=1"):
        member.do("accept " + lie)
        member.do("wait for=end", None)
        check(not hub.is_up(member.name), "a listener with", lie, "is up")
    for index, point in enumerate(range(0, whole + 1, STOP_STEP or whole // (4 if world.lab.is_sanitized else 12))):
        member.do("accept ms=20 stop=%d" % point, None)
        member.do("close how=%s" % ("fin", "reset")[index % 2])
    member.do("boot")
    wait_until(lambda: accept_up(member), 60, "dialed by the hub")
    member.do("link")
    member.ask()
    member.do("close")


def try_duplicates(world, lab):
    """Whoever comes with the key of an agent that lives is refused and told so, whatever epoch it claims; the agent
    itself restarts at will. Without an agent that lives, an epoch that was used is not taken again."""
    hub = world.hub
    twin = lab.agent("oslo/twin").start().wait_up(hub.name)
    wait_until(lambda: hub.is_up(twin.name), 10, "up")
    sessions = hub.peer(twin.name)["sessions"]
    epoch = twin.view("status")["epoch"]
    clone = world.member("twin")
    for claim in (epoch + 1, (1 << 63) - 1, epoch):
        clone.do("boot epoch=%d" % claim)
        answer = clone.dial()
        check("refused" in answer, "a clone of epoch", claim, "was answered by", answer)
        check_equal(answer["refused"]["reason"], "duplicate", "why")
        check("oslo/twin is alive at 127.0.0.1:" in answer["refused"]["text"], answer)
    clone.do("boot epoch=%d" % (epoch - 1))
    answer = clone.dial()["refused"]
    check_equal((answer["reason"], answer["need_epoch"]), ("replay", epoch), "an older epoch")
    for slot in range(8):
        clone.do("boot epoch=%d" % (epoch + 2 + slot))
        clone.dial("slot=%d until=auth" % slot)
    for slot in range(8):
        check("refused" in clone.do("wait for=refused slot=%d" % slot), "a clone among many stays")
    check_equal(hub.peer(twin.name)["sessions"], sessions, "sessions of the one that was there")
    check(hub.refused(agent=twin.name), "the hub does not show who was refused")
    twin.check_ping(hub.name)
    # It restarts, quickly: not mistaken for a clone of itself, nor kept out by clones that do not hang up.
    twin.kill()
    begin = time.monotonic()
    twin.start().wait_up(hub.name, 20)
    twin.check_ping(hub.name)
    harness.note("up again after %.2f s" % (time.monotonic() - begin))
    epoch = twin.view("status")["epoch"]
    twin.stop()
    wait_until(lambda: not hub.is_up(twin.name), 10, "it is gone")
    clone.do("boot epoch=%d" % epoch)
    answer = clone.dial()
    check("refused" in answer, "another boot of the same epoch was answered by", answer)
    check_equal((answer["refused"]["reason"], answer["refused"]["need_epoch"]), ("replay", epoch), "why")
    clone.do("boot epoch=%d" % (epoch + 1))
    clone.join(boot=False)
    clone.do("close how=goodbye")


def test_handshakes(lab):
    world = hostile.World(lab, ["evil", "twin"], accept="{per_address: 64, timeout_ms: 60000}", lazy=True)
    member = world.member("evil")
    for attempt in (try_hello, try_stops):
        world.run(attempt, member)
    member.do("close")
    lazy = world.member("lazy")
    try_as_listener(world, lazy)
    lazy.close()
    try_duplicates(world, lab)
    world.check_unharmed()


if __name__ == "__main__":
    harness.main([test_messages, test_streams, test_handshakes])
