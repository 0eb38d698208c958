"""The REST routes: health, metrics, models, and predictions for uploaded videos. Others are included."""

from functools import partial
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from horst import __version__
from horst.errors import BusyError
from horst.models import Predictor
from horst.serving.downloads import download_routes
from horst.serving.errors import BINARY_BODY, file_response, responses
from horst.serving.limits import Limits
from horst.serving.manager import ModelInfo, ModelManager
from horst.serving.samples import Samples, sample_routes
from horst.serving.teach import teach_routes
from horst.serving.uploads import Check, Uploads, checked_frames, open_upload
from horst.serving.websocket import ResetName
from horst.streaming import reset_policy
from horst.streaming.pool import class_names
from horst.video.encode import write_video
from horst.viz.render import render_stream

DEFAULT_FPS, MOST_FPS = 12.0, 30.0  # frame rate of a rendered video if the video's is not known, and at most


class ServerInfo(BaseModel):
    name: str = "horst"
    version: str = __version__
    model: str
    fps: float
    size: tuple[int, int]
    labels: dict[str, list[str]]
    limits: Limits
    needs_token: bool


class Health(BaseModel):
    status: Literal["ok", "draining"]
    full: bool


class VideoPredictions(BaseModel):
    model: str
    fps: float
    predictions: list[dict[str, Any]]


def api_routes(manager: ModelManager, folder: Path, *, token: bool) -> APIRouter:
    """`folder`: of the server; `token`: whether the server requires one."""
    router, limits = APIRouter(), manager.limits
    videos = Uploads(folder / "uploads", limits, limits.uploads, manager.stopped)
    recordings = Uploads(folder / "uploads", limits, limits.recordings, manager.stopped)

    @router.get("/healthz", tags=["state"])
    async def alive() -> Health:
        """Whether the server runs: 200 until it ends."""
        return Health(status="draining" if manager.draining else "ok", full=manager.full)

    @router.get("/healthz/ready", tags=["state"], responses=responses(503))
    async def ready() -> Health:
        """Whether it accepts requests: 503 when it is about to end. A server without room for a session is ready."""
        if manager.draining:
            raise BusyError("the server is stopping")
        return Health(status="ok", full=manager.full)

    @router.get("/metrics", tags=["state"], response_class=PlainTextResponse, responses=responses())
    async def read_metrics() -> PlainTextResponse:
        """Counters, latency and memory for Prometheus."""
        return PlainTextResponse(manager.metrics.text(manager.load), media_type="text/plain; version=0.0.4")

    @router.get("/api/info", tags=["models"], responses=responses())
    def info() -> ServerInfo:
        """The default model, its labels, and the limits of the server."""
        name, model = manager.model(None)
        labels = class_names(model)
        return ServerInfo(model=name, fps=model.fps, size=model.size, labels=labels, limits=limits, needs_token=token)

    @router.get("/api/models", tags=["models"], responses=responses(422, 503))
    def models() -> list[ModelInfo]:
        """All models, also those that are damaged."""
        return [manager.describe(name) for name in manager.names()]

    router.include_router(download_routes(manager.finetuner, folder / "exports"))
    router.include_router(sample_routes(Samples(folder / "samples", manager)))

    @router.post(
        "/api/predict", tags=["predict"], responses=responses(408, 413, 422, 503, 507), openapi_extra=BINARY_BODY
    )
    async def predict(
        request: Request,
        model: str | None = Query(None, max_length=100),
        top: int = Query(5, ge=1, le=1000),
        reset: ResetName = "auto",
    ) -> VideoPredictions:
        """All predictions for a video file in the body: mp4, webm, avi, ogg, mpeg or ts."""
        name, predictor = await run_in_threadpool(manager.model, model)
        work = partial(_predict, model=predictor, reset=reset, top=top, limits=limits)
        predictions = await videos.run(request, work)
        return VideoPredictions(model=name, fps=predictor.fps, predictions=predictions)

    mp4 = file_response("video/mp4", 408, 413, 422, 503, 507)

    @router.post("/api/render", tags=["predict"], openapi_extra=BINARY_BODY, **mp4)
    async def render(
        request: Request, model: str | None = Query(None, max_length=100), reset: ResetName = "auto"
    ) -> Response:
        """The video file in the body as an mp4 with the predictions drawn in."""
        _, predictor = await run_in_threadpool(manager.model, model)
        work = partial(_render, model=predictor, reset=reset, limits=limits)
        return Response(await videos.run(request, work), media_type="video/mp4")

    router.include_router(teach_routes(manager.finetuner, recordings))
    return router


def _predict(
    path: Path, check: Check, *, model: Predictor, reset: str, top: int, limits: Limits
) -> list[dict[str, Any]]:
    policy = reset_policy(reset, model.head.classes, states=limits.states, live=False)
    with open_upload(path, limits, model.size) as video:
        stream = model.stream(reset=policy)  # takes memory, which a body that is no video is not worth
        predictions = stream.watch(checked_frames(video, limits, check), video.info.duration)
        return [prediction.to_dict(top) for prediction in predictions]


def _render(path: Path, check: Check, *, model: Predictor, reset: str, limits: Limits) -> bytes:
    """An mp4 file as `horst predict --render` makes it. It is written beside `path`, which has a folder of its own."""
    policy = reset_policy(reset, model.head.classes, states=limits.states, live=False)
    # It is read twice, small and as it is: predictions must not depend on being drawn.
    with open_upload(path, limits, model.size) as video, open_upload(path, limits) as large:
        stream = model.stream(reset=policy, attention=True)
        frames = checked_frames(video, limits, check)
        fps = min(video.info.fps or DEFAULT_FPS, MOST_FPS)
        images = render_stream(stream, frames, video.info.duration, fps=fps, large=large.frames())
        rendered = path.with_name("rendered.mp4")
        write_video(rendered, images, fps)
    return rendered.read_bytes()
