"""The server: pages, downloads and one WebSocket, for this machine only."""

import asyncio
import contextlib
import functools
import importlib.resources
import json
import pathlib
import re
import socket

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from ..errors import MixflowError, SpecError
from ..plot.style import COLOURS, STAGES
from ..store import packed
from . import views
from .controls import CONTROLS
from .frames import encode
from .guard import Guard
from .jobs import Jobs
from .presets import PRESETS
from .recipes import METHODS, labels
from .requests import Request
from .warm import compile_ahead

STATIC = pathlib.Path(__file__).parent / "static"
MESSAGE_BYTES = 16 * 1024  # longest message from a page; a request has some 300 bytes
SLOTS = ("main", "other")  # runs a page shows at once: its own and one to compare with


def application(port):
    """The ASGI application, reachable under loopback names at `port` only."""

    @contextlib.asynccontextmanager
    async def lifespan(app):
        app.state.jobs = Jobs(asyncio.get_running_loop())
        compile_ahead(app.state.jobs.first_done)
        yield
        app.state.jobs.close()

    routes = [
        Route("/", _index),
        Route("/help", lambda _: FileResponse(STATIC / "help.html")),
        Route("/plotly.js", _plotly),
        Route("/config.json", _config),
        Route("/status.json", lambda request: JSONResponse(request.app.state.jobs.status())),
        Route("/script.py", _script),
        Route("/run/{name}", _download),
        WebSocketRoute("/socket", _socket),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Guard(Starlette(routes=routes, lifespan=lifespan), port)


# pages ---------------------------------------------------------------------------------------------------------------


def _plotly_path():
    return pathlib.Path(str(importlib.resources.files("plotly"))) / "package_data" / "plotly.min.js"


def _plotly(_):
    return FileResponse(_plotly_path(), media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})


@functools.cache
def _page():
    """index.html with the name plotly.js gives its sheet for maps, a hash that differs between versions."""
    found = re.search(r'getElementById\("([0-9a-f]{64})"\)', _plotly_path().read_text(encoding="utf-8"))
    return (
        (STATIC / "index.html").read_text(encoding="utf-8").replace("PLOTLY_MAP_STYLE", found[1] if found else "none")
    )


async def _index(_):
    return HTMLResponse(await run_in_threadpool(_page))


def _config(_):
    return JSONResponse(
        {
            "controls": [control.describe() for control in CONTROLS.values()],
            "methods": labels(METHODS),
            "presets": PRESETS,
            "colours": COLOURS,
            "stages": STAGES,
        }
    )


def _script(request):
    """ "Copy as Python" for the settings in the query, the very ones in the page's address."""
    try:
        asked = {
            name: _from_text(CONTROLS[name], text) for name, text in request.query_params.items() if name in CONTROLS
        }
        time = request.query_params.get("t")
        return PlainTextResponse(Request.of(asked).script(None if time is None else float(time)))
    except (SpecError, ValueError) as error:
        return PlainTextResponse(f"# {error}\n", status_code=400)


def _from_text(control, text):
    if control.kind == "flag":
        return {"true": True, "false": False}.get(text, text)
    if control.kind in ("whole", "real"):
        try:
            return float(text)
        except ValueError:
            return text
    return text


async def _download(request):
    """The netCDF or CSV file of a finished run."""
    key, _, kind = request.path_params["name"].rpartition(".")
    job = request.app.state.jobs.find(key)
    makers = {"nc": (packed, "application/x-netcdf"), "csv": (views.table, "text/csv; charset=utf-8")}
    if kind not in makers or job is None:
        return PlainTextResponse(
            "This run is not kept here any more: reload the page and run it again.\n", status_code=404
        )
    maker, media = makers[kind]
    content = await run_in_threadpool(maker, job.run.dataset)
    disposition = f'attachment; filename="mixflow-{key}.{kind}"'
    return Response(content, media_type=media, headers={"Content-Disposition": disposition})


# the socket ----------------------------------------------------------------------------------------------------------


async def _socket(websocket):
    """One page: each message asks for a run or a view of one; a newer run in the same slot cancels the older."""
    await websocket.accept()
    page = _Page(websocket)
    try:
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            await page.handle(message.get("text"))
    finally:
        page.close()


class _Page:
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
            action = {"run": self._run, "sample": self._sample, "geometry": self._geometry, "cancel": self._cancel}
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
        request.spec()  # refuses what does not fit together before it waits in line
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

    async def _sample(self, identity, message):
        job, atom = self._finished(message), message.get("atom")
        count = job.run.dataset.sizes["atom"]
        if isinstance(atom, bool) or not isinstance(atom, int) or not 0 <= atom < count:
            raise SpecError(f"'atom' = {str(atom)[:40]!r}: expected a whole number from 0 to {count - 1}.")
        await self._view("sample", identity, job, views.sample, job.run, atom)

    async def _geometry(self, identity, message):
        job = self._finished(message)
        await self._view("geometry", identity, job, views.geometry, job.run)

    async def _view(self, kind, identity, job, maker, *arguments):
        header, arrays = await run_in_threadpool(maker, *arguments)
        await self._send(encode(kind, {"id": identity, "key": job.key, **header}, arrays))

    def _finished(self, message):
        key = message.get("key")
        job = self.jobs.find(key) if isinstance(key, str) else None
        if job is None:
            raise SpecError("that run is not kept here any more: run it again.")
        if "atom" not in job.run.dataset.dims:
            raise SpecError("this run has too many samples to list them one by one.")
        return job

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
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
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


def serve(port, *, browser=True):
    """Serve until Ctrl-C."""
    import uvicorn

    server_socket = listen(port)
    port = server_socket.getsockname()[1]
    address = f"http://127.0.0.1:{port}/"
    print(f"mixflow playground: {address}   (Ctrl-C stops it)", flush=True)
    config = uvicorn.Config(
        application(port),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws_max_size=MESSAGE_BYTES,
        ws_ping_interval=20.0,
        timeout_graceful_shutdown=1,
        limit_concurrency=500,
    )
    server = uvicorn.Server(config)
    if browser:
        import threading
        import webbrowser

        threading.Timer(0.5, webbrowser.open, [address]).start()
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[server_socket])
    print("mixflow playground: stopped.", flush=True)
