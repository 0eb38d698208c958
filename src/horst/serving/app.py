"""The application: all routes of one server over its models, behind the guard."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, WebSocket

from horst import __version__
from horst.models import Predictor
from horst.serving import errors, rest, static, teach
from horst.serving.guard import Guard
from horst.serving.hall import Hall
from horst.serving.limits import Limits
from horst.serving.metrics import Metrics
from horst.serving.samples import Samples
from horst.serving.socket import Session


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
) -> Guard:
    """An ASGI application.

    Args:
        model: What is served where a client asks for nothing else; in evaluation mode.
        folder: Where recordings, taught models, samples and, for as long as they are read, uploads lie.
        name: Of the model.
        limits: What is granted.
        host: The address that the server is bound to.
        token: What clients must bring.
        origins: Pages of other sites that may call.
        device: Where further models run.
    """
    folder, limits, metrics = Path(folder).resolve(), limits or Limits(), Metrics()
    taught = folder / "models"
    school = teach.School(folder / "recordings", taught)
    hall = Hall(
        name, model, limits=limits, metrics=metrics, taught=taught, device=device, lesson=lambda: school.teaching
    )
    decoders = ThreadPoolExecutor(max(2, min(4, os.cpu_count() or 2)), thread_name_prefix="decoder")

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        hall.close()
        school.close()
        decoders.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(
        title="horst",
        version=__version__,
        description="Predicts human actions from video while they unfold. Live streams: the WebSocket /ws, see /docs.",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
    )
    errors.install(app, metrics)
    samples = Samples(folder / "samples")
    app.include_router(rest.routes(hall, limits, metrics, samples, folder / "uploads", token is not None))
    app.include_router(teach.routes(school, limits))
    app.include_router(static.routes(app))

    @app.websocket("/ws")
    async def live(socket: WebSocket) -> None:
        await Session(socket, hall, limits, metrics, decoders).run()

    return Guard(app, host=host, token=token, origins=origins)
