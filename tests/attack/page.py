"""Attackers of the playground's server: requests of those who know the token and who do not, messages on its socket."""

import asyncio
import json
from types import SimpleNamespace

from hypothesis import strategies as st

from mixflow.playground import jobs, server
from mixflow.playground.controls import CONTROLS
from mixflow.playground.frames import decode
from mixflow.playground.guard import Guard

PORT, TOKEN = 8765, "the-token-of-the-attack"
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


def message(data):
    """A message on the socket: a JSON object of nearly the right shape, any JSON, or text."""
    text = data.draw(st.one_of(SHAPED.map(json.dumps), JSON.map(json.dumps), st.text(max_size=40)))
    frames = asyncio.run(_said(text))
    assert frames
    for header, _ in frames:
        assert header["kind"] in ("accepted", "refused"), header
        if header["kind"] == "refused":
            assert "\n" not in header["message"], header
            assert 0 < len(header["message"]) <= SENTENCE, header
    return "made" if frames[-1][0]["kind"] == "accepted" else "refused"


async def _said(text):
    """The server's frames to a page that sends this; nobody works on the runs."""
    sent = []

    async def send_bytes(frame):
        sent.append(decode(frame))

    workers, jobs.WORKERS = jobs.WORKERS, 0
    try:
        line = jobs.Jobs(asyncio.get_running_loop())
    finally:
        jobs.WORKERS = workers
    socket = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(jobs=line)), send_bytes=send_bytes)
    visitor = server._Visitor(socket)
    await visitor.handle(text)
    for _ in range(3):  # what was accepted says so in a task of its own
        await asyncio.sleep(0)
    cancelled = not sent  # a cancel has no answer
    visitor.close()
    return [({"kind": "accepted"}, {})] if cancelled else sent
