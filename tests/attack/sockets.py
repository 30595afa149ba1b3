"""A page's side of a real WebSocket, written by hand: frames that no library would send can be sent."""

import atexit
import base64
import contextlib
import os
import socket
import struct
import time

import programs

from mixflow.playground.frames import decode

TOKEN = "the-token-of-the-attack"
IDLE = 10.0  # seconds after which a page that says nothing is opened anew
SECONDS = 60.0  # for an answer, on a machine that has other things to do
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
BOUND = 2_000  # MB the server may take


class Closed(Exception):
    """The server has closed the connection."""


def frame(opcode, payload=b"", *, final=True, reserved=0, masked=True, length=None):
    """The bytes of one frame; `length` is what it says of itself, the truth if not given."""
    length = len(payload) if length is None else length
    bit = 0x80 if masked else 0
    if length < 126:
        size = bytes([bit | length])
    elif length < 2**16:
        size = bytes([bit | 126]) + struct.pack(">H", length)
    else:
        size = bytes([bit | 127]) + struct.pack(">Q", length)
    mask = os.urandom(4) if masked else b""
    hidden = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload)) if masked else payload
    return bytes([0x80 * final | reserved << 4 | opcode]) + size + mask + hidden


class Page:
    """One connection to the server at a port, with a handshake whose headers may be replaced."""

    def __init__(self, port, **headers):
        given = {
            "Host": f"127.0.0.1:{port}",
            "Origin": f"http://127.0.0.1:{port}",
            "Cookie": f"mixflow-{port}={TOKEN}",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
        } | headers
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        lines = ["GET /socket HTTP/1.1", *(f"{name}: {text}" for name, text in given.items() if text is not None)]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        self.status = int(self._line().split()[1])
        self.body = 0  # bytes that follow
        while line := self._line():
            name, _, text = line.partition(b":")
            self.body = int(text) if name.lower() == b"content-length" else self.body

    def _line(self):
        line = self.file.readline()
        if not line:
            raise Closed
        return line.strip()

    def send(self, content):
        """Bytes as they are; a server that has closed already does not read them."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(content)

    def read(self):
        """(opcode, payload) of the next frame; Closed if there is none."""
        try:
            opcode, size = self._exactly(2)
            if size == 126:
                (size,) = struct.unpack(">H", self._exactly(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self._exactly(8))
            payload = self._exactly(size)
        except ConnectionError:
            raise Closed from None
        assert opcode & 0x80, "a frame of the server in parts"
        return opcode & 0x0F, payload

    def _exactly(self, size):
        found = self.file.read(size)
        if len(found) < size:
            raise Closed
        return found

    def headers(self, asked):
        """Headers of all answers up to the one with the id `asked`, which is left out; Closed if the server closes before."""
        found = []
        while True:
            opcode, payload = self.read()
            if opcode == CLOSE:
                raise Closed
            if opcode == BINARY:
                found.append(decode(payload)[0])
                if found[-1].get("id") == asked:
                    return found[:-1]

    def close(self):
        self.file.close()
        self.socket.close()


class Served:
    """A playground of its own process, in which every run is over at once; started when it is first spoken to."""

    def __init__(self, folder):
        self.errors, self.open, self.page, self.visited = folder / "server", contextlib.ExitStack(), None, 0.0
        atexit.register(self.close)

    @property
    def port(self):
        if not hasattr(self, "_port"):
            self.process, said = self.open.enter_context(programs.started(programs.serve, self.errors, TOKEN))
            self._port = said.recv()
        return self._port

    def visit(self):
        """The page that stays open, or a new one if the server has closed it or will: it asks every 20 s who is still there."""
        if time.monotonic() - self.visited > IDLE:
            self.leave()
        self.page, self.visited = self.page or Page(self.port), time.monotonic()
        return self.page

    def leave(self):
        """Close the page, so that the next visit is a new one."""
        if self.page is not None:
            self.page.close()
            self.page = None

    def close(self):
        """Close the page and end the server."""
        self.leave()
        self.open.close()

    def check(self):
        """The server lives, has said nothing, and has not grown beyond BOUND."""
        assert self.process.is_alive(), "the server died"
        assert not self.errors.stat().st_size, self.errors.read_text()
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{self.process.pid}/status") as status:
            most = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
            assert most < 1024 * BOUND, f"the server took {most // 1024} MB"
