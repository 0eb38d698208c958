"""`horst serve`: a model behind a page and an API, on this machine."""

import contextlib
import importlib.util
import os
import socket
from pathlib import Path

from horst.cli.options import Device, Flag, Model, Source
from horst.console import Console, working
from horst.errors import ConfigError

QUEUE = 128  # connections that may wait to be accepted


def serve(
    model: Model = "somethings",
    /,
    *,
    port: int = 8000,
    host: str = "127.0.0.1",
    token: str | None = None,
    origin: str | None = None,
    streams: int = 32,
    folder: Path = Path("horst-live"),
    device: Device = "auto",
    base: Source = "motion_pool",
    threads: int | None = None,
    drain: float = 5.0,
    open: Flag = False,
) -> None:
    """Serve a model: a page for the webcam and for finetuning, a WebSocket for live video, and a REST API.

    Args:
        port: Port; 0 takes a free one.
        host: Address to listen at. Other machines can reach any but the default, which then needs a token.
        token: Secret that clients must send, at least 8 characters; HORST_TOKEN by default.
        origin: Pages of other sites that may call, such as https://example.org, separated by commas.
        streams: Largest number of live streams at once.
        folder: Folder of recordings, finetuned models and samples.
        base: The model that teaching puts a new head on; see horst teach.
        threads: CPU threads of the models; by default all cores, or all but one without onnxruntime.
        drain: Seconds that open sessions have after SIGTERM, while new ones are refused.
        open: Open the page in a browser.
    """
    import asyncio
    import webbrowser

    from horst.extras import require
    from horst.places import find_model, model_title

    find_model(model)
    with working("loading torch"):
        import torch

        for module in ("fastapi", "uvicorn"):
            require(module, "serve")
        from horst.config import check_positive
        from horst.models import open_model
        from horst.models.hub import find_device
        from horst.serving.app import check_binding, create_app, page_url
        from horst.serving.limits import Limits
        from horst.serving.server import create_server

    token = token or os.environ.get("HORST_TOKEN") or None
    check_binding(host, token)
    limits = Limits(streams=streams)
    if threads is not None:
        check_positive(threads=threads)
    if not 0 <= drain <= 3600:
        raise ConfigError(f"drain is {drain:g}; it takes 0 to 3600 seconds")
    # torch is slower on cores that it shares with images and messages, so one is left to those. onnxruntime is not.
    shared = 0 if importlib.util.find_spec("onnxruntime") else 1
    torch.set_num_threads(threads if threads is not None else max(1, torch.get_num_threads() - shared))
    where = find_device(device)
    with _listen(host, port) as listener:
        with working("loading the model"):
            app = create_app(
                open_model(model, device=where),
                folder,
                name=model_title(model),
                limits=limits,
                host=host,
                token=token,
                origins=[o for o in (origin or "").split(",") if o],
                device=str(where),
                base=str(base),
            )
        page = page_url(host, listener.getsockname()[1], token)
        Console().print(f"{model_title(model)} is served at {page}  (Ctrl-C stops it)", highlight=False)
        if open:
            webbrowser.open(page)
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            create_server(app, host=host, port=port, limits=limits, drain=drain).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """Bind before the model is loaded: a port in use is reported at once."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"port is {port}; there are 0 to 65535, and 0 takes a free one")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    try:
        listener = socket.create_server((host, port), family=family, backlog=QUEUE, dualstack_ipv6=both)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{host}:{port} cannot be used: {reason}; choose another --port, or 0 for any") from error
    listener.setblocking(False)
    return listener
