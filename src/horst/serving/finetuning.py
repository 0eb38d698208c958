"""Routes to record clips, and to finetune a model on them in the background."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from horst.errors import BusyError, InputError
from horst.finetune import Finetuner, FinetuneState, Recording, Recordings
from horst.serving.errors import ApiError, responses
from horst.serving.frames import split_recording
from horst.serving.limits import Limits
from horst.serving.rest import BINARY_BODY, read_body

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


def routes(recordings: Recordings, finetuner: Finetuner, limits: Limits) -> APIRouter:
    router = APIRouter(tags=["teach"])

    @router.post(
        "/api/recordings/{label}",
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

    @router.get("/api/recordings", responses=responses())
    def list_recordings() -> dict[Literal["labels"], list[LabelClips]]:
        """All clips by label."""
        return {"labels": [LabelClips(label, clips) for label, clips in recordings.labels().items()]}

    @router.delete("/api/recordings/{label}", responses=responses(404, 409, 422))
    @router.delete("/api/recordings/{label}/{id}", responses=responses(404, 409, 422))
    def remove(label: Label, id: ClipId | None = None) -> dict[Literal["removed"], int]:
        """Remove one clip, or a label and all of its clips."""
        try:
            return {"removed": recordings.remove(label, id)}
        except InputError as error:
            raise ApiError(404, str(error)) from error

    @router.post("/api/teach", status_code=202, responses=responses(409, 422, 503))
    def start(request: FinetuneRequest) -> FinetuneState:
        """Finetune a model on the clips, in the background."""
        try:
            return finetuner.start(request.name, request.how, request.minutes)
        except BusyError as error:
            raise ApiError(409, str(error)) from error

    @router.get("/api/teach", responses=responses())
    def state() -> FinetuneState:
        """Progress and result."""
        return finetuner.state()

    @router.delete("/api/teach", responses=responses())
    def cancel() -> FinetuneState:
        """Cancel; a model of the same name stays as it was."""
        return finetuner.cancel()

    return router
