"""From a few clips of each action to a saved model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from horst.config import check_type
from horst.finetune import frozen, scratch
from horst.finetune.lesson import Lesson, Progress, Report, Source, Trial
from horst.models.checkpoint import check_place, save
from horst.models.hub import model_title, open_model

How = Literal["frozen", "scratch"]


@dataclass(frozen=True, slots=True)
class Taught:
    """What came of it."""

    path: Path
    labels: list[str]
    clips: int
    trial: Trial | None
    """On clips that were held out; the saved model learnt from these too. None where a label has less than 3."""
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "labels": self.labels,
            "clips": self.clips,
            "tried": self.trial.clips if self.trial else 0,
            "accuracy": self.trial.accuracy if self.trial else None,
            "seconds": round(self.seconds, 1),
        }


def teach(
    clips: Mapping[str, Sequence[Source]],
    path: str | Path,
    *,
    how: How = "frozen",
    minutes: float = 1.0,
    base: str = "somethings",
    seed: int = 0,
    overwrite: bool = False,
    report: Report = lambda progress: None,
) -> Taught:
    """Teach a model the labels of `clips` and save it to the folder `path`, which appears whole or not at all.

    Args:
        clips: By label, at least two of them: clips, or functions that read them (`Recordings.clips`).
        path: For `horst.open_model`.
        how: "frozen" trains a new head on `base`, "scratch" a small network of its own.
        minutes: About how long it may take. "frozen" stops when it is done, and looks at every clip at least once.
        base: A model that `horst.open_model` takes: a name, a folder, a run, hf://user/name.
        seed: For all that is drawn.
        overwrite: Replace a model that is there.
        report: Is told how far it has come, a few times a second.
    """
    path = Path(path)
    check_type("how", how, How)
    lesson = Lesson.of(clips, minutes)
    check_place(path, overwrite)
    if how == "frozen":
        model, trial = frozen.learn(lesson, open_model(base), seed, report)
    else:
        model, trial = scratch.learn(lesson, seed, report)
    taught = Taught(path, lesson.labels, len(lesson.sources), trial, time.monotonic() - lesson.began)
    save(model, path, overwrite=overwrite, card=_card(taught, lesson, how, base))
    report(Progress(1.0, 1, 1, None, "done"))
    return taught


def _card(taught: Taught, lesson: Lesson, how: How, base: str) -> str:
    """Labels are what somebody typed: they stand in a block in which nothing is markup."""
    counts = [f"    {lesson.targets.count(i):4d} x {label}" for i, label in enumerate(lesson.labels)]
    trial = taught.trial
    said = (
        f"{trial.right} of {trial.clips} held-out clips were named rightly at their end, {trial.early} after half of "
        "them, by models that had not seen them. The model in this folder learnt from these clips too."
        if trial
        else "No clip was held out, as a label has less than 3: how well it does is not known."
    )
    way = (
        f"a new head on the frozen model `{model_title(base)}`" if how == "frozen" else "a small network, from scratch"
    )
    return "\n".join(
        [
            "---",
            "library_name: horst",
            "tags:",
            "- video-classification",
            "- early-action-recognition",
            "---",
            "",
            f"# {taught.path.name}",
            "",
            f"Taught with horst from {taught.clips} recorded clips: {way}, {taught.seconds:.0f} s.",
            "",
            *counts,
            "",
            said,
            "",
            "It knows these actions, in the place and by the people that were recorded. Whatever it is shown, it gives",
            "one of these names.",
            "",
        ]
    )
