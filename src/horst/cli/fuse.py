"""`horst fuse`: several runs as one result and one model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from horst.cli.options import Json, RunFolder
from horst.console import Console, new_table, working
from horst.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from horst.training.fusion import Fusion


def fuse(
    *runs: RunFolder,
    folder: RunFolder = "runs/fused",
    split: str = "val",
    weights: Literal["auto", "equal", "learned"] = "auto",
    as_json: Json = False,
) -> None:
    """Fuse evaluated runs over modalities, methods or seeds: the weighted mean of their probabilities.

    Args:
        runs: Folders or addresses of runs on the same examples and classes, after horst evaluate.
        folder: New folder, or an address: evaluation/<split>.*, and the model if all runs read the same frames.
        split: Split that is reported.
        weights: Learned on examples that were neither trained on nor are reported, or equal. Auto: equal if there are
            no such examples.
    """
    check_places(runs, folder)  # before torch is imported
    with working("reading the runs and the data"):
        from horst.evaluation.report import show
        from horst.training.fusion import fuse_runs
        from horst.training.run import Run
        from horst.viz import accuracy_curve, save_svg

        fusion = fuse_runs(runs, split=split, weights=weights)
        fusion.save(folder)
        evaluation, made = fusion.evaluation, Run(folder)
        files = [made.evaluation(split)]
        if any(key.startswith("action/") for key in evaluation.metrics):
            curve = accuracy_curve(evaluation, title=f"{evaluation.data}, {evaluation.split}")
            files.append(save_svg(curve, made.evaluation(split, "svg")))
            made.publish()
    if as_json:
        print(json.dumps({"fusion": fusion.to_dict(), "evaluation": asdict(evaluation)}, indent=1))
        return
    console = Console(highlight=False)
    show(evaluation, console)
    console.print(_table(fusion))
    console.print(f"weights: {fusion.how}")
    console.print(", ".join(map(made.shown, files)))
    if fusion.model is None:
        console.print(f"{folder} cannot be served: {fusion.why_not}")
    elif fusion.model.backbone.precomputed:
        console.print(f"{folder} is a model of precomputed maps: horst evaluate {folder}")
    else:
        console.print(f"next: horst predict {folder} VIDEO, or horst serve {folder}")


def check_places(runs: Sequence[str | Path], folder: str | Path) -> None:
    """ConfigError if a run is not there, or the new folder is."""
    from horst.places import RUN, check_new, local_folder

    if not runs:
        raise ConfigError("there is no run to fuse: name two run folders or more")
    for run in runs:
        if not (local_folder(run) / RUN).is_file():
            raise ConfigError(f"{run} is no run: it has no {RUN}")
    check_new(folder)


def _table(fusion: Fusion) -> Table:
    from horst.evaluation.report import metric_title, metric_value

    table = new_table("", "run", "weight", metric_title(fusion.metric, action=True))
    rows = [(m.run.place, f"{w:.3f}", m.evaluation) for m, w in zip(fusion.members, fusion.weights, strict=True)]
    for name, weight, evaluation in (*rows, ("fused", "", fusion.evaluation)):
        value = evaluation.metrics.get(fusion.metric)
        table.add_row(name, weight, "" if value is None else metric_value(fusion.metric, value))
    return table
