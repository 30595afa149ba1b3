"""Attackers of the playground's server: requests of those who know the token and who do not, messages on its socket."""

import asyncio
import json

import sockets
from hypothesis import strategies as st

from mixflow.playground import server
from mixflow.playground.controls import CONTROLS
from mixflow.playground.guard import Guard

PORT, TOKEN = 8765, sockets.TOKEN
OWN = {b"host": f"127.0.0.1:{PORT}".encode(), b"origin": f"http://127.0.0.1:{PORT}".encode()}
SENTENCE = 500  # characters


async def _inside(scope, receive, send):
    """What the guard guards."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"inside"})


def request(data):
    """A request with headers, path and query that are right, nearly right, or bytes: inside only with the token."""
    rough = st.binary(max_size=30)
    knows = data.draw(st.booleans())
    cookie = f"mixflow-{PORT}={TOKEN}".encode()
    near = st.sampled_from([b"", cookie[:-1], cookie + b"x", b"mixflow-1=" + TOKEN.encode(), b"=;;=", cookie.upper()])
    headers = [(b"host", data.draw(st.one_of(st.just(OWN[b"host"]), rough)))]
    if data.draw(st.booleans()):
        headers.append((b"origin", data.draw(st.one_of(st.just(OWN[b"origin"]), rough))))
    headers.append((b"cookie", cookie if knows else data.draw(st.one_of(near, rough))))
    headers += data.draw(st.lists(st.tuples(st.sampled_from([b"host", b"cookie", b"x"]), rough), max_size=2))
    query = data.draw(st.one_of(st.just(b""), rough, st.sampled_from([b"token=", b"token=x&token=y", b"token=%ff"])))
    scope = {"type": "http", "path": data.draw(st.sampled_from(["/", "/run/x.nc", "/socket"])), "headers": headers}
    answers = []

    async def send(message):
        answers.append(message)

    asyncio.run(Guard(_inside, PORT, TOKEN)({**scope, "query_string": query}, None, send))
    status, body = answers[0]["status"], answers[-1]["body"]
    assert status in (200, 403), status
    assert (body == b"inside") == (status == 200)
    assert status == 403 or knows, scope
    assert status == 200 or len(body.decode()) < SENTENCE
    assert any(name == b"content-security-policy" for name, _ in answers[0]["headers"])
    return "made" if status == 200 else "refused"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(10**400),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=8), inside, max_size=3),
    max_leaves=6,
)
CONTROL = JSON | st.sampled_from(["inf", "64", "flow", "gd", "three", "construct", "longer", "noisy", 3, 0.5, 1e9])
SHAPED = st.fixed_dictionaries(
    {"type": st.sampled_from(["run", "run", "cancel"]) | JSON, "id": st.integers(0, 9) | JSON},
    optional={
        "slot": st.sampled_from(["main", "other", "file"]) | JSON,
        "controls": st.dictionaries(st.sampled_from([*CONTROLS, "x"]), CONTROL, max_size=4) | JSON,
    },
)


BROKEN = {
    "opcode": lambda text, size: sockets.frame(3 + size % 5, text),
    "control opcode": lambda text, size: sockets.frame(11 + size % 5, text),
    "reserved bits": lambda text, size: sockets.frame(sockets.TEXT, text, reserved=1 + size % 7),
    "no mask": lambda text, size: sockets.frame(sockets.TEXT, text, masked=False),
    "huge length": lambda text, size: sockets.frame(sockets.TEXT, text, length=2 ** (17 + size % 47)),
    "long message": lambda text, size: sockets.frame(sockets.TEXT, b"[" * (server.MESSAGE_BYTES + 1 + size)),
    "not UTF-8": lambda text, size: sockets.frame(sockets.TEXT, text + b"\xff"),
    "half a character": lambda text, size: sockets.frame(sockets.TEXT, text + b"\xe2\x82"),
    "long control": lambda text, size: sockets.frame(sockets.PING, bytes(126)),
    "control in parts": lambda text, size: sockets.frame(sockets.PING, text[:9], final=False),
    "no beginning": lambda text, size: sockets.frame(0, text),
    "two beginnings": lambda text, size: sockets.frame(sockets.TEXT, text, final=False) + sockets.frame(sockets.TEXT),
    "close code": lambda text, size: sockets.frame(sockets.CLOSE, bytes([0, size % 256])),
    "half a close code": lambda text, size: sockets.frame(sockets.CLOSE, b"x"),
    "close": lambda text, size: sockets.frame(sockets.CLOSE),
}
ASKED = 2**31 - 1  # the id of the question after an attack, whose answer is known
QUESTION = sockets.frame(sockets.TEXT, json.dumps({"type": "?", "id": ASKED}).encode())
TEXTS = st.one_of(SHAPED.map(json.dumps), JSON.map(json.dumps), st.text(max_size=40))


def message(data, served):
    """A frame on a real socket: nearly right, any JSON, text, binary, in parts; broken, half, or of one without the token.

    Whatever it was, the server answers the next question, on this connection or, where it has closed it, on a new one.
    """
    text = data.draw(TEXTS).encode("utf-8", "surrogatepass")
    how = data.draw(st.sampled_from(["whole"] * 8 + ["parts", "binary", "ping", "half", "stranger", *BROKEN]))
    size = data.draw(st.integers(0, 300))
    if how == "stranger":
        verdict = _stranger(data, served.port)
    elif how == "half":
        served.visit().send(sockets.frame(sockets.TEXT, text)[: 1 + size % (len(text) + 6)])
        served.leave()
        verdict = "refused"
    elif how in BROKEN:
        served.visit().send(BROKEN[how](text, size))
        verdict = _closed(served)
    else:
        verdict = _answered(served.visit(), how, text, size)
    served.visit().send(QUESTION)
    _sentences(served.page.headers(ASKED))
    served.check()
    return verdict


def _answered(page, how, text, size):
    """What is said to a frame that a browser could send."""
    cut = size % (len(text) + 1)
    parts = sockets.frame(sockets.TEXT, text[:cut], final=False) + sockets.frame(0, text[cut:])
    ping = sockets.frame(sockets.PING, text[:125])
    plain = {"parts": parts, "binary": sockets.frame(sockets.BINARY, text), "ping": ping}
    page.send(plain.get(how, sockets.frame(sockets.TEXT, text)) + QUESTION)
    found = page.headers(ASKED)
    _sentences(found)
    return "refused" if any(header["kind"] == "refused" for header in found) else "made"


def _sentences(found):
    """Fail unless every answer is that a run is accepted, or one sentence; `accepted` may come a moment later than asked."""
    for header in found:
        assert header["kind"] in ("accepted", "refused"), header
        assert header["kind"] == "accepted" or 0 < len(header["message"]) <= SENTENCE, header
        assert "\n" not in header.get("message", ""), header


def _closed(served):
    """The server closes a connection with a broken frame; what it says before are sentences."""
    try:
        _sentences(served.page.headers(ASKED))
    except sockets.Closed:
        served.leave()
        return "refused"
    raise AssertionError("a broken frame was answered")


def _stranger(data, port):
    """A handshake without the token, from elsewhere, or broken: refused."""
    rough = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)
    wrong = {
        "Cookie": st.none() | st.just(f"mixflow-{port}={sockets.TOKEN[:-1]}") | rough,
        "Origin": st.none() | st.just("http://127.0.0.1:1") | rough,
        "Host": st.just("example.org") | rough,
        "Sec-WebSocket-Version": st.just("12"),
        "Sec-WebSocket-Key": st.none() | st.just("x"),
    }
    name = data.draw(st.sampled_from(sorted(wrong)))
    page = sockets.Page(port, **{name: data.draw(wrong[name])})
    status, body = page.status, page.file.read(page.body)
    page.close()
    assert status in (400, 403, 426), status
    assert len(body) < SENTENCE
    assert b"Traceback" not in body
    return "refused"
