"""What keeps other sites, other machines and other users out: Host, Origin and a token are checked, and every answer says what a
page may do."""

import hmac
import re
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from ..errors import SpecError

NAMES = ("127.0.0.1", "localhost")
LEAST = 8  # characters of a token that somebody chooses


def checked(token):
    """The token, or a SpecError: it must be hard to guess and stand in an address as it is.

    >>> checked("correct-horse")
    'correct-horse'
    """
    if len(token) < LEAST or not re.fullmatch(r"[A-Za-z0-9_-]+", token):
        raise SpecError(
            f"token = {token[:40]!r}: expected at least {LEAST} letters, digits, - or _; leave it out for a random one."
        )
    return token


class Guard:
    """ASGI middleware: refuses foreign names (DNS rebinding), foreign pages (cross-site requests) and those without the token.

    The token stands in the address that the program prints, as Jupyter does it. Whoever opens that address is sent on to the page
    with the token in a cookie, so that it does not stay in the address; programs may send it as `?token=` with every request.
    """

    def __init__(self, app, port, token):
        self.app, self.token = app, token
        self.cookie = f"mixflow-{port}"  # cookies do not know ports
        self.hosts = {f"{name}:{port}" for name in NAMES}
        self.origins = {f"http://{host}" for host in self.hosts}
        sockets = " ".join(sorted(f"ws://{host}" for host in self.hosts))
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; worker-src 'self'; "
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
        given = _values(scope["headers"])
        shown = self._shown(scope)
        refusal = self._refusal(scope, given) or self._stranger(given, shown)
        if refusal and scope["type"] == "websocket":
            await receive()
            return await send({"type": "websocket.close", "code": 1008, "reason": refusal})
        if refusal:
            return await self._answer(send, 403, f"{refusal}\n")
        if self._right(shown) and scope["type"] == "http" and scope["path"] == "/":
            cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            return await self._answer(send, 303, "", [(b"location", b"/"), (b"set-cookie", cookie.encode())])

        async def guarded(message):
            if message["type"] == "http.response.start":
                names = {name for name, _ in message["headers"]}
                # Files change under a page while it is developed or upgraded: always ask again, answers are 304 mostly.
                cache = [] if b"cache-control" in names else [(b"cache-control", b"no-cache")]
                message = {**message, "headers": [*message["headers"], *self.headers, *cache]}
            await send(message)

        return await self.app(scope, receive, guarded)

    async def _answer(self, send, status, text, more=()):
        headers = [(b"content-type", b"text/plain; charset=utf-8"), *self.headers, *more]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": text.encode()})

    def _refusal(self, scope, given):
        """Why a request from there is refused, or None."""
        if len(given["host"]) != 1 or given["host"][0].lower() not in self.hosts:
            return "This server answers only to its own name on this machine."
        # A browser always names the origin of a WebSocket; without one this is not our page.
        if any(origin.lower() not in self.origins for origin in given["origin"]):
            return "Requests from other sites are refused."
        if scope["type"] == "websocket" and len(given["origin"]) != 1:
            return "The socket is for the page of this server."
        return None

    def _stranger(self, given, shown):
        """Why one without the token is refused, or None."""
        known = [shown]
        for text in given["cookie"]:
            try:
                cookie = SimpleCookie(text).get(self.cookie)
            except CookieError:
                continue
            known += [cookie.value] if cookie is not None else []
        if any(map(self._right, known)):
            return None
        return "This page needs its token: open the address that `mixflow playground` printed when it started."

    def _right(self, token):
        return token is not None and hmac.compare_digest(token.encode(), self.token.encode())

    @staticmethod
    def _shown(scope):
        """The token in the address, or None."""
        try:
            return parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=100).get("token", [None])[0]
        except ValueError:
            return None


def _values(headers):
    """The values of the headers that are looked at."""
    values = {"host": [], "origin": [], "cookie": []}
    for name, value in headers:
        if (known := name.decode("latin-1")) in values:
            values[known].append(value.decode("latin-1"))
    return values
