"""From a few clips of each label to a saved model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from horst.config import check_type
from horst.data.clips import Clip
from horst.errors import DataError, EmptyVideoError
from horst.finetune import frozen, scratch
from horst.finetune.job import ClipSource, FinetuneJob, FinetuneProgress, HeldOut, Report
from horst.finetune.recordings import RecordingLimits
from horst.models.checkpoint import check_place, save
from horst.models.hub import model_title, open_model
from horst.models.predictor import Predictor
from horst.models.registry import create_model
from horst.video import VideoFile
from horst.video.frame import VIDEO_SUFFIXES, Size

How = Literal["frozen", "scratch"]
MOTION_POOL = "motion_pool"


@dataclass(frozen=True, slots=True)
class FinetuneResult:
    """A finetuned model."""

    path: Path
    labels: list[str]
    clips: int
    held_out: HeldOut | None
    """Accuracy on held-out clips, which the saved model was trained on too. None if a label has less than 3 clips."""
    seconds: float


def finetune(
    clips: str | Path | Mapping[str, Sequence[ClipSource]],
    path: str | Path,
    *,
    how: How = "frozen",
    minutes: float = 1.0,
    base: str | Path = "somethings",
    seed: int = 0,
    overwrite: bool = False,
    report: Report = lambda progress: None,
) -> FinetuneResult:
    """Finetune a model on the labels of `clips` and save it to the folder `path`, atomically.

    Args:
        clips: A folder with a folder of videos for each label, <clips>/<label>/*.mp4. Or a mapping from at least two
            labels to clips, or to functions that read them (`Recordings.clips`).
        path: The folder of the model, for `horst.open_model`.
        how: "frozen" trains a new head on `base`; "scratch" trains a small network.
        minutes: Approximate time limit. "frozen" stops when it is done, and uses every clip at least once.
        base: A model that `horst.open_model` takes: a name, a folder, a run, hf://user/name. Or "motion_pool", which is
            made for videos of people and has an ImageNet backbone.
        seed: Seed of everything random.
        overwrite: Replace an existing model.
        report: Called with the progress, a few times per second.
    """
    path = Path(path)
    check_type("how", how, How)
    check_place(path, overwrite)
    model = open_base(base) if how == "frozen" else None
    if isinstance(clips, str | Path):
        side = RecordingLimits().side
        clips = labelled_videos(Path(clips), model.size if model else (side, side))
    job = FinetuneJob.of(clips, minutes)
    if model:
        model, held_out = frozen.train(job, model, seed, report)
    else:
        model, held_out = scratch.train(job, seed, report)
    result = FinetuneResult(path, job.labels, len(job.sources), held_out, job.elapsed)
    save(model, path, overwrite=overwrite, card=_card(result, job, how, base))
    report(FinetuneProgress(1.0, 1, 1, None, "done"))
    return result


def open_base(base: str | Path) -> Predictor:
    """The model that gets a new head."""
    return create_model(MOTION_POOL) if base == MOTION_POOL else open_model(base)


def labelled_videos(folder: Path, size: Size) -> dict[str, list[ClipSource]]:
    """The videos <folder>/<label>/*.mp4 by label, as functions that read them in this size."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; it takes one with a folder of clips for each label")
    found: dict[str, list[ClipSource]] = {}
    for label in sorted(entry for entry in folder.glob("*") if entry.is_dir()):
        files = sorted(file for file in label.iterdir() if file.suffix.lower() in VIDEO_SUFFIXES)
        if files:
            found[label.name] = [partial(read_video, file, size) for file in files]
    return found


def read_video(file: Path, size: Size) -> Clip:
    """The first seconds of a video."""
    with VideoFile(file, size=size, threads=1) as video:
        frames = list(video.frames(0.0, RecordingLimits().longest))
    if not frames:
        raise EmptyVideoError(file, "no frame decodes")
    return Clip(np.stack([frame.image for frame in frames]), np.asarray([frame.time for frame in frames]))


def _card(result: FinetuneResult, job: FinetuneJob, how: How, base: str | Path) -> str:
    """The model card. Labels are user input: they are in a code block, where nothing is markup."""
    counts = "\n".join(f"    {job.targets.count(i):4d} x {label}" for i, label in enumerate(job.labels))
    accuracy = "No clips were held out, as a label has less than 3: the accuracy is not known."
    if held_out := result.held_out:
        accuracy = (
            f"{held_out.correct} of {held_out.clips} held-out clips were classified correctly at their end, "
            f"{held_out.correct_at_half} after half of\nthem, by models that were not trained on them. "
            "The model in this folder was trained on these clips too."
        )
    frozen_base = f"a new head on the frozen model `{model_title(base)}`"
    kind = frozen_base if how == "frozen" else "a small network, from scratch"
    return f"""---
library_name: horst
tags:
- video-classification
- early-action-recognition
---

# {result.path.name}

Finetuned with horst on {result.clips} recorded clips: {kind}, {result.seconds:.0f} s.

{counts}

{accuracy}

The model knows these labels only, from the places and people in the clips. It gives every video one of these labels.
"""
