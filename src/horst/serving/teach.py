"""Routes to record clips, to teach a model with them, and to follow it."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi import Path as FromPath
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from horst.errors import BusyError, InputError
from horst.serving.errors import ApiError, problems
from horst.serving.limits import Limits
from horst.serving.pictures import read_picture
from horst.serving.uploads import whole_body
from horst.serving.wire import split_frame
from horst.video.frame import Image

if TYPE_CHECKING:
    from horst.finetune import Recordings, Teacher

Label = Annotated[str, FromPath(max_length=200, description="What the clip shows, in words.")]
LENGTH = struct.Struct("<I")


class ClipInfo(BaseModel):
    id: str
    frames: int
    seconds: float


class RecordingInfo(ClipInfo):
    label: str


class LabelInfo(BaseModel):
    label: str
    clips: list[ClipInfo]


class RecordingList(BaseModel):
    labels: list[LabelInfo]


class Removed(BaseModel):
    removed: int


class TeachRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field("mine", min_length=1, max_length=100)
    how: Literal["frozen", "scratch"] = "frozen"
    minutes: float = Field(1.0, gt=0, le=60, strict=True)


class TeachState(BaseModel):
    model_config = ConfigDict(extra="allow")

    state: Literal["idle", "running", "done", "failed", "cancelled"]
    progress: float
    epoch: int
    epochs: int
    loss: float | None
    accuracy: float | None
    model: str | None
    message: str


class School:
    """Recordings and the teacher, opened when they are first needed."""

    def __init__(self, recordings: Path, models: Path) -> None:
        self._folders = recordings, models
        self._lock = threading.RLock()
        self._recordings: Recordings | None = None
        self._teacher: Teacher | None = None

    @property
    def recordings(self) -> Recordings:
        from horst.finetune import Recordings

        with self._lock:
            if self._recordings is None:
                self._recordings = Recordings(self._folders[0])
            return self._recordings

    @property
    def teacher(self) -> Teacher:
        from horst.finetune import Teacher

        with self._lock:
            if self._teacher is None:
                self._teacher = Teacher(self.recordings, self._folders[1])
            return self._teacher

    @property
    def teaching(self) -> bool:
        """Whether a lesson is under way."""
        teacher = self._teacher
        return teacher is not None and teacher.state()["state"] == "running"

    def close(self) -> None:
        with self._lock:
            if self._teacher is not None:
                self._teacher.close()


def routes(school: School, limits: Limits) -> APIRouter:
    router = APIRouter(tags=["teach"])

    @router.post(
        "/api/recordings/{label}",
        status_code=201,
        responses=problems(404, 409, 413, 422, 503),
        openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {
            "schema": {"type": "string", "format": "binary"}}}}},
    )  # fmt: skip
    async def record(request: Request, label: Label) -> RecordingInfo:
        """A clip: frames as on the WebSocket, each preceded by its length (uint32, little-endian)."""
        body = await whole_body(request, limits.upload_bytes)
        return RecordingInfo(**await run_in_threadpool(_keep, school, label, body, limits))

    @router.get("/api/recordings", responses=problems())
    def recordings() -> RecordingList:
        """All clips by label."""
        known = school.recordings.labels()
        return RecordingList(
            labels=[
                LabelInfo(label=label, clips=[ClipInfo(id=r.id, frames=r.frames, seconds=r.seconds) for r in clips])
                for label, clips in known.items()
            ]
        )

    @router.delete("/api/recordings/{label}", responses=problems(404, 409, 422))
    def remove_label(label: Label) -> Removed:
        """Forget a label and its clips."""
        return Removed(removed=_remove(school, label, None))

    @router.delete("/api/recordings/{label}/{id}", responses=problems(404, 409, 422))
    def remove_clip(label: Label, id: Annotated[str, FromPath(max_length=100)]) -> Removed:
        """Forget one clip."""
        return Removed(removed=_remove(school, label, id))

    @router.post("/api/teach", status_code=202, responses=problems(409, 422, 503))
    def teach(wanted: TeachRequest) -> TeachState:
        """Teach a model with the clips, in the background."""
        teacher = school.teacher
        try:
            teacher.start(wanted.name, wanted.how, wanted.minutes)
        except BusyError as error:
            raise ApiError(409, "running", str(error)) from error
        return TeachState(**teacher.state())

    @router.get("/api/teach", responses=problems())
    def state() -> TeachState:
        """How far it is."""
        return TeachState(**school.teacher.state())

    @router.delete("/api/teach", responses=problems())
    def cancel() -> TeachState:
        """Stop teaching; the model that was there before stays."""
        teacher = school.teacher
        teacher.cancel()
        return TeachState(**teacher.state())

    return router


def _keep(school: School, label: str, body: bytes, limits: Limits) -> dict[str, Any]:
    try:
        return school.recordings.add(label, _frames(body, limits)).to_dict()
    except BusyError as error:  # full until something is removed: waiting does not help
        raise ApiError(409, "full", str(error)) from error


def _frames(body: bytes, limits: Limits) -> Iterator[tuple[float, Image]]:
    """One by one: a long clip is refused before it fills the memory."""
    at = count = 0
    view = memoryview(body)
    while at < len(body):
        if len(body) - at < LENGTH.size:
            raise InputError(f"the body ends in the length of frame {count}")
        (length,) = LENGTH.unpack_from(body, at)
        at += LENGTH.size
        if length > len(body) - at:
            raise InputError(f"frame {count} shall have {length} bytes; the body has {len(body) - at} more")
        count += 1
        if count > limits.recording_frames:
            raise InputError(f"the clip has more than the {limits.recording_frames} frames that are taken")
        _, time, picture = split_frame(bytes(view[at : at + length]), limits.frame_bytes)
        at += length
        yield time, read_picture(picture, limits.frame_pixels)
    if not count:
        raise InputError("the body has no frames")


def _remove(school: School, label: str, id: str | None) -> int:
    recordings = school.recordings
    known = recordings.labels()
    if id is None:
        found = label in known
    else:
        found = any(r.id == id for r in known.get(label, ()))
    if not found:
        raise ApiError(404, "missing", f"there is no recording {id or ''} of {label!r}".replace("  ", " "))
    return recordings.remove(label, id)
