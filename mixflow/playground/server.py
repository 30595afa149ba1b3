"""The server: pages, downloads and one WebSocket, for this machine only."""

import asyncio
import contextlib
import json
import logging
import secrets
import socket

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from ..errors import MixflowError, SpecError
from ..runs.files import packed
from . import page
from .bundle import STATIC
from .frames import encode
from .guard import Guard, checked
from .jobs import Jobs
from .patience import patient_protocol, quiet
from .requests import Request
from .warm import compile_ahead

MESSAGE_BYTES = 16 * 1024  # longest message from a page; a request has some 300 bytes
SLOTS = ("main", "other", "file")  # runs of a page: its own, one to compare with, one to download


def application(port, token):
    """The ASGI application, reachable under loopback names at `port` only, by those who know the token."""

    @contextlib.asynccontextmanager
    async def lifespan(app):
        app.state.jobs = Jobs(asyncio.get_running_loop())
        compile_ahead(app.state.jobs.first_done)
        yield
        app.state.jobs.close()

    routes = [
        Route("/", _index),
        Route("/status.json", lambda request: JSONResponse(request.app.state.jobs.status())),
        Route("/run/{name}", _download),
        WebSocketRoute("/socket", _socket),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Guard(Starlette(routes=routes, lifespan=lifespan), port, token)


# pages ---------------------------------------------------------------------------------------------------------------


def _index(_):
    return HTMLResponse(page.served())


async def _download(request):
    """The netCDF file of a finished run."""
    key, _, kind = request.path_params["name"].rpartition(".")
    job = request.app.state.jobs.find(key)
    if kind != "nc" or job is None:
        return PlainTextResponse(
            "This run is not kept here any more: reload the page and run it again.\n", status_code=404
        )
    content = await run_in_threadpool(packed, job.run.dataset)
    disposition = f'attachment; filename="mixflow-{key}.nc"'
    return Response(content, media_type="application/x-netcdf", headers={"Content-Disposition": disposition})


# the socket ----------------------------------------------------------------------------------------------------------


async def _socket(websocket):
    """One page: each message asks for a run or a view of one; a newer run in the same slot cancels the older."""
    await websocket.accept()
    visitor = _Visitor(websocket)
    try:
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            await visitor.handle(message.get("text"))
    finally:
        visitor.close()


class _Visitor:
    def __init__(self, websocket):
        self.websocket, self.jobs = websocket, websocket.app.state.jobs
        self.tasks = {}

    async def handle(self, text):
        identity = None
        try:
            message = _parsed(text)
            identity = message.get("id")
            if isinstance(identity, bool) or not isinstance(identity, int) or not 0 <= identity < 2**31:
                identity = None
                raise SpecError("a message needs a whole number 'id'.")
            action = {"run": self._run, "cancel": self._cancel}
            asked = message.get("type")
            if not isinstance(asked, str) or asked not in action:
                raise SpecError(f"'type' = {str(asked)[:40]!r}: expected one of {', '.join(action)}.")
            await action[asked](identity, message)
        except MixflowError as error:
            await self._send(encode("refused", {"id": identity, "message": str(error)[:500]}))

    async def _run(self, identity, message):
        slot = message.get("slot", "main")
        if slot not in SLOTS:
            raise SpecError(f"'slot' = {str(slot)[:40]!r}: expected one of {', '.join(SLOTS)}.")
        request = Request.of(message.get("controls"))
        self._drop(slot)
        job = self.jobs.ask(request)
        job.join()  # here and not in the task: one that is cancelled before its first step never runs
        task = self.tasks[slot] = asyncio.create_task(self._forward(identity, job))
        task.add_done_callback(lambda _: job.leave())

    async def _forward(self, identity, job):
        await self._send(encode("accepted", {"id": identity, "key": job.key}))
        async with contextlib.aclosing(job.follow()) as frames:
            async for frame in frames:
                await self._send(frame)

    async def _cancel(self, identity, message):
        self._drop(message.get("slot", "main") if message.get("slot", "main") in SLOTS else "main")

    async def _send(self, frame):
        with contextlib.suppress(Exception):  # the page went away: the receiving side will notice and clean up
            await self.websocket.send_bytes(frame)

    def _drop(self, slot):
        if task := self.tasks.pop(slot, None):
            task.cancel()

    def close(self):
        for slot in SLOTS:
            self._drop(slot)


def _parsed(text):
    if text is None:
        raise SpecError("messages are JSON text, not binary.")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise SpecError("the message is not JSON.") from None
    if not isinstance(message, dict):
        raise SpecError("a message is a JSON object.")
    return message


# starting ------------------------------------------------------------------------------------------------------------


def listen(port):
    """A socket on the loopback address, or a SpecError that names the next free port."""
    # asyncio turns Nagle's delay off for sockets that name their protocol; with it a second frame comes 40 ms late.
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("127.0.0.1", port))
        server.listen(128)
        return server
    except PermissionError:
        server.close()
        raise SpecError(f"port {port} is reserved: take one above 1023, for example --port 8765.") from None
    except OSError:
        server.close()
        free = next((p for p in range(port + 1, min(port + 100, 65536)) if _free(p)), None)
        offer = (
            f"; port {free} is free: mixflow playground --port {free}" if free else "; try --port 0 for any free one"
        )
        raise SpecError(f"port {port} is in use{offer}") from None


def _free(port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def serve(port, *, browser=True, token=None):
    """Serve until Ctrl-C; `token` is drawn anew if not given."""
    import uvicorn

    token = secrets.token_urlsafe(24) if token is None else checked(token)
    server_socket = listen(port)
    port = server_socket.getsockname()[1]
    address = f"http://127.0.0.1:{port}/?token={token}"
    print(f"mixflow playground: {address}   (Ctrl-C stops it)", flush=True)
    config = uvicorn.Config(
        application(port, token),
        http=patient_protocol(),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws_max_size=MESSAGE_BYTES,
        ws_ping_interval=20.0,
        timeout_graceful_shutdown=1,
        limit_concurrency=500,
    )
    logging.getLogger("uvicorn.error").addFilter(quiet)
    server = uvicorn.Server(config)
    if browser:
        import threading
        import webbrowser

        threading.Timer(0.5, webbrowser.open, [address]).start()
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[server_socket])
    print("mixflow playground: stopped.", flush=True)
