"""The REST routes of teaching: recorded clips, and finetuning a model on them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field

from horst.errors import BusyError, DataError, ExistsError, InputError
from horst.finetune import Finetuner, FinetuneState, Recording, Recordings
from horst.serving.errors import BINARY_BODY, ApiError, file_response, hide_paths, responses
from horst.serving.frames import join_recording, split_recording
from horst.serving.limits import Limits
from horst.serving.uploads import Check, Uploads, checked_frames, open_upload
from horst.video.frame import Frame, Image, fit_within
from horst.video.sampling import SLACK

Label = Annotated[str, PathParameter(max_length=200, description="The action that the clip shows, in words.")]
ClipId = Annotated[str, PathParameter(max_length=100)]


@dataclass(frozen=True, slots=True)
class LabelClips:
    label: str
    clips: list[Recording]


class FinetuneRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field("mine", min_length=1, max_length=100)
    overwrite: bool = Field(False, strict=True)


def teach_routes(finetuner: Finetuner, uploads: Uploads) -> APIRouter:
    router, recordings, limits = APIRouter(tags=["teach"]), finetuner.recordings, uploads.limits

    def shown(state: FinetuneState) -> FinetuneState:
        return replace(state, message=hide_paths(state.message, finetuner.models_folder.parent))

    stores: dict[str, Any] = {"status_code": 201, "openapi_extra": BINARY_BODY}
    stores["responses"] = responses(404, 408, 409, 413, 422, 503, 507)

    @router.post("/api/recordings/{label}", **stores)
    async def record(request: Request, label: Label) -> Recording:
        """Store a clip: frames as on the WebSocket, each preceded by its length (uint32, little-endian)."""
        return await uploads.run(request, partial(_add_frames, recordings, label, limits))

    @router.post("/api/recordings/{label}/video", **stores)
    async def record_video(request: Request, label: Label) -> Recording:
        """Store the video file in the body as a clip: mp4, webm, avi, ogg, mpeg or ts."""
        return await uploads.run(request, partial(_add_video, recordings, label, limits))

    @router.get("/api/recordings", responses=responses())
    def list_recordings() -> dict[Literal["labels"], list[LabelClips]]:
        """All clips by label."""
        return {"labels": [LabelClips(label, clips) for label, clips in recordings.labels().items()]}

    @router.get("/api/recordings/{label}/{id}", **file_response("application/octet-stream", 404, 422))
    def read_recording(label: Label, id: ClipId) -> Response:
        """The frames of a clip, in the format in which clips are stored."""
        try:
            return Response(join_recording(*recordings.pictures(label, id)), media_type="application/octet-stream")
        except InputError as error:
            raise ApiError(404, str(error)) from error
        except DataError as error:  # clients must not see paths of the server
            raise ApiError(422, "the clip is damaged: remove it", "data") from error

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
        """Finetune a model on the clips, in the background. A model of this name is replaced only with `overwrite`."""
        try:
            return finetuner.start(request.name, overwrite=request.overwrite)
        except BusyError as error:
            raise ApiError(409, str(error)) from error
        except ExistsError as error:  # clients must not see paths of the server
            message = f"there is a model {request.name!r} already: choose another name, or replace it with overwrite"
            raise ApiError(409, message, "exists") from error

    @router.get("/api/teach", responses=responses())
    def state() -> FinetuneState:
        """Progress and result."""
        return shown(finetuner.state())

    @router.delete("/api/teach", responses=responses())
    def cancel() -> FinetuneState:
        """Cancel; a model of the same name stays as it was."""
        return shown(finetuner.cancel())

    return router


def _add_frames(recordings: Recordings, label: str, limits: Limits, path: Path, check: Check) -> Recording:
    def frames() -> Iterator[tuple[float, Image]]:
        for frame in split_recording(path.read_bytes(), limits):
            check()
            yield frame

    return _add(recordings, label, frames())


def _add_video(recordings: Recordings, label: str, limits: Limits, path: Path, check: Check) -> Recording:
    longest = recordings.limits.longest
    with open_upload(path, limits) as video:
        _check_length(video.info.duration, longest)
        size = fit_within((video.info.height, video.info.width), recordings.limits.side)
    with open_upload(path, limits, size) as video:
        return _add(recordings, label, _frames(checked_frames(video, limits, check), longest))


def _add(recordings: Recordings, label: str, frames: Iterator[tuple[float, Image]]) -> Recording:
    try:
        return recordings.add(label, frames)
    except BusyError as error:  # until something is removed: waiting does not help
        raise ApiError(409, str(error), "full") from error
    except DataError as error:
        raise ApiError(507, "the server cannot write the clip: its disk may be full") from error


def _frames(frames: Iterator[Frame], longest: float) -> Iterator[tuple[float, Image]]:
    """Times and images. A video that is too long is read to its end, to say how long it is, unless its header does."""
    last = 0.0
    for frame in frames:
        last = frame.time
        if last > longest + SLACK:
            break
        yield frame.time, frame.image
    for frame in frames:
        last = frame.time
    _check_length(last, longest)


def _check_length(seconds: float | None, longest: float) -> None:
    """ApiError if a clip is too long. It is not cut: nobody would know which part the model learns from."""
    if seconds is not None and seconds > longest + SLACK:
        message = f"the video lasts {seconds:.1f} s; a clip may last {longest:g} s: cut it first"
        raise ApiError(422, message, "long")
