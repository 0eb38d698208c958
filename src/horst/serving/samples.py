"""Clips to try a model with: synthetic ones for the package's models, and the recordings for one's own."""

import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
from fastapi import APIRouter, Query, Response
from fastapi.responses import FileResponse
from PIL import Image as Pictures

from horst.errors import DataError, InputError
from horst.heads import HEADS
from horst.models import Predictor
from horst.serving.errors import BINARY, ApiError, file_response, responses
from horst.serving.manager import ModelManager
from horst.serving.synthetic import SampleClip, kitchen_clips, render_sample, something_clips
from horst.video.decode import VideoFile
from horst.video.encode import write_video
from horst.video.frame import Image
from horst.video.images import decode_picture, encode_picture

OWN = "recording-"  # begins the names of recorded clips; their ids follow
MOST_OWN = 4  # the newest recordings of each label that are samples
Pictured = tuple[list[float], list[bytes]]  # times and JPEGs of a recording
THUMBNAIL = 192  # pixels of the longer side


class Samples:
    """The clips of all models. Synthetic ones are rendered on first use."""

    def __init__(self, folder: Path, manager: ModelManager) -> None:
        """`folder` of synthetic clips. Recorded ones are not copied, so that a deleted clip is gone."""
        self.folder, self.manager, self.recordings = folder, manager, manager.finetuner.recordings
        self._lock = threading.Lock()

    def list(self, model: str | None = None) -> list[SampleClip]:
        """The clips for a model; None: for the default one."""
        model = model or self.manager.name
        known, labels = self.manager.facts(model)
        if model in self.manager.finetuner.models():
            clips = [clip for label in labels["action"] for clip in self.recordings.labels().get(label, [])[-MOST_OWN:]]
            return [SampleClip(OWN + clip.id, clip.label, clip.label, [], clip.seconds) for clip in clips]
        task = known.head.task if isinstance(known, Predictor) else HEADS[known.head.name].task
        return kitchen_clips() if task == "anticipation" else something_clips()

    def video(self, name: str) -> Path | bytes:
        """The mp4 of a clip, as a file or as its contents."""
        recorded = self._recorded(name)
        return self._synthetic(name) if recorded is None else _encode(*recorded)

    def picture(self, name: str) -> bytes:
        """The first frame of a clip as a small JPEG."""
        recorded = self._recorded(name)
        if recorded is not None:
            image = decode_picture(recorded[1][0], name)
        else:
            with VideoFile(self._synthetic(name), threads=1) as video:
                image = next(video.frames()).image
        picture = Pictures.fromarray(image)
        picture.thumbnail((THUMBNAIL, THUMBNAIL))
        return encode_picture(np.asarray(picture), quality=85)

    def _recorded(self, name: str) -> Pictured | None:
        """A recording; None if there is none of this name."""
        known = (clip for clips in self.recordings.labels().values() for clip in clips)
        with suppress(StopIteration, InputError, DataError):  # it was deleted meanwhile, or is damaged
            clip = next(clip for clip in known if OWN + clip.id == name)
            return self.recordings.pictures(clip.label, clip.id)
        return None

    def _synthetic(self, name: str) -> Path:
        """The file of a synthetic clip. ApiError if there is none of this name."""
        with self._lock:
            path = render_sample(name, self.folder)
        if path is None:
            raise ApiError(404, f"there is no sample {name!r}")
        return path


def sample_routes(samples: Samples) -> APIRouter:
    router = APIRouter(tags=["samples"])

    @router.get("/api/samples", responses=responses(422, 503))
    def list_samples(model: str | None = Query(None, max_length=100)) -> list[SampleClip]:
        """Example clips for a model: of a finetuned one, recordings of its labels."""
        return samples.list(model)

    mp4 = file_response("video/mp4", 404, 422, 507)
    part = "Part of the file, for a Range request."
    mp4["responses"][206] = {"description": part, "content": {"video/mp4": BINARY}}

    @router.get("/api/samples/{name}.mp4", **mp4)
    def video(name: str) -> Response:
        """An example clip as a file."""
        found = samples.video(name)
        if isinstance(found, Path):
            return FileResponse(found, media_type="video/mp4")
        return Response(found, media_type="video/mp4")

    @router.get("/api/samples/{name}.jpg", **file_response("image/jpeg", 404, 422, 507))
    def picture(name: str) -> Response:
        """The first frame of an example clip."""
        return Response(samples.picture(name), media_type="image/jpeg")

    return router


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
