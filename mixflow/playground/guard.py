"""What keeps other sites and other machines out: Host and Origin are checked, and every answer says what a page may do."""

NAMES = ("127.0.0.1", "localhost")


class Guard:
    """ASGI middleware: refuses foreign names (DNS rebinding) and foreign pages (cross-site requests), adds the headers."""

    def __init__(self, app, port):
        self.app = app
        self.hosts = {f"{name}:{port}" for name in NAMES}
        self.origins = {f"http://{host}" for host in self.hosts}
        sockets = " ".join(sorted(f"ws://{host}" for host in self.hosts))
        # plotly.js writes its few rules into a linked sheet (see index.html) but sets style attributes on what it draws;
        # only those are allowed inline. Images: the charts' own rasters and downloads.
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
            f"img-src 'self' data: blob:; connect-src 'self' {sockets}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        headers = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "permissions-policy": "camera=(), geolocation=(), microphone=()",
        }
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        refusal = self._refusal(scope)
        if refusal and scope["type"] == "websocket":
            await receive()
            return await send({"type": "websocket.close", "code": 1008, "reason": refusal})
        if refusal:
            headers = [(b"content-type", b"text/plain; charset=utf-8"), *self.headers]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            return await send({"type": "http.response.body", "body": f"{refusal}\n".encode()})

        async def guarded(message):
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                # Files change under a page while it is developed or upgraded: always ask again, answers are 304 mostly.
                cache = [] if b"cache-control" in given else [(b"cache-control", b"no-cache")]
                message = {**message, "headers": [*message["headers"], *self.headers, *cache]}
            await send(message)

        return await self.app(scope, receive, guarded)

    def _refusal(self, scope):
        """Why not, or None."""
        values = {b"host": [], b"origin": []}
        for name, value in scope["headers"]:
            if name in values:
                values[name].append(value.decode("latin-1").lower())
        if len(values[b"host"]) != 1 or values[b"host"][0] not in self.hosts:
            return "This server answers only to its own name on this machine."
        # A browser always names the origin of a WebSocket; without one this is not our page.
        if any(origin not in self.origins for origin in values[b"origin"]):
            return "Requests from other sites are refused."
        if scope["type"] == "websocket" and len(values[b"origin"]) != 1:
            return "The socket is for the page of this server."
        return None
