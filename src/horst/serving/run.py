"""Runs an application until it is stopped."""

from __future__ import annotations

from typing import Any

import uvicorn

from horst.errors import ConfigError
from horst.serving.guard import is_local
from horst.serving.limits import Limits


def server(app: Any, *, host: str, port: int, limits: Limits) -> uvicorn.Server:
    """Set up as the limits say: large messages are closed, nothing is compressed, connections are bounded."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,  # addresses may hold the token
        ws="websockets-sansio",
        ws_max_size=limits.frame_bytes + 4096,
        ws_per_message_deflate=False,  # pictures are compressed already
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=3,
        limit_concurrency=4 * limits.streams + 64,
        server_header=False,
    )
    return uvicorn.Server(config)


def check_binding(host: str, token: str | None) -> None:
    """Whoever reaches the server may use it: beyond this machine that takes a token."""
    if not is_local(host) and not token:
        raise ConfigError(
            f"host {host} can be reached from other machines: set a token with --token, or stay with 127.0.0.1"
        )
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token):
        raise ConfigError("a token has at least 8 letters, digits or signs, and no spaces")


def address(host: str, port: int, token: str | None) -> str:
    """Where the page is; the token is behind the #, which browsers send to nobody."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}/" + (f"#token={token}" if token else "")
