"""`horst report`: one page about a run, from what it is to where it looks."""

from __future__ import annotations

from pathlib import Path

import horst
from horst.cli.evaluate import Opened, evaluated, open_model
from horst.console import Console
from horst.data.example import Task
from horst.errors import InputError
from horst.evaluation.evaluate import Evaluation, clip_for
from horst.evaluation.predictions import Predictions
from horst.io import write_text
from horst.video.sampling import observed_frames
from horst.viz.choice import chosen
from horst.viz.evaluated import accuracy_section, headline, mistakes_section, sureness_section
from horst.viz.page import page, section
from horst.viz.streamed import clip_section, stream
from horst.viz.trained import run_section, training_section

FRACTIONS = (0.25, 0.5, 1.0)
TAUS = (2.0, 1.0, 0.25)
"""Moments of a clip at which attention is drawn: parts of it observed, or seconds before the action."""


def run(source: str, *, data: str | None, split: str, clips: int, output: str | None, device: str) -> None:
    """Evaluate where that was not done yet, and write the page."""
    if clips < 0:
        raise InputError(f"clips is {clips}; it starts at 0")
    opened = open_model(source, data=data, device=device)
    predictions, evaluation = evaluated(opened, split, reuse=True)
    if output is not None:
        file = Path(output)
    elif opened.run is not None:
        file = opened.run.evaluation(opened.name(split), "html")
    else:
        file = Path(f"{opened.title}-report.html")
    write_text(file, report(opened, split, predictions, evaluation, clips))
    Console().print(f"{file}: {file.stat().st_size / 1e6:.1f} MB", highlight=False)


def report(opened: Opened, split: str, predictions: Predictions, evaluation: Evaluation, clips: int) -> str:
    """The page as text."""
    annotations, config = opened.module.annotations, opened.config
    name = config.name if config is not None else opened.title
    entries = {"name": name, "data": f"{annotations.name}, {_counts(annotations.counts())}; evaluated on {split}"}
    if config is not None:
        entries |= {"trained": f"{config.trainer.epochs} epochs, {config.optimiser.name}, seed {config.seed}"}
    sections = [headline(evaluation), run_section(opened.run, opened.model, entries)]
    if opened.run is not None:
        sections.append(training_section(opened.run, predictions.task))
    sections.append(accuracy_section(evaluation))
    if (predictions.labels["action"] >= 0).any():
        names = annotations.classes["action"]
        sections += [mistakes_section(predictions, names), sureness_section(predictions)]
        sections.append(_clips_section(opened, split, predictions, clips))
    what = "early recognition" if predictions.task == "recognition" else "anticipation"
    counted = f"{evaluation.counts['examples']} examples of {evaluation.data}, {split}"
    return page(f"{name}: {what}", f"{counted}; a report of horst {horst.__version__}", sections)


def _clips_section(opened: Opened, split: str, predictions: Predictions, clips: int) -> str:
    cards = []
    for choice in chosen(predictions, clips):
        clip = stream(opened.model, opened.module, split, choice.index)
        cards.append(clip_section(clip, _moments(opened, predictions.task, len(clip.frames)), choice.why))
    if not cards:
        return ""
    intro = (
        "How likely the model holds the classes while it watches; the strip names the likeliest, green beneath where "
        "it is right. At the dotted lines: the past frames that the model attends to, bright by their weight, where "
        "in them it looks, and its five likeliest answers. Of the layers the one whose maps vary most is shown."
    )
    return section("Clips, frame by frame", intro, *cards)


def _moments(opened: Opened, task: Task, count: int) -> tuple[int, ...]:
    """Frames at which attention is drawn."""
    if task == "recognition":
        return tuple(sorted({observed_frames(count, part) - 1 for part in FRACTIONS}))
    stride = clip_for(opened.module, opened.model).stride
    places = {count - round(tau / stride) for tau in TAUS}
    return tuple(sorted(place for place in places if 0 <= place < count))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {split}" for split, count in counts.items())
