"""Who may talk to a server. It stands before everything else, for requests and WebSockets alike.

- Host: a server on localhost answers to the names of localhost alone, so that no other site can point its name here.
- Origin: a page of another site is refused. Pages of this server, of localhost, and those named are let in.
- Token: where one is set, `/api`, `/metrics` and `/ws` need it. It is compared in constant time.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from horst.errors import ConfigError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOCAL = ("localhost", "127.0.0.1", "::1")
PROTOCOL = "horst"
"""A WebSocket that cannot set headers offers two subprotocols: this one, and `token.` with the token after it."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
}


class Guard:
    """Wraps an application."""

    def __init__(
        self, app: App, *, host: str = "127.0.0.1", token: str | None = None, origins: Iterable[str] = ()
    ) -> None:
        """
        Args:
            app: What is guarded.
            host: The address that the server is bound to.
            token: What clients must bring; none by default.
            origins: Further pages that may call, such as https://example.org.
        """
        self.app, self.token = app, token
        self.local = is_local(host)
        self.hosts = {*LOCAL, host.strip("[]").lower()}
        self.origins = {check_origin(origin) for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get("origin")
        refusal = self._refusal(scope, headers, origin)
        if refusal is None and scope["type"] == "http" and scope["method"] == "OPTIONS" and origin:
            refusal = 204, "", ""
        if refusal is None:
            await self.app(scope, receive, self._dressed(scope, send, origin))
        elif scope["type"] == "websocket":
            await _refuse_socket(refusal[0], refusal[1], refusal[2], receive, send)
        else:
            allowed = origin if refusal[0] in (204, 401) else None  # nothing is told to strangers
            await _refuse(refusal[0], refusal[1], refusal[2], self._dressed(scope, send, allowed))

    def _refusal(self, scope: Scope, headers: dict[str, str], origin: str | None) -> tuple[int, str, str] | None:
        host = headers.get("host", "")
        if self.local and _hostname(host) not in self.hosts:
            return 403, "host", "this server answers to the names of localhost alone"
        if origin is not None and not self._may_call(origin, host):
            return 403, "origin", "a page of another site may not call this server; --origin lets it in"
        path = scope["path"]
        needs = path == "/ws" or path == "/metrics" or path == "/api" or path.startswith("/api/")
        preflight = scope["type"] == "http" and scope["method"] == "OPTIONS"
        if self.token is None or not needs or preflight or self._knows(scope, headers):
            return None
        return 401, "token", "a token is needed: Authorization: Bearer ..., or ?token=... of a WebSocket"

    def _may_call(self, origin: str, host: str) -> bool:
        if origin.lower() in self.origins:
            return True
        try:
            parts = urlsplit(origin.lower())
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return False
        return parts.netloc == host.lower() or _hostname(parts.netloc) in LOCAL

    def _knows(self, scope: Scope, headers: dict[str, str]) -> bool:
        assert self.token is not None
        kind, _, given = headers.get("authorization", "").partition(" ")
        tokens = [given.strip()] if kind.lower() == "bearer" else []
        if scope["type"] == "websocket" or scope["path"].startswith("/api/samples/"):  # <video> sets no header
            tokens += parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        tokens += [name[6:] for name in scope.get("subprotocols") or () if name.startswith("token.")]
        wanted = self.token.encode()
        return any(hmac.compare_digest(token.encode("utf-8", "surrogateescape"), wanted) for token in tokens)

    def _dressed(self, scope: Scope, send: Send, origin: str | None) -> Send:
        """Adds the headers that every response has."""
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
        added = [(name.encode(), value.encode("latin-1")) for name, value in extra.items()]

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        return dressed


def is_local(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    bare = host.strip("[]").lower()
    return bare in LOCAL or bare.startswith("127.")


def check_origin(origin: str) -> str:
    try:
        parts = urlsplit(origin.lower())
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        raise ConfigError(f"the origin {origin!r} is none: it looks like https://example.org or http://host:8080")
    return f"{parts.scheme}://{parts.netloc}"


def _hostname(netloc: str) -> str:
    try:
        return urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return ""


async def _refuse(status: int, code: str, message: str, send: Send) -> None:
    body = json.dumps({"error": {"code": code, "message": message}}).encode() if code else b""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())] if code else []
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _refuse_socket(status: int, code: str, message: str, receive: Receive, send: Send) -> None:
    await receive()
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
