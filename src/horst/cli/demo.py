"""`horst demo`: see on this machine that the model is exact, how fast it is, and what the small trained one says."""

from __future__ import annotations

import platform
import statistics
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from horst.data.config import DataConfig, Source, open_source
from horst.data.example import Annotations, Example
from horst.data.make import make_somethings
from horst.errors import HorstError, InputError
from horst.evaluation.evaluate import Clips, Evaluation, evaluate
from horst.evaluation.report import show
from horst.files import write_text
from horst.models import Predictor, create_model, load_pretrained
from horst.parity import LIMIT, against_release, clip_and_steps
from horst.video.decode import VideoFile
from horst.viz.page import Streamed, clip_section, curve_section, page

AT = (0.25, 0.5, 1.0)
"""Observed parts at which the answers to a streamed clip are printed."""


def run(*, folder: str, clips: int, seed: int, streams: int, frames: int, threads: int | None) -> None:
    if min(frames, clips) < 1 or streams < 0 or (threads is not None and threads < 1):
        raise InputError(
            f"clips is {clips}, frames {frames}, threads {threads}: they start at 1; streams is {streams}, from 0 on"
        )
    if threads is not None:
        torch.set_num_threads(threads)
    console = Console()
    with torch.inference_mode():
        errors = _errors()
        console.print(_parity(errors))
        if not max(errors.values()) <= LIMIT:
            raise HorstError("a parity check failed on this machine: please report the table above")
        console.print(_timings(frames))
    model = load_pretrained("somethings")
    fresh = _fresh(Path(folder) / f"somethings-{clips}-{seed}", clips, seed)
    evaluation = evaluate(model, fresh)
    show(evaluation, console)
    streamed = [_stream(model, example, fresh.annotations) for example in _chosen(fresh.annotations, streams)]
    console.print(_answers(streamed, fresh.annotations.classes["action"]))
    report = Path(folder) / "report.html"
    write_text(report, _page(model, evaluation, streamed, fresh.annotations))
    console.print(f"Look at [bold]{report}[/bold]; next: [bold]horst train configs/somethings/cpu.yaml[/bold]")


class _Fresh(Clips):
    """Clips that nobody has trained on: all of them are for validation."""

    def __init__(self, data: DataConfig, source: Source) -> None:
        super().__init__(data)
        examples = tuple(replace(example, split="val") for example in source.annotations.examples)
        self.source = replace(source, annotations=replace(source.annotations, examples=examples))


def _fresh(folder: Path, clips: int, seed: int) -> _Fresh:
    data = DataConfig.from_file(make_somethings(folder, clips, seed=seed))
    return _Fresh(data, open_source(data))


def _chosen(annotations: Annotations, count: int) -> list[Example]:
    """Clips of different actions."""
    first = {example.labels["action"]: example for example in reversed(annotations.examples)}
    return list(first.values())[:count]


def _stream(model: Predictor, example: Example, annotations: Annotations) -> Streamed:
    """One frame after the other, as from a camera."""
    images, answers = [], []
    with VideoFile(example.media, size=model.size) as video, torch.inference_mode():
        state = model.init_state(1, *model.size)
        for frame in video.frames():
            pixels = torch.from_numpy(frame.image).permute(2, 0, 1).unsqueeze(0)
            out, state = model.step(pixels, state)
            images.append(frame.image)
            answers.append(out.logits.action.double().softmax(-1)[0].numpy())
    label = example.labels["action"]
    return Streamed(annotations.classes["action"][label], label, images, np.stack(answers))


def _answers(streamed: list[Streamed], names: tuple[str, ...]) -> Table:
    table = Table(title="Streams, frame by frame", title_justify="left")
    table.add_column("what is done")
    for part in AT:
        table.add_column(f"said after {100 * part:g}%")
    for clip in streamed:
        cells = []
        for part in AT:
            at = clip.probabilities[max(1, int(np.ceil(part * len(clip.frames)))) - 1]
            colour = "green" if at.argmax() == clip.label else "red"
            cells.append(f"[{colour}]{names[int(at.argmax())]}[/{colour}] {100 * at.max():.0f}%")
        table.add_row(clip.name, *cells)
    return table


def _page(model: Predictor, evaluation: Evaluation, streamed: list[Streamed], annotations: Annotations) -> str:
    size = sum(p.numel() for p in model.parameters())
    intro = (
        f"A HORST of {size / 1e6:.2f} M parameters names the action in a clip while it unfolds. Made by `horst demo` "
        f"with horst {evaluation.version}, torch {torch.__version__} and Python {platform.python_version()}."
    )
    names = annotations.classes["action"]
    return page("horst: early action recognition", intro, [
        curve_section(evaluation),
        "<h2>Clips, streamed frame by frame</h2>",
        *(clip_section(clip, names) for clip in streamed),
    ])  # fmt: skip


def _errors() -> dict[str, float]:
    errors = {f"official release: {name}": error for name, error in against_release().items()}
    torch.manual_seed(0)
    clip = torch.randint(0, 256, (1, 20, 3, 112, 112), dtype=torch.uint8)
    for variant in ("paper", "released"):
        model = create_model("horst_tiny", variant=variant).eval()
        for name, error in clip_and_steps(model, clip).items():
            errors[f"{variant} variant: whole clip = {name}"] = error
    return errors


def _parity(errors: dict[str, float]) -> Table:
    table = Table(title="Parity: relative error in fp32", title_justify="left")
    table.add_column("check")
    table.add_column("error", justify="right")
    table.add_column("")
    for name, error in errors.items():
        table.add_row(name, f"{error:.1e}", "[green]equal[/green]" if error <= LIMIT else "[red]DIFFERS[/red]")
    return table


def _timings(frames: int) -> Table:
    threads = torch.get_num_threads()
    table = Table(title=f"Streaming horst_tiny, frames of 112x112, {threads} CPU threads", title_justify="left")
    table.add_column("variant")
    for column in ("ms/frame", "p95", "frames/s", "parameters", "state"):
        table.add_column(column, justify="right")
    for variant in ("paper", "released"):
        model = create_model("horst_tiny", variant=variant).eval()
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
