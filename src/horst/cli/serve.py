"""`horst serve`: a model behind a page and an API, on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import webbrowser

import torch

from horst.config import check_positive
from horst.console import Console
from horst.errors import ConfigError
from horst.extras import require
from horst.models import open_model
from horst.models.hub import find_device, model_title
from horst.serving.limits import Limits

QUEUE = 128
"""Connections that may wait to be taken."""


def run(
    model: str,
    *,
    host: str,
    port: int,
    token: str | None,
    origin: str | None,
    streams: int,
    folder: str,
    device: str,
    threads: int | None,
    open_page: bool,
) -> None:
    for module in ("fastapi", "uvicorn"):
        require(module, "serve")
    from horst.serving.app import create_app
    from horst.serving.run import address, check_binding, server

    check_binding(host, token)
    limits = Limits(streams=streams)
    if threads is not None:
        check_positive(threads=threads)
    # One core is left to pictures and messages: a model that shares all of them with those is slower, not quicker.
    torch.set_num_threads(threads if threads is not None else max(1, torch.get_num_threads() - 1))
    where = find_device(device)
    listener = _listen(host, port)
    with listener:
        app = create_app(
            open_model(model, device=where),
            folder,
            name=model_title(model),
            limits=limits,
            host=host,
            token=token,
            origins=[o for o in (origin or "").split(",") if o],
            device=str(where),
        )
        page = address(host, listener.getsockname()[1], token)
        Console().print(f"{model_title(model)} is served at {page}  (Ctrl-C stops it)", highlight=False)
        if open_page:
            webbrowser.open(page)
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            server(app, host=host, port=port, limits=limits).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """The address is taken before the model is loaded: a port in use is told at once."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"port is {port}; there are 0 to 65535, and 0 takes a free one")
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(where)
            listener.listen(QUEUE)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{host}:{port} cannot be used: {reason}; choose another --port, or 0 for any") from error
    listener.setblocking(False)
    return listener
