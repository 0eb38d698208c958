"""The REST routes: models, samples, predictions for uploaded videos, recordings, finetuning, health and metrics."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from horst import __version__
from horst.errors import BusyError, HorstError, InputError, VideoError
from horst.finetune import FinetuneState, Recording
from horst.models import Predictor
from horst.serving.errors import ApiError, responses
from horst.serving.frames import split_recording
from horst.serving.limits import Limits
from horst.serving.manager import ModelInfo, ModelManager
from horst.serving.samples import SampleClip, Samples
from horst.serving.websocket import ResetName
from horst.streaming import reset_policy
from horst.streaming.pool import class_names
from horst.video.decode import VideoFile

MAX_SECONDS = 120.0  # computing time for one uploaded video
BINARY = {"schema": {"type": "string", "format": "binary"}}
BINARY_BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": BINARY}}}  # for OpenAPI
# First bytes of containers that hold all of their data. Playlists, which may refer to other files, are never opened.
SIGNATURES = {
    "mp4": lambda b: b[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip"),
    "webm": lambda b: b[:4] == b"\x1a\x45\xdf\xa3",
    "avi": lambda b: b[:4] == b"RIFF" and b[8:12] == b"AVI ",
    "ogg": lambda b: b[:4] == b"OggS",
    "mpeg": lambda b: b[:4] in (b"\x00\x00\x01\xba", b"\x00\x00\x01\xb3"),
    "ts": lambda b: len(b) > 188 and b[0] == 0x47 and b[188] == 0x47,
}
Label = Annotated[str, PathParameter(max_length=200, description="The action that the clip shows, in words.")]
ClipId = Annotated[str, PathParameter(max_length=100)]


@dataclass(frozen=True, slots=True)
class LabelClips:
    label: str
    clips: list[Recording]


class FinetuneRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field("mine", min_length=1, max_length=100)
    how: Literal["frozen", "scratch"] = "frozen"
    minutes: float = Field(1.0, gt=0, le=60, strict=True)


class ServerInfo(BaseModel):
    name: str = "horst"
    version: str = __version__
    model: str
    fps: float
    size: tuple[int, int]
    labels: dict[str, list[str]]
    limits: Limits
    needs_token: bool


class VideoPredictions(BaseModel):
    model: str
    fps: float
    predictions: list[dict[str, Any]]


def api_routes(manager: ModelManager, samples: Samples, uploads: Path, *, token: bool) -> APIRouter:
    """`uploads`: folder of uploaded videos while they are read; `token`: whether the server requires one."""
    router, limits, finetuner, recordings = APIRouter(), manager.limits, manager.finetuner, manager.finetuner.recordings
    places, one_at_a_time = asyncio.Semaphore(limits.uploads), asyncio.Semaphore(1)  # of uploaded videos

    @router.get("/healthz", tags=["state"])
    async def healthz() -> dict[str, str]:
        """Whether the server runs."""
        return {"status": "ok"}

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
        """All models that a session can use."""
        found = []
        for name in manager.names():
            with contextlib.suppress(HorstError):  # a damaged one; who uses it gets the error
                found.append(manager.describe(name))
        return found

    @router.get("/api/samples", tags=["samples"], responses=responses())
    def list_samples() -> list[SampleClip]:
        """Example clips."""
        return samples.list()

    @router.get(
        "/api/samples/{name}.mp4",
        tags=["samples"],
        response_class=FileResponse,
        responses={**responses(404, 422), 200: {"content": {"video/mp4": BINARY}}, 206: {
            "description": "Part of the file, for a Range request.", "content": {"video/mp4": BINARY}}},
    )  # fmt: skip
    def sample(name: str) -> FileResponse:
        """An example clip as a file."""
        path = samples.file(name)
        if path is None:
            raise ApiError(404, f"there is no sample {name!r}")
        return FileResponse(path, media_type="video/mp4")

    @router.post("/api/predict", tags=["predict"], responses=responses(413, 422, 503), openapi_extra=BINARY_BODY)
    async def predict(
        request: Request,
        model: str | None = Query(None, max_length=100),
        top: int = Query(5, ge=1, le=1000),
        reset: ResetName = "auto",
    ) -> VideoPredictions:
        """All predictions for a video file in the body: mp4, webm, avi, ogg, mpeg or ts."""
        if places.locked():
            raise BusyError("other videos are being predicted: try again later")
        async with places:
            name, predictor = await run_in_threadpool(manager.model, model)
            async with uploaded_video(request, uploads, limits.upload_bytes) as path, one_at_a_time:
                try:
                    predictions = await run_in_threadpool(_predict, path, predictor, reset, top, limits)
                except VideoError as error:  # clients must not see paths of the server
                    raise ApiError(422, str(error).replace(str(path), "the video"), "video") from error
        return VideoPredictions(model=name, fps=predictor.fps, predictions=predictions)

    @router.post(
        "/api/recordings/{label}",
        tags=["teach"],
        status_code=201,
        responses=responses(404, 409, 413, 422, 503),
        openapi_extra=BINARY_BODY,
    )
    async def record(request: Request, label: Label) -> Recording:
        """Store a clip: frames as on the WebSocket, each preceded by its length (uint32, little-endian)."""
        body = b"".join([piece async for piece in read_body(request, limits.upload_bytes)])
        try:
            return await run_in_threadpool(recordings.add, label, split_recording(body, limits))
        except BusyError as error:  # full until something is removed: waiting does not help
            raise ApiError(409, str(error), "full") from error

    @router.get("/api/recordings", tags=["teach"], responses=responses())
    def list_recordings() -> dict[Literal["labels"], list[LabelClips]]:
        """All clips by label."""
        return {"labels": [LabelClips(label, clips) for label, clips in recordings.labels().items()]}

    @router.delete("/api/recordings/{label}", tags=["teach"], responses=responses(404, 409, 422))
    @router.delete("/api/recordings/{label}/{id}", tags=["teach"], responses=responses(404, 409, 422))
    def remove(label: Label, id: ClipId | None = None) -> dict[Literal["removed"], int]:
        """Remove one clip, or a label and all of its clips."""
        try:
            return {"removed": recordings.remove(label, id)}
        except InputError as error:
            raise ApiError(404, str(error)) from error

    @router.post("/api/teach", tags=["teach"], status_code=202, responses=responses(409, 422, 503))
    def start(request: FinetuneRequest) -> FinetuneState:
        """Finetune a model on the clips, in the background."""
        try:
            return finetuner.start(request.name, request.how, request.minutes)
        except BusyError as error:
            raise ApiError(409, str(error)) from error

    @router.get("/api/teach", tags=["teach"], responses=responses())
    def state() -> FinetuneState:
        """Progress and result."""
        return finetuner.state()

    @router.delete("/api/teach", tags=["teach"], responses=responses())
    def cancel() -> FinetuneState:
        """Cancel; a model of the same name stays as it was."""
        return finetuner.cancel()

    return router


def _predict(path: Path, model: Predictor, reset: str, top: int, limits: Limits) -> list[dict[str, Any]]:
    check_container(path)
    start, predictions = time.monotonic(), []
    stream = model.stream(reset=reset_policy(reset, model.head.classes, states=limits.states, live=False))
    with VideoFile(path, size=model.size, threads=1) as video:
        if video.info.width * video.info.height > limits.frame_pixels:
            raise ApiError(413, f"the frames have more than {limits.frame_pixels} pixels, which is the limit")
        end = video.info.duration
        if end is not None and end > limits.video_seconds:
            raise ApiError(413, f"the video lasts {end:.0f} s; the limit is {limits.video_seconds:g} s")
        for prediction in stream.watch(video.frames(), end):
            if time.monotonic() - start > MAX_SECONDS:
                raise BusyError(f"the video took more than {MAX_SECONDS:g} s: send a shorter one, or try again later")
            if prediction.time > limits.video_seconds:
                raise ApiError(413, f"the video lasts more than {limits.video_seconds:g} s, which is the limit")
            predictions.append(prediction.to_dict(top))
    return predictions


async def read_body(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    """The body in pieces; raises an error as soon as it is too large."""
    too_large = ApiError(413, f"the body has more than {max_bytes} bytes, which is the limit")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > max_bytes:
        raise too_large
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > max_bytes:
                raise too_large
            yield piece
    except ClientDisconnect:
        raise ApiError(400, "the body ended early") from None


@contextlib.asynccontextmanager
async def uploaded_video(request: Request, folder: Path, max_bytes: int) -> AsyncIterator[Path]:
    """The body as a temporary file within `folder`, under a name of our own."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="upload-", dir=folder, ignore_cleanup_errors=True) as own:
        path = Path(own) / "video"
        with path.open("wb") as file:
            async for piece in read_body(request, max_bytes):
                await run_in_threadpool(file.write, piece)
        yield path


def check_container(path: Path) -> None:
    """ApiError unless a file starts like a video of a supported container."""
    with path.open("rb") as file:
        start = file.read(512)
    if not start:
        raise ApiError(422, "the body is empty: send the bytes of a video file", "video")
    if not any(matches(start) for matches in SIGNATURES.values()):
        raise ApiError(422, f"this is not a video in a supported container ({', '.join(SIGNATURES)})", "video")
