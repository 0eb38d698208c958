"""The application: all routes of one server over its models, behind the guard."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI, WebSocket

from horst import __version__
from horst.errors import ConfigError
from horst.finetune import Finetuner, Recordings
from horst.finetune.run import MOTION_POOL
from horst.models import Predictor
from horst.serving import errors
from horst.serving.decoding import Decoders
from horst.serving.guard import Guard, is_local
from horst.serving.limits import Limits
from horst.serving.manager import ModelManager
from horst.serving.pages import page_routes
from horst.serving.rest import api_routes
from horst.serving.websocket import WebSocketSession
from horst.threads import available_cores


def create_app(
    model: Predictor,
    folder: str | Path,
    *,
    name: str = "model",
    limits: Limits | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
    origins: Iterable[str] = (),
    device: str = "cpu",
    base: str = MOTION_POOL,
) -> Guard:
    """An ASGI application.

    Args:
        model: The default model, in evaluation mode.
        folder: Folder for recordings, finetuned models, their exports, samples and, while they are read, uploads.
        name: Name of the default model.
        limits: Limits of the server.
        host: The address that the server is bound to.
        token: Token that clients must send.
        origins: Other sites whose pages may call the server.
        device: Device of further models.
        base: The model that finetuning puts a new head on; see `horst.finetune.finetune`.
    """
    folder = Path(folder).resolve()
    finetuner = Finetuner(Recordings(folder / "recordings"), folder / "models", base)
    manager = ModelManager(name, model, finetuner, limits or Limits(), device)
    decoders = Decoders(max(2, min(4, available_cores())))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        manager.stop()
        finetuner.cancel()
        decoders.stop()

    app = FastAPI(
        title="horst",
        version=__version__,
        description="Predicts human actions from video. Live streams use the WebSocket /ws, see /docs.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.manager = manager
    errors.install(app, manager.metrics, folder)
    app.include_router(api_routes(manager, folder, token=token is not None))
    app.include_router(page_routes(app))

    @app.websocket("/ws")
    async def live(socket: WebSocket) -> None:
        await WebSocketSession(socket, manager, decoders).run()

    return Guard(app, host=host, token=token, origins=origins)


def check_binding(host: str, token: str | None) -> None:
    """ConfigError if a server that other machines can reach has no token, or a weak one."""
    if not is_local(host) and not token:
        raise ConfigError(f"other machines can reach host {host}: set a token with --token, or use 127.0.0.1")
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token):
        raise ConfigError("a token must have at least 8 printable ASCII characters and no spaces")


def page_url(host: str, port: int, token: str | None) -> str:
    """URL of the page. The token is in the fragment, which browsers do not send."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}/" + (f"#token={quote(token, safe='')}" if token else "")
