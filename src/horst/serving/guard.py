"""Access control, in front of everything else, for HTTP requests and WebSockets alike.

- Host: a server on localhost only answers to the names of localhost, so that no other site can point its name here.
- Origin: pages of other sites are refused, except those named. Pages of this server and of localhost are allowed.
- Token: if one is set, `/api`, `/metrics` and `/ws` require it. It is compared in constant time.
- Body: where no file is uploaded, it is small and arrives soon.
"""

import asyncio
import hmac
import re
from collections.abc import Iterable
from urllib.parse import SplitResult, parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from horst.errors import ConfigError
from horst.serving.errors import error_response

LOCAL = ("localhost", "127.0.0.1", "::1")
NETLOC = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/?#@\s]+)(?::\d{1,5})?")
PROTOCOL = "horst"
"""A WebSocket client that cannot set headers offers two subprotocols: this one, and `token.` followed by the token."""
UPLOADS = ("/api/predict", "/api/render", "/api/recordings/")  # they have limits of their own
BODY_BYTES, BODY_SECONDS = 64 << 10, 5.0  # of all other requests
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
        "connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
}


class Guard:
    """Wraps an application."""

    def __init__(self, app: ASGIApp, *, host: str, token: str | None, origins: Iterable[str]) -> None:
        """Options as in `create_app`."""
        self.app, self.token = app, token
        self.local = is_local(host)
        self.hosts = {*LOCAL, host.strip("[]").lower()}
        self.origins = {check_origin(origin) for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        preflight = scope["type"] == "http" and scope["method"] == "OPTIONS" and origin is not None
        response = self._refuse(scope, headers, origin) or (Response(status_code=204) if preflight else None)
        if response is None:
            if scope["type"] == "http" and not scope["path"].startswith(UPLOADS):
                receive = _limited(receive)
            await self.app(scope, receive, _with_headers(scope, send, origin))
            return
        if scope["type"] == "websocket":
            await receive()
        known = origin if response.status_code in (204, 401) else None  # tell nothing to other origins
        await response(scope, receive, _with_headers(scope, send, known))

    def _refuse(self, scope: Scope, headers: Headers, origin: str | None) -> Response | None:
        host, path = headers.get("host", ""), scope["path"]
        if self.local and _hostname(host) not in self.hosts:
            return error_response(403, "this server only answers to the names of localhost", "host")
        if origin is not None and not self._allowed(origin, host):
            return error_response(403, "pages of other sites may not call this server; --origin allows one", "origin")
        protected = path in ("/ws", "/metrics", "/api") or path.startswith("/api/")
        options = scope["type"] == "http" and scope["method"] == "OPTIONS"
        if self.token is None or not protected or options or self._has_token(scope, headers):
            return None
        message = "a token is required: Authorization: Bearer ..., or ?token=... for a WebSocket"
        return error_response(401, message, "token", {"www-authenticate": "Bearer"})

    def _allowed(self, origin: str, host: str) -> bool:
        parts = _split(origin)
        site = parts.scheme in ("http", "https") and parts.netloc
        own = site and (site == host.lower() or _hostname(site) in LOCAL)
        return bool(own) or origin.lower() in self.origins

    def _has_token(self, scope: Scope, headers: Headers) -> bool:
        assert self.token is not None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        tokens = [given.strip()] if scheme.lower() == "bearer" else []
        if scope["type"] == "websocket" or scope["path"].startswith("/api/samples/"):  # <video> cannot set headers
            tokens += parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        tokens += [name[6:] for name in scope.get("subprotocols") or () if name.startswith("token.")]
        expected = self.token.encode()
        return any(hmac.compare_digest(token.encode("utf-8", "surrogateescape"), expected) for token in tokens)


def _limited(receive: Receive) -> Receive:
    """Ends a body that is too large or too slow, as if the client had left. The answer is an error."""
    size, end, more = 0, 0.0, True

    async def receive_limited() -> Message:
        nonlocal size, end, more
        if not more:  # the body is complete: now it waits for the client to leave
            return await receive()
        end = end or asyncio.get_running_loop().time() + BODY_SECONDS
        try:
            async with asyncio.timeout_at(end):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        return message if size <= BODY_BYTES else {"type": "http.disconnect"}

    return receive_limited


def _with_headers(scope: Scope, send: Send, origin: str | None) -> Send:
    """Adds the headers that every HTTP response has."""
    extra = dict(HEADERS)
    if scope["path"].startswith(("/api", "/metrics", "/healthz")):
        extra["cache-control"] = "no-store"
    if origin is not None:
        extra |= {
            "access-control-allow-origin": origin,
            "access-control-allow-methods": "GET, POST, DELETE",
            "access-control-allow-headers": "authorization, content-type",
            "vary": "origin",
        }
    else:
        extra["cross-origin-resource-policy"] = "same-origin"

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(extra)
        await send(message)

    return send_with_headers


def is_local(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    bare = host.strip("[]").lower()
    return bare in LOCAL or bare.startswith("127.")


def check_origin(origin: str) -> str:
    parts = _split(origin)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        raise ConfigError(f"{origin!r} is not an origin; it looks like https://example.org or http://host:8080")
    return f"{parts.scheme}://{parts.netloc}"


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url.lower())
    except ValueError:
        return urlsplit("")


def _hostname(netloc: str) -> str:
    """The host of "host:port"; empty if it is anything else, such as "[::1]host"."""
    found = NETLOC.fullmatch(netloc.lower())
    return found[1].strip("[]") if found else ""
