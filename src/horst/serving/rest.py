"""The REST routes: what is served, samples, videos to predict, health and counts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, PlainTextResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from horst import __version__
from horst.errors import BusyError, HorstError, VideoError
from horst.models import Predictor
from horst.serving.errors import ApiError, problems
from horst.serving.hall import Hall, choose_policy
from horst.serving.limits import Limits
from horst.serving.metrics import Metrics
from horst.serving.samples import Samples
from horst.serving.uploads import check_container, uploaded
from horst.video.decode import VideoFile

PATIENCE = 120.0
"""Seconds of work for one uploaded video."""


class ModelInfo(BaseModel):
    name: str
    title: str
    fps: float
    size: list[int]
    tasks: dict[str, int]
    taught: bool


class Info(BaseModel):
    name: str
    version: str
    model: str
    fps: float
    size: list[int]
    labels: dict[str, list[str]]
    limits: dict[str, float]
    needs_token: bool


class SampleInfo(BaseModel):
    name: str
    label: str
    action: str
    seconds: float


class Predicted(BaseModel):
    model: str
    fps: float
    predictions: list[dict[str, Any]]


class Health(BaseModel):
    status: Literal["ok"]


def routes(
    hall: Hall, limits: Limits, metrics: Metrics, samples: Samples, uploads: Path, needs_token: bool
) -> APIRouter:
    """The routes of one server; `uploads` is the folder where bodies lie while they are read."""
    router = APIRouter()
    waiting = 0
    turn = asyncio.Semaphore(1)

    @router.get("/healthz", tags=["state"])
    async def healthz() -> Health:
        """Whether the server is there."""
        return Health(status="ok")

    @router.get("/metrics", tags=["state"], response_class=PlainTextResponse, responses=problems())
    async def read_metrics() -> PlainTextResponse:
        """Counts, latencies and memory, as Prometheus reads them."""
        return PlainTextResponse(metrics.text(hall.load), media_type="text/plain; version=0.0.4")

    @router.get("/api/info", tags=["models"], responses=problems())
    def info() -> Info:
        """The model that is served, its labels, and the limits."""
        name, model = hall.model(None)
        return Info(
            name="horst",
            version=__version__,
            model=name,
            fps=model.fps,
            size=list(model.size),
            labels=_labels(model),
            limits=limits.to_dict(),
            needs_token=needs_token,
        )

    @router.get("/api/models", tags=["models"], responses=problems(422, 503))
    def models() -> list[ModelInfo]:
        """All models that a stream can ask for."""
        found = []
        for name in hall.names():
            with contextlib.suppress(HorstError):  # a damaged one hides no other; who asks for it is told
                found.append(ModelInfo(**hall.describe(name)))
        return found

    @router.get("/api/samples", tags=["samples"], responses=problems())
    def list_samples() -> list[SampleInfo]:
        """Clips to try it with."""
        return [SampleInfo(**sample.to_dict()) for sample in samples.list()]  # type: ignore[arg-type]

    @router.get(
        "/api/samples/{name}.mp4",
        tags=["samples"],
        response_class=FileResponse,
        responses={**problems(404, 422), 200: {"content": {"video/mp4": {"schema": BINARY}}}, 206: {
            "description": "A part, as asked for by Range.", "content": {"video/mp4": {"schema": BINARY}}}},
    )  # fmt: skip
    def sample(name: str) -> FileResponse:
        """One of them as a file."""
        path = samples.file(name)
        if path is None:
            raise ApiError(404, "missing", f"there is no sample {name!r}")
        return FileResponse(path, media_type="video/mp4")

    @router.post(
        "/api/predict",
        tags=["predict"],
        responses=problems(413, 422, 503),
        openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": BINARY}}}},
    )
    async def predict(
        request: Request,
        model: str | None = Query(None, max_length=100),
        top: int = Query(5, ge=1, le=1000),
        restarts: Literal["auto", "never", "every", "motion"] = "auto",
    ) -> Predicted:
        """What a model says of a video file, sent as the body: mp4, webm, avi, ogg, mpeg or ts."""
        nonlocal waiting
        if waiting >= limits.uploads:
            raise BusyError("other videos are being predicted: try again in a while")
        waiting += 1
        try:
            name, predictor = await run_in_threadpool(hall.model, model)
            async with uploaded(request, uploads, limits.upload_bytes) as path, turn:
                try:
                    said = await run_in_threadpool(_predict, path, predictor, restarts, top, limits)
                except VideoError as error:  # our name for the file is nobody's business
                    raise ApiError(422, "video", str(error).replace(str(path), "the video")) from error
        finally:
            waiting -= 1
        return Predicted(model=name, fps=predictor.fps, predictions=said)

    return router


def _predict(path: Path, model: Predictor, restarts: str, top: int, limits: Limits) -> list[dict[str, Any]]:
    check_container(path)
    start, said = time.monotonic(), []
    stream = model.stream(reset=choose_policy(model, restarts, 3.0, limits.states, limits, endless=False))
    with VideoFile(path, size=model.size, threads=1) as video:
        if video.info.width * video.info.height > limits.frame_pixels:
            raise ApiError(413, "large", f"its frames have more than {limits.frame_pixels} pixels")
        end = video.info.duration
        if end is not None and end > limits.video_seconds:
            raise ApiError(413, "large", f"the video lasts {end:.0f} s; at most {limits.video_seconds:g} are taken")
        for prediction in stream.watch(video.frames(), end):
            if time.monotonic() - start > PATIENCE:
                raise BusyError(f"the video took longer than {PATIENCE:g} s: send a shorter one, or try again later")
            if prediction.time > limits.video_seconds:
                raise ApiError(413, "large", f"the video lasts more than the {limits.video_seconds:g} s that are taken")
            said.append(prediction.to_dict(top))
    return said


def _labels(model: Predictor) -> dict[str, list[str]]:
    labels = model.labels or {}
    tasks = model.head.classes.items()
    return {task: list(labels.get(task) or [f"{task} {i}" for i in range(n)]) for task, n in tasks}


BINARY = {"type": "string", "format": "binary"}
