"""A report page about a run and its evaluation, and its sections."""

import math
from collections.abc import Mapping, Sequence
from importlib.resources import files

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

import horst
from horst.data.example import Split
from horst.data.segments import WHOLE_VIDEOS
from horst.evaluation.evaluate import Evaluation, clip_for
from horst.evaluation.metrics import probabilities
from horst.evaluation.predictions import Predictions, position_name
from horst.evaluation.report import notes, percent, rows
from horst.heads import TASKS
from horst.io import read_json
from horst.models import Predictor
from horst.training.evaluated import EvaluatedModel
from horst.training.run import Run
from horst.video.sampling import observed_frames
from horst.viz import style
from horst.viz.charts import accuracy_curve, confusion, count, reliability, similarity_order
from horst.viz.clips import choose_clips, clip_section, stream_clip
from horst.viz.style import escape, inline
from horst.viz.terms import explain

CONFUSION = {"recognition": (0.25, 0.5, 1.0), "anticipation": (1.0,), "online": (1.0,), "detection": (0.0,)}
CALIBRATION = {
    "recognition": (0.25, 0.5, 1.0),
    "anticipation": (2.0, 1.0, 0.25),
    "online": (2.0, 1.0, 0.25),
    "detection": (0.0,),
}
"""Positions that have a figure, and at which the attention of clips is drawn."""
FEW = 50  # fewer evaluated clips are a warning
HEADLINE = {
    "action/top1@25%": "top-1 after 25% of a clip",
    "action/top1@50%": "top-1 after 50% of a clip",
    "action/top1@100%": "top-1 after the whole clip",
    "area": "top-1, mean over the clip",
    "decided": "of a clip until the prediction is final",
    "action/top1@1s": "top-1, 1 s before the action",
    "action/top5@1s": "top-5, 1 s before the action",
    "action/recall1@1s": "class-mean top-1, 1 s before the action",
    "action/recall5@1s": "mean recall at 5, 1 s before the action",
}
DETECTION_HEADLINE = {
    "action/map@0s": "mAP of frames",
    "action/mcap@0s": "calibrated mAP of frames",
    "action/top1@0s": "top-1 of frames",
    "action/map@1s": "mAP, 1 s ahead",
}
CURVES = {
    "recognition": ("action/top1@25%", "action/top1@50%", "action/top1@100%", "area"),
    "anticipation": ("action/top1@1s", "action/top5@1s", "action/recall5@1s"),
    "online": ("action/top1@1s", "action/recall1@1s"),
    "detection": ("action/map@0s", "action/mcap@0s"),
}  # validation metrics that have a curve over the epochs


def report_page(evaluated: EvaluatedModel, predictions: Predictions, evaluation: Evaluation, *, clips: int = 6) -> str:
    """The page as HTML, from what `evaluated.evaluate` returned. `clips`: how many are shown frame by frame."""
    annotations, config, split = evaluated.module.annotations, evaluated.config, evaluation.split
    name = config.name if config is not None else evaluated.title
    counts = ", ".join(f"{count} {split}" for split, count in annotations.counts().items())
    entries = {"name": name, "data": f"{annotations.name}, {counts}; evaluated on {split}"}
    if config is not None:
        entries |= {"trained": f"{config.trainer.epochs} epochs, {config.optimiser.name}, seed {config.seed}"}
    sections = [headline(evaluation), run_section(evaluated.run, evaluated.model, entries)]
    if evaluated.run is not None:
        sections.append(training_section(evaluated.run, predictions.task))
    sections.append(accuracy_section(evaluation))
    if (predictions.labels["action"] >= 0).any():
        names = annotations.classes["action"]
        sections += [mistakes_section(predictions, names), calibration_section(predictions)]
        if predictions.task not in WHOLE_VIDEOS:  # whole videos are too long for a page
            sections.append(clips_section(evaluated, split, predictions, clips))
    what = {"recognition": "early recognition", "detection": "online detection"}.get(predictions.task, "anticipation")
    counted = f"{evaluation.counts['examples']} examples of {evaluation.data}, {split}"
    return page(f"{name}: {what}", f"{counted}; a report of horst {horst.__version__}.", sections)


def headline(evaluation: Evaluation) -> str:
    """The most important numbers, large, each with its name below."""
    metrics = evaluation.metrics
    wanted = DETECTION_HEADLINE if evaluation.task == "detection" else HEADLINE
    found = {what: f"{percent(metrics[key])}%" for key, what in wanted.items() if key in metrics}
    if "action/time_to_action" in metrics:
        found["before the action it is among the top 5"] = f"{metrics['action/time_to_action']:.2f} s"
    tiles = (f"<div><b>{escape(value)}</b>{escape(name)}</div>" for name, value in found.items())
    return f"{few_clips(evaluation)}<div class=tiles>{''.join(tiles)}</div>"


def few_clips(evaluation: Evaluation) -> str:
    """A warning if few clips were evaluated: the differences in top-1 that are noise. Empty if there are enough.

    The limit is 1.96 binomial standard errors, the largest over the positions. Two hits and two misses are added
    (Agresti and Coull): 0 or 100% of a few clips are uncertain too.
    """
    counts, metrics = evaluation.counts, evaluation.metrics
    n = counts["examples"] - counts.get("left_out", 0) - counts.get("unlabelled", 0)
    hits = [n * metrics[key] + 2 for name in evaluation.position_names if (key := f"action/top1@{name}") in metrics]
    if n >= FEW or not hits:
        return ""
    error = max(math.sqrt(hit * (n + 4 - hit) / (n + 4) ** 3) for hit in hits)
    clips = f"Only {n} clip{' was' if n == 1 else 's were'} evaluated."
    return f"<p class=warning>{clips} Differences of less than {math.ceil(196 * error)} points are noise.</p>"


def accuracy_section(evaluation: Evaluation, data: str = "") -> str:
    """The curve, the table and the notes. `data` describes the clips."""
    tasks = [task for task in TASKS if rows(evaluation, task)]
    if len(tasks) > 1:
        figures = [accuracy_curve(evaluation, task=task, title=task, width=334) for task in tasks]
    else:
        figures = [accuracy_curve(evaluation, task=task, width=510) for task in tasks]
    prior = ["prior"] if evaluation.prior else []
    cells = [
        [found.title, *map(percent, [*found.values, *([found.prior] if prior else [])])]
        for task in tasks
        for found in rows(evaluation, task)
    ]
    if evaluation.task == "recognition":
        title, first = "Accuracy over the observed part of a clip", "observed"
        intro = f"{evaluation.counts['examples']} clips{data}. Predictions after part of a clip."
    elif evaluation.task == "detection":
        title, first = "Frames", "ahead"
        intro = f"{evaluation.counts['examples']} frames{data}. What is going on, now and some time later."
    else:
        title, first = "Accuracy over the time before the action", "before"
        what = f"{evaluation.counts['examples']} actions of {evaluation.classes['action']} classes"
        intro = f"{what}{data}. Predictions some time before the action starts."
    head = [first, *(name.replace("s", " s") for name in evaluation.position_names), *prior]
    remarks = f"<p class=soft>{'<br>'.join(map(escape, notes(evaluation)))}</p>"
    return section(title, intro, row(*figures) if figures else "", table(head, cells), remarks)


def mistakes_section(predictions: Predictions, names: tuple[str, ...]) -> str:
    """Confusion matrices at the positions that papers report."""
    labels, parts, order = predictions.labels["action"], {}, None
    for name, scores in _scores(predictions, CONFUSION).items():
        answers = scores.argmax(-1).masked_fill(~(scores > -torch.inf).any(-1), -1)  # -1: no prediction
        if order is None:  # one order for all, from the first, which has the most mistakes
            order = similarity_order(count(labels, answers, len(names))[0])
        parts[name] = inline(confusion(labels, answers, names, order=order))
    intro = "Classes that are mistaken for each other are neighbours."
    if len(parts) > 1:
        return section("Confusion matrix", intro, tabs("confusion", parts))
    ((name, part),) = parts.items()
    return section(f"Confusion matrix, {name}", intro, part)


def calibration_section(predictions: Predictions) -> str:
    """Reliability diagrams."""
    labels, found = predictions.labels["action"], _scores(predictions, CALIBRATION)
    figures = [
        reliability(probabilities(scores.double()), labels, title=name, width=334)
        for name, scores in found.items()
        if ((labels >= 0) & (scores > -torch.inf).any(-1)).any()
    ]
    intro = "Accuracy by confidence. Bars should end at the diagonal. Red: overconfident. Cyan: underconfident."
    return section("Calibration" if len(found) > 1 else f"Calibration, {next(iter(found))}", intro, row(*figures))


def clips_section(evaluated: EvaluatedModel, split: Split, predictions: Predictions, clips: int) -> str:
    """Clips frame by frame, with attention: some right, some wrong, some whose prediction changes."""
    cards = []
    for index, kind in choose_clips(predictions, clips):
        clip = stream_clip(evaluated.model, evaluated.module, split, index)
        count, stride = len(clip.frames), clip_for(evaluated.module, evaluated.model).stride
        if predictions.task == "recognition":  # the frames at which attention is drawn
            places = {observed_frames(count, part) - 1 for part in CALIBRATION["recognition"]}
        else:
            places = {count - round(tau / stride) for tau in CALIBRATION["anticipation"]}
        cards.append(clip_section(clip, tuple(sorted(place for place in places if 0 <= place < count)), kind))
    if not cards:
        return ""
    intro = (
        "Click a clip to pause or play it. Below: probabilities over time. The strip shows the top class, with a green "
        "line below where it is right. At the dotted lines: the past frames that the model attends to (brightness: "
        "weight), where in them it looks (colour), and the top 5. The layer whose maps vary most is shown."
    )
    return section("Clips, frame by frame", intro, *cards)


def run_section(run: Run | None, model: Predictor, entries: dict[str, str]) -> str:
    """The model, the run and its environment. `entries` come first."""
    parameters = sum(value.numel() for value in model.parameters())
    entries = entries | {
        "model": f"{parameters / 1e6:.2f} M parameters; {model.core.config.about}",
        "frames": f"{model.size[0]} x {model.size[1]} pixels, {model.fps:g} per second",
    }
    if run is None:
        return section("Model", "", facts(entries))
    environment = run.folder / "environment.json"
    about = read_json(environment) if environment.is_file() else {}
    commit = str(about.get("commit") or "")
    entries |= {
        "commit": f"{commit[:12]}, with changes" if commit.endswith("+") else commit[:12],
        "horst": str(about.get("horst") or ""),
        "packages": ", ".join(f"{name} {version}" for name, version in about.get("packages", {}).items() if version),
        "python": " on ".join(str(about[key]) for key in ("python", "system") if about.get(key)),
        "devices": ", ".join(map(str, about.get("devices", []))),
        "command": " ".join(map(str, about.get("command", []))),
    }
    config = escape(run.config.read_text(encoding="utf-8"))
    return section("Run", "", facts(entries), f"<details><summary>config.yaml</summary><pre>{config}</pre></details>")


def training_section(run: Run, task: str) -> str:
    """Loss, accuracy and learning rate over the epochs; empty before the first epoch is finished."""
    if not (rows := run.epochs()):
        return ""
    seconds = sum(value for entry in rows if math.isfinite(value := _number(entry.get("seconds"))))
    took = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    took = took if seconds < 7200 else f"{seconds / 3600:.1f} h"
    return section("Training", f"{len(rows)} epochs in {took}.", inline(training_figure(rows, task)))


@style.styled
def training_figure(rows: list[dict[str, str]], task: str) -> Figure:
    """Loss, accuracy and learning rate over the epochs, from the rows of a run's metrics.csv."""
    names = {f"val/{name}": name.replace("action/", "").replace("top", "top-") for name in CURVES[task]}
    columns = {"train/loss": "_loss"}, {"train/top1": "training top-1", **names}, {"lr": "_rate"}
    figure = style.new_figure(1000, 260, "training curves", layout="constrained")
    titles = "training loss", "accuracy", "learning rate"
    for axes, title, curves in zip(figure.subplots(1, 3, width_ratios=(3, 4, 3)), titles, columns, strict=True):
        for number, (key, name) in enumerate(curves.items()):
            points = [(_number(entry.get("epoch")) + 1, _number(entry.get(key))) for entry in rows]
            points = [point for point in points if all(map(math.isfinite, point))]
            if points:
                marker, colour = "o" if number or len(points) == 1 else "", style.SERIES[5 if key == "lr" else number]
                axes.plot(*zip(*points, strict=True), color=colour, marker=marker, label=name, clip_on=False)
        axes.set(title=title, xlabel="epoch", xlim=(0, len(rows)), ylim=(0, None))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        if title == "accuracy" and axes.lines:
            style.percent_axis(axes)
            style.name_curves(axes)
    return figure


def _scores(predictions: Predictions, wanted: Mapping[str, tuple[float, ...]]) -> dict[str, Tensor]:
    """(N, C) by the name of the position, for those of the positions that the predictions have; else for the last."""
    places, chosen = predictions.positions, wanted[predictions.task]
    found = {}
    for place in [place for place in places if place in chosen] or [places[-1]]:
        name = position_name(predictions.task, place)
        after = "ahead" if predictions.task == "detection" else "before"
        name = f"{name} observed" if predictions.task == "recognition" else f"{name[:-1]} s {after}"
        found[name] = predictions.scores["action"][:, places.index(place)]
    return found


def _number(text: str | None) -> float:
    """NaN where the cell is empty or not a number."""
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def page(title: str, intro: str, sections: Sequence[str]) -> str:
    """A whole HTML page of sections that are HTML already."""
    own = (files("horst") / "assets" / "page.css").read_text(encoding="utf-8")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body, terms = explain("".join(sections))
    more = ' <a href="#terms">Terms are explained at the end.</a>' if terms else ""
    head += f"<style>{style.STYLE}{own}</style>"
    body = f"<h1>{escape(title)}</h1><p class=soft>{escape(intro)}{more}</p>{body}{terms}"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>\n"


def section(title: str, intro: str, *parts: str) -> str:
    """A heading, a sentence on what follows, and parts that are HTML."""
    words = f"<p class=soft>{escape(intro)}</p>" if intro else ""
    return f"<section><h2>{escape(title)}</h2>{words}{''.join(parts)}</section>"


def row(*figures: Figure) -> str:
    """Figures beside each other, as far as the page is wide."""
    return f"<div class=row>{''.join(map(inline, figures))}</div>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells of text; the first of each row is its name."""
    top = f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>" if head else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in rows)
    return f"<div class=wide><table>{top}{body}</table></div>"


def facts(entries: Mapping[str, str]) -> str:
    """Names and values; empty values are left out."""
    rows = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in entries.items() if value)
    return f"<dl>{''.join(rows)}</dl>"


def tabs(name: str, parts: Mapping[str, str]) -> str:
    """One part at a time, chosen by its name, without a script; in print all of them. At most four."""
    buttons = "".join(
        f'<input type=radio name="{escape(name)}" id="{escape(name)}{i}"{" checked" if i == 0 else ""}>'
        f'<label for="{escape(name)}{i}">{escape(word)}</label>'
        for i, word in enumerate(parts)
    )
    panes = "".join(f"<div><h4>{escape(word)}</h4>{part}</div>" for word, part in parts.items())
    return f"<div class=tabs>{buttons}{panes}</div>"
