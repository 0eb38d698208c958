"""From a few clips of each label to a saved model."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from horst.data.clips import Clip
from horst.data.readers.tables import read_rows
from horst.errors import DataError, EmptyVideoError, InputError
from horst.finetune import frozen
from horst.finetune.job import NOTHING, ClipSource, FinetuneJob, FinetuneProgress, HeldOut, Report
from horst.finetune.recordings import RecordingLimits
from horst.models.checkpoint import check_place, save
from horst.models.hub import open_model
from horst.models.predictor import Predictor
from horst.models.registry import create_model
from horst.places import model_title
from horst.video import VideoFile
from horst.video.frame import VIDEO_SUFFIXES, Size

MOTION_POOL = "motion_pool"


@dataclass(frozen=True, slots=True)
class FinetuneResult:
    """A finetuned model."""

    path: Path
    labels: list[str]
    clips: int
    held_out: HeldOut | None  # which the saved model was trained on too; None if a label has less than 3 clips
    advice: list[str]  # what to record more of, in sentences
    seconds: float


def finetune(
    clips: str | Path | Mapping[str, Sequence[ClipSource]],
    path: str | Path,
    *,
    base: str | Path = MOTION_POOL,
    overwrite: bool = False,
    report: Report = lambda progress: None,
) -> FinetuneResult:
    """Finetune a model on the labels of `clips` and save it to the folder `path`, atomically.

    Args:
        clips: A folder with a folder of videos for each label, <clips>/<label>/*.mp4; a CSV file with the columns path
            and label; or a mapping from at least two labels to clips, or to functions that read them.
        path: The folder of the model, for `horst.open_model`.
        base: The model that gets a new head. "motion_pool" is made for videos of people and has an ImageNet backbone.
            Or a model that `horst.open_model` takes: a name, a folder, a run, hf://user/name.
        overwrite: Replace an existing model.
        report: Called with the progress, a few times per second.
    """
    path = Path(path)
    check_place(path, overwrite)
    model = open_base(base)
    if isinstance(clips, str | Path):
        clips = labelled_videos(Path(clips), model.size)
    job, start = FinetuneJob.of(clips), time.monotonic()
    model, held_out = frozen.train(job, model, report)
    seconds = time.monotonic() - start
    result = FinetuneResult(path, job.labels, len(job.sources), held_out, job.advice(held_out), seconds)
    save(model, path, overwrite=overwrite, text=_card(result, job, base))
    report(FinetuneProgress(1.0, "done"))
    return result


def open_base(base: str | Path) -> Predictor:
    """The model that gets a new head."""
    return create_model(MOTION_POOL) if base == MOTION_POOL else open_model(base)


def labelled_videos(clips: Path, size: Size) -> dict[str, list[ClipSource]]:
    """The videos <clips>/<label>/*.mp4, or those of a CSV file, by label, as functions that read them in this size."""
    found: dict[str, list[ClipSource]] = {}
    if clips.is_file():
        for row in read_rows(clips):
            found.setdefault(row.text("label"), []).append(partial(read_video, clips.parent / row.text("path"), size))
        return found
    if not clips.is_dir():
        remedy = "it takes one with a folder of clips for each label, or a CSV file"
        raise DataError(f"{clips}: there is no such folder; {remedy}")
    for label in sorted(entry for entry in clips.glob("*") if entry.is_dir()):
        files = sorted(file for file in label.iterdir() if file.suffix.lower() in VIDEO_SUFFIXES)
        if files:
            found[label.name] = [partial(read_video, file, size) for file in files]
    return found


def read_video(file: Path, size: Size) -> Clip:
    """A whole video. A long one is rejected: nobody would know which part of it the model learns from."""
    longest = RecordingLimits().longest
    with VideoFile(file, size=size, threads=1) as video:
        frames = list(video.frames(0.0, longest + 1))
    if not frames:
        raise EmptyVideoError(file, "no frame decodes")
    if frames[-1].time > longest:
        raise InputError(f"{file} lasts more than {longest:g} s: cut it into clips of one action each")
    return Clip(np.stack([frame.image for frame in frames]), np.asarray([frame.time for frame in frames]))


def _card(result: FinetuneResult, job: FinetuneJob, base: str | Path) -> str:
    """The text of the model card. Labels are user input: they are in a code block, where nothing is markup."""
    counts = "\n".join(f"    {job.targets.count(i):4d} x {label}" for i, label in enumerate(job.labels))
    accuracy = "No clips were held out, as a label has less than 3: the accuracy is not known."
    if held_out := result.held_out:
        accuracy = (
            f"{held_out.correct} of {held_out.clips} held-out clips were classified correctly at their end, "
            f"{held_out.correct_at_half} after half of\nthem, by models that were not trained on them. "
            "The model in this folder was trained on these clips too."
        )
    return f"""
# {result.path.name}

Finetuned with horst on {result.clips} clips in {result.seconds:.0f} s.
It is a new head on the frozen model `{model_title(base)}`.

{counts}

{accuracy}

The model knows these labels only, from the places and people in the clips. It answers "{NOTHING}" for idle people and
for what resembles none of them.
"""
