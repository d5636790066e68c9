# SPDX-License-Identifier: Apache-2.0
"""A client of the control socket: what the program's own commands ask, without starting a process for each look. Tests
that poll an instrumented agent would otherwise spend most of their time in starting instrumented clients."""
import json
import socket
import struct


class ControlError(Exception):
    """No answer, or the agent's own error; the command line tool says it better."""


def _pack_text(text):
    data = text.encode()
    return b"\xd9" + bytes([len(data)]) + data


def _pack_request(verb, to, kind, timeout_ms):
    request = _pack_text("verb") + _pack_text(verb)
    if to is None:
        return b"\x81" + request
    return (b"\x85" + request + _pack_text("to") + _pack_text(to) + _pack_text("type") + _pack_text(kind) +
            _pack_text("timeout_ms") + b"\xce" + struct.pack(">I", timeout_ms) + _pack_text("payload") + b"\xc4\x00")


class _Reader:
    """msgpack as the agent writes it."""

    SIZED = {0xc4: ("B", bytes), 0xc5: ("H", bytes), 0xc6: ("I", bytes),
             0xd9: ("B", str), 0xda: ("H", str), 0xdb: ("I", str),
             0xdc: ("H", list), 0xdd: ("I", list), 0xde: ("H", dict), 0xdf: ("I", dict)}
    NUMBERS = {0xca: "f", 0xcb: "d", 0xcc: "B", 0xcd: "H", 0xce: "I", 0xcf: "Q",
               0xd0: "b", 0xd1: "h", 0xd2: "i", 0xd3: "q"}
    CONSTANTS = {0xc0: None, 0xc2: False, 0xc3: True}

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, size):
        if size > len(self.data) - self.at:
            raise ControlError("a reply that is cut off")
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, form):
        return struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]

    def read(self):
        tag = self.take(1)[0]
        if tag < 0x80:
            return tag
        if tag >= 0xe0:
            return tag - 0x100
        if tag in self.CONSTANTS:
            return self.CONSTANTS[tag]
        if tag in self.NUMBERS:
            return self.number(self.NUMBERS[tag])
        if tag in self.SIZED:
            form, kind = self.SIZED[tag]
            return self.items(kind, self.number(form))
        if tag < 0xc0:
            return self.items(dict if tag < 0x90 else list if tag < 0xa0 else str,
                              tag & (0x0f if tag < 0xa0 else 0x1f))
        raise ControlError("a byte that begins nothing: %#x" % tag)

    def items(self, kind, count):
        if kind is bytes:
            return self.take(count)
        if kind is str:
            return self.take(count).decode()
        if kind is list:
            return [self.read() for _ in range(count)]
        return {self.read(): self.read() for _ in range(count)}


def call(path, verb, to=None, kind=None, timeout=30.0):
    """The body of the agent's answer."""
    request = _pack_request(verb, to, kind, int(timeout * 1000))
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(timeout)
            sock.connect(path)
            sock.sendall(struct.pack(">I", len(request)) + request)
            reply = _read_reply(sock)
    except OSError as error:
        raise ControlError(str(error)) from None
    if reply.get("err") != 0:
        raise ControlError(reply.get("text"))
    return reply.get("body")


def _read_reply(sock):
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
        more = sock.recv(262144)
        if not more:
            raise ControlError("the agent closed the connection")
        data += more
    return _Reader(data[4:]).read()


def view(path, verb, timeout=30.0):
    """What `sennit VERB --json` prints."""
    if verb == "forwards":
        return json.loads(call(path, "ask", ":tunnel", "tunnel.list", timeout)["payload"])
    return call(path, verb, timeout=timeout)
