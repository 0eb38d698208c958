"""`horst report`: one page about a run, from what it is to where it looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import horst
from horst.cli.options import Device, Evaluated
from horst.console import Console
from horst.errors import InputError

if TYPE_CHECKING:
    from horst.cli.evaluation import EvaluatedModel
    from horst.data.example import Task
    from horst.evaluation.evaluate import Evaluation
    from horst.evaluation.predictions import Predictions

FRACTIONS = (0.25, 0.5, 1.0)
TAUS = (2.0, 1.0, 0.25)
"""Moments of a clip at which attention is drawn: parts of it observed, or seconds before the action."""


def report(
    run: Evaluated,
    /,
    *,
    data: Path | None = None,
    split: str = "val",
    clips: int = 6,
    output: Path | None = None,
    device: Device = "auto",
) -> None:
    """Write a page about a run: curves, mistakes, calibration, and clips with predictions and attention.

    Args:
        data: A data set's YAML file; the run's own data by default.
        split: Split to evaluate on.
        clips: How many to show: some right, some wrong, some whose prediction changes.
        output: The HTML file; RUN/evaluation/<split>.html by default, or <model>-report.html.
    """
    from horst.cli.evaluation import open_evaluated
    from horst.io import write_text

    if clips < 0:
        raise InputError(f"clips is {clips}; it starts at 0")
    opened = open_evaluated(run, data=data, device=device)
    predictions, evaluation = opened.evaluate(split, reuse=True)
    if output is None and opened.run is not None:
        output = opened.run.evaluation(opened.name(split), "html")
    output = output or Path(f"{opened.title}-report.html")
    write_text(output, _page(opened, split, predictions, evaluation, clips))
    Console().print(f"{output}: {output.stat().st_size / 1e6:.1f} MB", highlight=False)


def _page(opened: EvaluatedModel, split: str, predictions: Predictions, evaluation: Evaluation, clips: int) -> str:
    """The page as HTML."""
    from horst.viz.page import page
    from horst.viz.report import (
        accuracy_section,
        calibration_section,
        headline,
        mistakes_section,
        run_section,
        training_section,
    )

    annotations, config = opened.module.annotations, opened.config
    name = config.name if config is not None else opened.title
    counts = ", ".join(f"{count} {split}" for split, count in annotations.counts().items())
    entries = {"name": name, "data": f"{annotations.name}, {counts}; evaluated on {split}"}
    if config is not None:
        entries |= {"trained": f"{config.trainer.epochs} epochs, {config.optimiser.name}, seed {config.seed}"}
    sections = [headline(evaluation), run_section(opened.run, opened.model, entries)]
    if opened.run is not None:
        sections.append(training_section(opened.run, predictions.task))
    sections.append(accuracy_section(evaluation))
    if (predictions.labels["action"] >= 0).any():
        names = annotations.classes["action"]
        sections += [mistakes_section(predictions, names), calibration_section(predictions)]
        sections.append(_clips_section(opened, split, predictions, clips))
    what = "early recognition" if predictions.task == "recognition" else "anticipation"
    counted = f"{evaluation.counts['examples']} examples of {evaluation.data}, {split}"
    return page(f"{name}: {what}", f"{counted}; a report of horst {horst.__version__}", sections)


def _clips_section(opened: EvaluatedModel, split: str, predictions: Predictions, clips: int) -> str:
    from horst.viz.clips import choose_clips, clip_section, stream_clip
    from horst.viz.page import section

    cards = []
    for index, kind in choose_clips(predictions, clips):
        clip = stream_clip(opened.model, opened.module, split, index)
        cards.append(clip_section(clip, _moments(opened, predictions.task, len(clip.frames)), kind))
    if not cards:
        return ""
    intro = (
        "Probabilities over time. The strip shows the top class, with a green line below where it is right. At the "
        "dotted lines: the past frames that the model attends to (brightness: weight), where in them it looks "
        "(colour), and the top 5. The layer whose maps vary most is shown."
    )
    return section("Clips, frame by frame", intro, *cards)


def _moments(opened: EvaluatedModel, task: Task, count: int) -> tuple[int, ...]:
    """Frames at which attention is drawn."""
    from horst.evaluation.evaluate import clip_for
    from horst.video.sampling import observed_frames

    if task == "recognition":
        return tuple(sorted({observed_frames(count, part) - 1 for part in FRACTIONS}))
    stride = clip_for(opened.module, opened.model).stride
    places = {count - round(tau / stride) for tau in TAUS}
    return tuple(sorted(place for place in places if 0 <= place < count))
