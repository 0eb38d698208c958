"""The parts of `horst demo`: parity, timings, and the packaged models on new clips and new videos of a cook."""

import statistics
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from rich.table import Table
from rich.text import Text

import horst
from horst.compat.parity import LIMIT, against_release, clip_and_steps
from horst.console import Console, new_table, visible, working
from horst.evaluation.evaluate import predict_and_evaluate
from horst.evaluation.predictions import Predictions
from horst.evaluation.report import show
from horst.synth.fresh import Fresh, fresh_kitchen, fresh_somethings
from horst.viz.clips import TOP, Moment, StreamedClip, clip_section, moments_section, stream_clip
from horst.viz.report import accuracy_section, section

VARIANTS = ("paper", "released")
FRACTIONS = (0.25, 0.5, 1.0)  # observed parts at which predictions are printed
PAIRS = 3  # confused pairs of actions that are printed
TAU = 1.0  # seconds before an action at which predictions are shown
MOMENTS = 8  # actions of the first video that are shown
PRINTED = 3  # predictions that fit into a terminal; the page has all


def parity_table() -> tuple[Table, bool]:
    """Errors against the paper's release, and of single steps against whole clips; and whether all are small."""
    errors = {f"official release: {name}": error for name, error in against_release().items()}
    torch.manual_seed(0)
    clip = torch.randint(0, 256, (1, 20, 3, 112, 112), dtype=torch.uint8)
    for variant in VARIANTS:
        found = clip_and_steps(horst.create_model("horst_tiny", variant=variant).eval(), clip)
        errors |= {f"{variant} variant: whole clip = {name}": error for name, error in found.items()}
    table = new_table("Parity: relative error in fp32", "check", "error", "")
    for name, error in errors.items():
        table.add_row(name, f"{error:.1e}", Text("equal", "green") if error <= LIMIT else Text("DIFFERS", "red"))
    return table, max(errors.values()) <= LIMIT


def timings_table(frames: int) -> Table:
    """The time of a step, over so many frames."""
    title = f"Streaming horst_tiny, frames of 112x112, {torch.get_num_threads()} CPU threads"
    table = new_table(title, "variant", "ms/frame", "p95", "frames/s", "parameters", "state")
    for variant in VARIANTS:
        model = horst.create_model("horst_tiny", variant=variant).eval()
        size = sum(p.numel() for p in model.parameters())
        state = model.init_state(1, 112, 112)
        taken = []
        for frame in torch.randint(0, 256, (frames + 10, 1, 3, 112, 112), dtype=torch.uint8):
            start = time.perf_counter()
            _, state = model.step(frame, state)
            taken.append(1e3 * (time.perf_counter() - start))
        taken = sorted(taken[10:])  # the first ones warm up
        median, p95 = statistics.median(taken), taken[int(0.95 * (len(taken) - 1))]
        speed = f"{median:.1f}", f"{p95:.1f}", f"{1e3 / median:.0f}"
        table.add_row(variant, *speed, f"{size / 1e6:.2f} M", f"{state.nbytes / 1e6:.1f} MB")
    return table


def somethings_sections(folder: Path, clips: int, seed: int, streams: int, console: Console) -> list[str]:
    """Print the early predictions for new clips; sections for the page."""
    model, fresh = horst.open_model("somethings"), fresh_somethings(folder, clips, seed)
    names = fresh.annotations.classes["action"]
    predictions, evaluation = predict_and_evaluate(model, fresh)
    show(evaluation, console)
    for part in FRACTIONS:
        if pairs := _confused(predictions, names, part):
            console.print(f"confused most often after {100 * part:g}%: {'; '.join(pairs)}", highlight=False)
    first: dict[int, int] = {}  # clips of different actions
    for index, example in enumerate(fresh.annotations.split("val").examples):
        first.setdefault(example.labels["action"], index)
    with working("streaming clips and drawing them"):
        streamed = [stream_clip(model, fresh, "val", index) for index in list(first.values())[:streams]]
        cards = [clip_section(clip, (len(clip.frames) // 2,)) for clip in streamed]
    console.print(_streams_table(streamed, names))
    intro = "Probabilities at each frame; and, half way through, where the model looks."
    unseen = " that the model has never seen"
    return [accuracy_section(evaluation, unseen), section("Clips, streamed frame by frame", intro, *cards)]


def kitchen_sections(folder: Path, videos: int, seed: int, console: Console) -> list[str]:
    """Print the predictions before every action of new videos; sections for the page."""
    model = horst.open_model("kitchen")
    fresh = fresh_kitchen(folder, videos, seed, model.size)
    predictions, evaluation = predict_and_evaluate(model, fresh)
    show(evaluation, console)
    with working("collecting predictions"):
        moments, names = _moments(fresh, predictions), fresh.annotations.classes["action"]
    console.print(_moments_table(moments, names))
    unseen = ", in videos that the model has never seen"
    return [accuracy_section(evaluation, unseen), moments_section(moments, names, TAU)]


def _confused(predictions: Predictions, names: tuple[str, ...], part: float) -> list[str]:
    """True and predicted actions: the pairs that occur most often, and more than once."""
    labels = predictions.labels["action"].tolist()
    predicted = predictions.scores["action"][:, predictions.positions.index(part)].argmax(-1).tolist()
    wrong = Counter((a, b) for a, b in zip(labels, predicted, strict=True) if a != b)
    return [f"{names[a]} → {names[b]} ({n})" for (a, b), n in wrong.most_common(PAIRS) if n > 1]


def _streams_table(streamed: list[StreamedClip], names: tuple[str, ...]) -> Table:
    predicted = [f"predicted after {100 * part:g}%" for part in FRACTIONS]
    table = new_table("Streams, frame by frame", "action", *predicted, left=4)
    for clip in streamed:
        cells = []
        for part in FRACTIONS:
            at = clip.probabilities[max(1, int(np.ceil(part * len(clip.frames)))) - 1]
            colour = "green" if at.argmax() == clip.label else "red"
            cells.append(Text.assemble((visible(names[int(at.argmax())]), colour), f" {100 * at.max():.0f}%"))
        table.add_row("" if clip.label is None else names[clip.label], *cells)
    return table


def _moments(fresh: Fresh, predictions: Predictions) -> list[Moment]:
    """The first actions of the first video, in their order, each with the last frame that was seen."""
    examples = fresh.annotations.split("val").examples
    clip, column = fresh.data.clip, predictions.positions.index(TAU)
    found = []
    for row, example in enumerate(examples):
        scores = predictions.scores["action"][row, column].double()
        if example.video == examples[0].video and scores.isfinite().all():  # else nothing was seen yet
            image = fresh.clip(example, clip).frames[clip.steps - round(TAU / clip.stride)]
            found.append(Moment(example.start, example.labels["action"], image, torch.softmax(scores, -1).numpy()))
    return sorted(found, key=lambda moment: moment.start)[:MOMENTS]


def _moments_table(moments: list[Moment], names: tuple[str, ...]) -> Table:
    columns = "at", "action", "likeliest predictions", "rank"
    table = new_table(f"Predictions {TAU:g} s before each action", *columns, left=3)
    table.columns[0].justify = "right"
    for moment in moments:
        answers = [Text(visible(names[i]), "green" if i == moment.label else "") for i in moment.top()[:PRINTED]]
        cells = f"{moment.start:.1f} s", names[moment.label], Text(", ").join(answers)
        table.add_row(*cells, Text(str(moment.rank), "green" if moment.rank <= TOP else "red"))
    return table
