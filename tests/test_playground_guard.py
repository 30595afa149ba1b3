"""The playground's server under attack: strangers, foreign sites, malformed bytes and messages, silent connections."""

import asyncio
import contextlib
import json
import random
import socket
import subprocess
import sys

import httpx
import pytest
from pages import TOKEN, cookie, get, open_socket, playground, run, status, wait_until
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mixflow.playground.controls import CONTROLS
from mixflow.playground.frames import decode

QUICK = {"steps": 400}


@pytest.fixture(scope="module")
def server():
    with playground() as (address, _):
        yield address


# pages ---------------------------------------------------------------------------------------------------------------


def test_pages_carry_a_strict_policy(server):
    for path in ("", "static/app.js", "static/worker.js", "status.json"):
        answer = get(server, path)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'; style-src 'self'; worker-src 'self';" in policy
        assert "eval" not in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


def test_foreign_names_and_sites_are_refused(server):
    port = server.rsplit(":", 1)[1].rstrip("/")
    assert get(server, headers={"Host": f"evil.example:{port}"}).status_code == 403
    assert get(server, headers={"Host": "127.0.0.1"}).status_code == 403
    assert get(server, headers={"Origin": "https://evil.example"}).status_code == 403
    assert get(server, headers={"Host": f"localhost:{port}"}).status_code == 200
    for origin in ("https://evil.example", "null", None, "http://127.0.0.1:1"):
        with pytest.raises(InvalidStatus):
            open_socket(server, origin=origin, **cookie(server))


def test_strangers_on_the_same_machine_are_refused(server):
    """Another user can forge any header but does not know the token."""
    own = {"Origin": server.rstrip("/")}
    name = next(iter(cookie(server).values())).partition("=")[0]
    for path in ("", "status.json", "static/app.js", "run/x.nc", "?token=", "?token=guess", "?token=" + TOKEN[:-1]):
        answer = httpx.get(server + path, headers=own)
        assert answer.status_code == 403
        assert "open the address that `mixflow playground` printed" in answer.text
    for forged in ("", f"{name}=", f"{name}=guess", f"other={TOKEN}", "=;;;"):
        assert httpx.get(server, headers={**own, "Cookie": forged}).status_code == 403
        with pytest.raises(InvalidStatus):
            open_socket(server, Cookie=forged)


def test_the_printed_address_opens_the_page_and_leaves_no_token_in_it(server):
    answer = httpx.get(f"{server}?token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    kept = answer.headers["set-cookie"]
    assert "HttpOnly" in kept
    assert "SameSite=Strict" in kept
    with httpx.Client(follow_redirects=True) as browser:
        assert "<title>mixflow" in browser.get(f"{server}?token={TOKEN}").text
        assert browser.get(f"{server}status.json").status_code == 200


@pytest.mark.parametrize("token", ["short", "with space in it", "ünïcödé-token", "a&b=cdefgh"])
def test_a_token_that_cannot_stand_in_an_address_is_refused(token):
    words = [sys.executable, "-m", "mixflow", "playground", "--no-browser", "--port", "0", "--token", token]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "leave it out for a random one" in done.stderr


def test_only_this_machine_can_reach_it(server):
    port = int(server.rsplit(":", 1)[1].rstrip("/"))
    with socket.socket() as other:  # another loopback address stands for any other interface
        other.settimeout(2)
        assert other.connect_ex(("127.0.0.2", port)) != 0


def test_paths_outside_are_not_found(server):
    for path in (
        "static/../server.py",
        "static/%2e%2e/server.py",
        "run/x.nc",
        "run/../../etc/passwd",
        "static/",
        "nothing",
    ):
        assert get(server, path).status_code in (404, 405)


# nonsense ------------------------------------------------------------------------------------------------------------


def nonsense(rng):
    """One malformed message."""
    odd = [None, True, -1, 1e308, 10**30, "x" * 50, [], {}, [[]], float("nan"), "\u0000", "🙂"]
    pick = lambda: rng.choice(odd)  # noqa: E731
    kinds = [
        lambda: json.dumps(pick()),
        lambda: json.dumps({"type": pick(), "id": 1}),
        lambda: json.dumps({"type": "run", "id": pick()}),
        lambda: json.dumps({"type": "run", "id": 1, "controls": pick() or None}),
        lambda: json.dumps({"type": "run", "id": 1, "slot": rng.choice(["x", 3, None]), "controls": {}}),
        lambda: json.dumps({"type": "run", "id": 1, "controls": {rng.choice(list(CONTROLS)): rng.choice([None, [], "no", -5])}}),
        lambda: json.dumps({"type": "cancel", "id": pick() or None, "slot": pick()}),
        lambda: '{"type": "run", "id": 1, "controls": {"classes": ' + "9" * 5000 + "}}",
        lambda: "[" * 3000,
        lambda: '{"type": "run"',
        lambda: bytes(rng.randrange(256) for _ in range(rng.randrange(40))),
    ]  # fmt: skip
    return rng.choice(kinds)()


def test_malformed_messages_are_each_refused(server):
    rng = random.Random(8)
    with open_socket(server) as page:
        for i in range(800):
            page.send(nonsense(rng))
            header = decode(page.recv(timeout=10))[0]
            assert header["kind"] == "refused", i
            assert 0 < len(header["message"]) <= 500
        assert run(page, **QUICK)[-1][0]["kind"] == "done"


def test_huge_messages_close_only_their_socket(server):
    with open_socket(server) as page:
        page.send("x" * 100_000)
        with pytest.raises(ConnectionClosed):
            page.recv(timeout=5)
    with open_socket(server) as page:
        assert run(page, **QUICK)[-1][0]["kind"] == "done"


def test_malformed_bytes_on_the_wire(server):
    """Broken HTTP, broken handshakes and truncated frames: each is refused or dropped, and the server lives on."""
    rng = random.Random(9)
    host, port = server[7:-1].split(":")
    hello = (
        f"GET /socket?token={TOKEN} HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: http://{host}:{port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()
    for i in range(200):
        kinds = [
            bytes(rng.randrange(256) for _ in range(rng.randrange(1, 200))),
            b"GET / HTTP/1.1\r\n\r\n",
            f"GET /?token={TOKEN} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: -1\r\n\r\n".encode(),
            hello.replace(b"Version: 13", b"Version: 1"),
            hello + bytes([0x81, 0xFE, 0xFF]),  # a frame that says it is longer than it is
            hello + bytes([0xFF, 0x00]),  # reserved bits
            hello + bytes([0x81, 0x05]) + b"plain",  # a client must mask
            hello + bytes([0x81, 0xFF]) + b"\xff" * 8,  # 2^63 bytes to come
        ]
        with socket.create_connection((host, int(port)), timeout=5) as wire:
            wire.sendall(kinds[i % len(kinds)])
            if i % 20 == 0:
                wire.settimeout(0.3)
                with contextlib.suppress(TimeoutError, ConnectionError):
                    wire.recv(4096)
    assert get(server).status_code == 200
    with open_socket(server) as page:
        assert run(page, **QUICK)[-1][0]["kind"] == "done"
    wait_until(lambda: status(server)["unfinished"] == 0, 3)


def test_text_that_is_no_text_closes_only_its_socket_and_says_nothing():
    with playground() as (address, process):
        for _ in range(2):
            with open_socket(address) as page:
                page.socket.sendall(bytes([0x81, 0x82, 0, 0, 0, 0, 0xFF, 0xFE]))
                with pytest.raises(ConnectionClosed) as closed:
                    page.recv(timeout=5)
                assert closed.value.rcvd.code == 1007
        process.terminate()
        process.wait(10)
        assert process.stderr.read() == ""


def test_silent_connections_keep_nobody_out(server):
    host, port = server[7:-1].split(":")
    with contextlib.ExitStack() as held:
        for i in range(520):
            wire = held.enter_context(socket.create_connection((host, int(port)), timeout=5))
            if i % 5 == 0:
                wire.sendall(b"GET / HTTP/1.1\r\nHost: ")  # and then nothing
        assert get(server).status_code == 200
        with open_socket(server) as page:
            assert run(page, **QUICK)[-1][0]["kind"] == "done"


def test_a_request_that_never_ends_is_given_up(monkeypatch):
    from mixflow.playground import patience

    monkeypatch.setattr(patience, "SECONDS", 0.2)

    async def slow():
        import uvicorn

        async def never(scope, receive, send):
            raise AssertionError("nothing was asked")

        config = uvicorn.Config(never, http=patience.patient_protocol(), lifespan="off", log_level="critical")
        config.load()
        state = uvicorn.Server(config).server_state
        loop = asyncio.get_running_loop()
        served = await loop.create_server(
            lambda: config.http_protocol_class(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        reader, writer = await asyncio.open_connection(*served.sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\n")
        try:
            async with asyncio.timeout(5):
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
        finally:
            writer.close()
            served.close()

    asyncio.run(slow())
