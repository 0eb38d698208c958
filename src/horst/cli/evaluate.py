"""`horst evaluate`, `horst report` and `horst table`: what trained models are worth."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from horst.cli.options import Cpus, Device, Evaluated, EvaluatedData, Gpus, Json, Ray, RunFolder, Source, ray_launcher
from horst.console import Console, working
from horst.errors import ConfigError, InputError

if TYPE_CHECKING:
    from horst.evaluation.evaluate import Evaluation
    from horst.training.evaluated import EvaluatedModel


def evaluate(
    run: Evaluated,
    /,
    *,
    data: EvaluatedData = None,
    split: str = "val",
    weights: Literal["best", "last"] = "best",
    mode: Literal["rulstm", "strict"] | None = None,
    device: Device = "auto",
    batch: int | None = None,
    workers: int | None = None,
    challenge: Path | None = None,
    part: int | None = None,
    parts: int | None = None,
    ray: Ray = None,
    cpus: Cpus = 1.0,
    gpus: Gpus = None,
    as_json: Json = False,
) -> None:
    """Evaluate a run: accuracy over the observed part of a clip, or at every time before an action.

    Args:
        split: Split to evaluate on.
        weights: The run's best or last model; the files of the last are RUN/evaluation/<split>-last.*.
        mode: Anticipation: what positions before a video's start show; as in the data's file by default.
        batch: Clips in a batch.
        workers: Processes that decode.
        challenge: Write predictions for the EPIC-Kitchens 100 challenge to this file.
        part: Which part of the clips this process evaluates, from 0. Its predictions stay in the run's folder.
        parts: Number of parts, one for each process or machine; without --part: merge them. With --ray by default as
            many as the cluster runs at once.
    """
    check_evaluated(run, data, weights)
    launcher = ray_launcher(ray, cpus, gpus)
    if (part is not None and (parts is None or launcher)) or (parts is not None and parts < 1):
        raise ConfigError("--part takes --parts, a whole number from 1 on; --ray makes the parts itself")
    where = "cpu" if launcher else device  # where the model is only compared with those of the parts
    with working("loading the model and the data"):
        from horst.tasks import run_parts
        from horst.training.evaluated import open_evaluated

        opened = open_evaluated(run, data=data, weights=weights, mode=mode, device=where, batch=batch, workers=workers)
    if part is not None and parts is not None:
        Console(highlight=False).print(f"{opened.evaluate_part(split, part, parts)}: part {part} of {parts}")
        return
    if launcher is not None:
        clips = len(opened.module.annotations.split(split).examples)
        parts = parts or max(1, min(launcher.fitting(), -(-clips // opened.module.batch_size)))
        logs = opened.part_files(split, parts)[0].parent / "logs"
        chosen: dict[str, object] = {"data": data, "split": split, "weights": weights, "mode": mode, "device": device}
        chosen |= {"batch": batch, "workers": workers}
        words = [f"--{name}={value}" for name, value in chosen.items() if value is not None]
        told = Console(stderr=True, highlight=False).print  # stdout is for results
        run_parts(f"evaluating {opened.title}", ["evaluate", str(run), *words], parts, logs, launcher, told)
    show_evaluation(opened, split, challenge=challenge, as_json=as_json, parts=parts or 0)


def check_evaluated(run: Source, data: Path | None, weights: str = "best") -> None:
    """The error for a model or a data set that is not there, before torch is imported."""
    from horst.data.config import DataConfig
    from horst.io import is_url
    from horst.places import FUSION, RUN, find_model, is_address

    if data is not None:
        DataConfig.from_file(data)
    elif is_address(run) or not (is_url(run) or any((Path(run) / name).is_file() for name in (RUN, FUSION))):
        raise ConfigError(f"{run} is no run, so it names no data: pass --data FILE")
    find_model(run, weights)


def show_evaluation(
    opened: EvaluatedModel,
    split: str = "val",
    *,
    challenge: Path | None = None,
    as_json: bool = False,
    parts: int = 0,
) -> None:
    """Evaluate, draw the curve of a run, and print the results and what to do next."""
    from horst.evaluation.challenge import write_challenge
    from horst.evaluation.report import show

    predictions, evaluation = opened.evaluate(split, parts=parts)
    with working("drawing the curve"):
        files = draw_curve(opened, evaluation)
    if opened.run is not None:
        opened.run.publish()
    if challenge is not None:
        write_challenge(challenge, predictions, opened.module.annotations.split(split))
    if as_json:
        print(json.dumps(asdict(evaluation), indent=1))
        return
    console = Console()
    show(evaluation, console)
    if files:
        options = f" --data {opened.data}" if opened.data is not None else ""
        options += f" --split {split}" if split != "val" else ""
        then = f"; next: horst report {opened.source}{options}" if opened.weights == "best" else ""
        shown = map(opened.run.shown if opened.run is not None else str, files)
        console.print(f"{', '.join(shown)}{then}")
    if challenge is not None:
        console.print(f"{challenge}: predictions for the EPIC-Kitchens 100 challenge")


def draw_curve(opened: EvaluatedModel, evaluation: Evaluation) -> list[Path]:
    """Accuracy over the observed part, or over the time before the action, in the folder of a run; its files.

    There is no curve where nothing has a label, as in the test split of a challenge.
    """
    from horst.viz import accuracy_curve, save_svg

    if opened.run is None:
        return []
    results, curve = (opened.run.evaluation(opened.name(evaluation.split), kind) for kind in ("json", "svg"))
    if any(key.startswith("action/") for key in evaluation.metrics):
        return [results, save_svg(accuracy_curve(evaluation, title=f"{evaluation.data}, {evaluation.split}"), curve)]
    curve.unlink(missing_ok=True)  # of an earlier evaluation
    return [results]


def report(
    run: Evaluated,
    /,
    *,
    data: EvaluatedData = None,
    split: str = "val",
    clips: int = 6,
    output: Path | None = None,
    device: Device = "auto",
) -> None:
    """Write a page about a run: curves, mistakes, calibration, and clips with predictions and attention.

    Args:
        split: Split to evaluate on.
        clips: How many to show: some right, some wrong, some whose prediction changes.
        output: The HTML file; RUN/evaluation/<split>.html by default; <model>-report.html in the current folder if the
            model is not a run.
    """
    from horst.io import write_text

    if clips < 0:
        raise InputError(f"clips is {clips}; it starts at 0")
    check_evaluated(run, data)
    with working("loading the model and the data"):
        from horst.training.evaluated import open_evaluated
        from horst.viz.report import report_page

        opened = open_evaluated(run, data=data, device=device)
    predictions, evaluation = opened.evaluate(split, reuse=True)
    draw_curve(opened, evaluation)
    if output is None and opened.run is not None:
        output = opened.run.evaluation(opened.name(split), "html")
    output = output or Path(f"{opened.title}-report.html")
    with working("drawing the report"):
        text = report_page(opened, predictions, evaluation, clips=clips)
    write_text(output, text)
    if opened.run is not None:
        opened.run.publish()
    name = str(output) if opened.run is None else opened.run.shown(output)
    Console().print(f"{name}: {output.stat().st_size / 1e6:.1f} MB", highlight=False)


def table(*runs: RunFolder, as_json: Json = False) -> None:
    """Print evaluated runs as Markdown tables, with the paper's numbers beside those that reproduce a row of it.

    Args:
        runs: Folders or addresses of runs or fused runs; others are left out. Runs that differ in their seed alone
            share a row.
    """
    from horst.evaluation.table import is_listed, table, table_data

    others = [run for run in runs if not is_listed(run)]
    if 0 < len(others) < len(runs):
        names = ", ".join(map(str, others))
        Console(stderr=True).print(f"left out, because they are not runs: {names}", highlight=False)
        runs = tuple(run for run in runs if run not in others)
    if as_json:
        print(json.dumps(table_data(runs), indent=1))
    else:
        Console(highlight=False).print(table(runs))
