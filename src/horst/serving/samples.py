"""Clips to try a model with: synthetic ones for the package's models, and the recordings for one's own."""

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from fastapi import APIRouter, Query, Response
from fastapi.responses import FileResponse
from PIL import Image as Pictures

from horst.errors import DataError, InputError
from horst.finetune import Recording
from horst.serving.errors import ApiError, responses
from horst.serving.manager import ModelManager
from horst.serving.synthetic import SampleClip, kitchen_clips, render_sample, something_clips
from horst.serving.uploads import BINARY
from horst.video.decode import VideoFile
from horst.video.encode import write_video
from horst.video.frame import Image
from horst.video.images import decode_picture, encode_picture

T = TypeVar("T")
OWN = "recording-"  # begins the names of recorded clips; their ids follow
MOST_OWN = 4  # the newest recordings of each label that are samples
THUMBNAIL = 192  # pixels of the longer side


class Samples:
    """The clips of all models. Synthetic ones are rendered on first use."""

    def __init__(self, folder: Path, manager: ModelManager) -> None:
        """`folder` of synthetic clips. Recorded ones are not copied, so that a deleted clip is gone."""
        self.folder, self.manager, self.recordings = folder, manager, manager.finetuner.recordings
        self._lock = threading.Lock()

    def list(self, model: str | None = None) -> list[SampleClip]:
        """The clips for a model; None: for the default one."""
        model, predicts = self.manager.labels(model)
        if model in self.manager.finetuner.models():
            clips = [clip for label in predicts for clip in self.recordings.labels().get(label, [])[-MOST_OWN:]]
            return [SampleClip(OWN + clip.id, clip.label, clip.label, [], clip.seconds) for clip in clips]
        return kitchen_clips() if self.manager.anticipates(model) else something_clips()

    def video(self, name: str) -> Path | bytes | None:
        """The mp4 of a clip, as a file or as its contents; None if there is no clip of this name."""
        clip = self._own(name)
        if clip is not None:
            return _encode(*self.recordings.pictures(clip.label, clip.id))
        with self._lock:
            return render_sample(name, self.folder)

    def picture(self, name: str) -> bytes | None:
        """The first frame of a clip as a small JPEG; None if there is no clip of this name."""
        clip = self._own(name)
        if clip is not None:
            image = decode_picture(self.recordings.pictures(clip.label, clip.id)[1][0], name)
        else:
            with self._lock:
                path = render_sample(name, self.folder)
            if path is None:
                return None
            with VideoFile(path, threads=1) as video:
                image = next(video.frames()).image
        picture = Pictures.fromarray(image)
        picture.thumbnail((THUMBNAIL, THUMBNAIL))
        return encode_picture(np.asarray(picture), quality=85)

    def _own(self, name: str) -> Recording | None:
        known = (clip for clips in self.recordings.labels().values() for clip in clips)
        return next((clip for clip in known if OWN + clip.id == name), None)


def sample_routes(samples: Samples) -> APIRouter:
    router = APIRouter(tags=["samples"])

    @router.get("/api/samples", responses=responses(422, 503))
    def list_samples(model: str | None = Query(None, max_length=100)) -> list[SampleClip]:
        """Example clips for a model: of a finetuned one, recordings of its labels."""
        return samples.list(model)

    @router.get(
        "/api/samples/{name}.mp4",
        response_class=FileResponse,
        responses={**responses(404, 422), 200: {"content": {"video/mp4": BINARY}}, 206: {
            "description": "Part of the file, for a Range request.", "content": {"video/mp4": BINARY}}},
    )  # fmt: skip
    def video(name: str) -> Response:
        """An example clip as a file."""
        found = _find(samples.video, name)
        if isinstance(found, Path):
            return FileResponse(found, media_type="video/mp4")
        return Response(found, media_type="video/mp4")

    @router.get(
        "/api/samples/{name}.jpg",
        response_class=Response,
        responses={**responses(404, 422), 200: {"content": {"image/jpeg": BINARY}}},
    )
    def picture(name: str) -> Response:
        """The first frame of an example clip."""
        return Response(_find(samples.picture, name), media_type="image/jpeg")

    return router


def _find(read: Callable[[str], T | None], name: str) -> T:
    try:
        found = read(name)
    except (InputError, DataError):  # it was deleted meanwhile, or is damaged
        found = None
    if found is None:
        raise ApiError(404, f"there is no sample {name!r}")
    return found


def _encode(times: list[float], pictures: list[bytes]) -> bytes:
    """Recorded frames as an mp4 of constant frame rate."""
    images = [_even(decode_picture(picture, "a recorded frame")) for picture in pictures]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        write_video(path, images, (len(times) - 1) / (times[-1] - times[0]))
        return path.read_bytes()


def _even(image: Image) -> Image:
    """An mp4 needs even sizes: the last row or column is dropped."""
    height, width = image.shape[:2]
    return np.ascontiguousarray(image[: max(2, height - height % 2), : max(2, width - width % 2)])
