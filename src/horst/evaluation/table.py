"""Results of runs as Markdown tables: next to the paper's rows, or one table for each data set.

    RUN/config.yaml             the run; `paper: {table, row}` names the row to compare with
    RUN/evaluation/val.json     its evaluation
    FUSED/fusion.json           fused runs (`horst.training.fusion`), with an evaluation as that of a run

A table never mixes data sets. A run is in a table of the paper only if it was evaluated on the table's data set, with
the same number of classes and clips, and if its model and clips are those of the row (`horst.evaluation.paper`).
A run that names a row and differs is in another table, with a note that says how.
"""

import json
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from horst.config import read_yaml
from horst.errors import ConfigError, DataError, InputError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.paper import PaperTable, differences, paper_table, paper_tables
from horst.evaluation.predictions import position_name
from horst.evaluation.report import (
    ACCURACIES,
    EDIT_DISTANCE,
    markdown_head,
    markdown_row,
    metric_format,
    metric_title,
)
from horst.heads import TASKS
from horst.io import is_url
from horst.places import FUSION, local_folder, model_title
from horst.remote import CHECKPOINT

SPLIT = "val"
CONFIG = "config.yaml"
NOT_READ = (CHECKPOINT, "best", "last", "model.safetensors", "models")  # of a run, or fused runs, at an address
OVER_SEEDS = "mean ± standard deviation over seeds"


@dataclass(frozen=True, slots=True)
class EvaluatedRun:
    """A run, or fused runs, and the evaluation."""

    place: str  # its folder or address
    config: dict[str, Any]  # the contents of config.yaml; of fused runs: their name and place, without a seed
    evaluation: Evaluation

    @property
    def recipe(self) -> str:
        """What the runs of a group share: all but name and seed, and the data that they were evaluated on."""
        rest = {key: value for key, value in self.config.items() if key not in ("name", "seed")}
        evaluation = self.evaluation
        data = [evaluation.data, evaluation.task, evaluation.counts["examples"], evaluation.classes]
        return json.dumps([rest, *data, evaluation.protocol.get("mode")], sort_keys=True, default=str)


@dataclass(frozen=True, slots=True, eq=False)
class RunGroup:
    """Runs that differ in the seed only."""

    name: str
    runs: tuple[EvaluatedRun, ...]

    @property
    def evaluation(self) -> Evaluation:
        """That of the first run: all have the same data."""
        return self.runs[0].evaluation

    @property
    def row(self) -> tuple[str, str] | None:
        """(table, row) of the paper."""
        paper = self.runs[0].config.get("paper")
        return (paper["table"], paper["row"]) if paper else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultLine:
    """A row of the paper, or the row of a group of runs."""

    name: str
    values: dict[str, float]  # by metric: per cent, or a fraction of 1 for edit distances
    deviations: dict[str, float] = field(default_factory=dict)  # standard deviations over seeds
    seeds: list[int] = field(default_factory=list)  # empty for the paper's rows and for fused runs
    runs: list[str] = field(default_factory=list)  # folders or addresses


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Numbers that can be compared."""

    title: str
    data: str
    paper: str | None  # name of the paper's table, if it is one
    columns: dict[str, str]  # metric by header
    decimals: int
    lines: list[ResultLine]
    notes: list[str]


def table(runs: Sequence[str | Path]) -> str:
    """The results of run folders as Markdown."""
    return "\n".join(map(markdown, tables(runs)))


def table_data(runs: Sequence[str | Path]) -> list[dict[str, Any]]:
    """The same as JSON data."""
    return [asdict(one) for one in tables(runs)]


def tables(runs: Sequence[str | Path]) -> list[ResultTable]:
    """The paper's tables that runs name, in the paper's order, then one for each data set of the other runs."""
    if not runs:
        raise InputError("there is no run to tabulate: name one run folder or more")
    groups = group_runs(runs)
    reasons = {group: reason for group in groups if (reason := mismatch(group)) is not None}
    matching = [group for group in groups if group not in reasons]
    made = [one for paper in paper_tables().values() if (one := _with_paper(paper, matching)) is not None]
    by_title: dict[str, list[RunGroup]] = {}
    for group in groups:
        if group.row is None or group in reasons:
            by_title.setdefault(_title(group.evaluation), []).append(group)
    return [*made, *(_without_paper(title, members, reasons) for title, members in by_title.items())]


def mismatch(group: RunGroup) -> str | None:
    """Why a group cannot be in the table of the paper that it names; None if it can, or if it names none."""
    if group.row is None:
        return None
    wanted, seen = paper_table(group.row[0]), group.evaluation
    if seen.data == wanted.data and all(seen.classes.get(task) == count for task, count in wanted.classes.items()):
        found = [differences(wanted, group.row[1], run.config, run.evaluation.counts) for run in group.runs]
        unlike = list(dict.fromkeys(one for each in found for one in each))
        row = f"the paper's row {group.row[1]!r} ({wanted.name})"
        return f"{group.name} names {row} and differs from it: {'; '.join(unlike)}." if unlike else None
    return (
        f"{group.name} names the paper's table {wanted.name!r}, which is of {_classes(wanted.data, wanted.classes)}. "
        f"It was evaluated on {_classes(seen.data, seen.classes)}: its numbers cannot be compared with the paper's."
    )


def is_listed(folder: str | Path) -> bool:
    """Whether it is a run, or fused runs that were evaluated on the split of the tables."""
    here = local_folder(folder, skip=NOT_READ)
    return (here / CONFIG).is_file() or ((here / FUSION).is_file() and _results(here).is_file())


def read_evaluated_run(folder: str | Path) -> EvaluatedRun:
    """DataError if it is neither a run nor fused runs, has not been evaluated, or is damaged."""
    here = local_folder(folder, skip=NOT_READ)
    results = _results(here)
    if (here / CONFIG).is_file():
        config, remedy = _read_config(here / CONFIG), f"run 'horst evaluate {folder}' first"
    elif (here / FUSION).is_file():
        config, remedy = {"name": model_title(folder), "fused": str(folder)}, f"fuse its runs with --split {SPLIT}"
    else:
        raise DataError(f"{folder} is no run folder: there is no {CONFIG} in it")
    if not results.is_file():
        raise DataError(f"{folder} has not been evaluated on {SPLIT} yet: {remedy}")
    evaluation = Evaluation.load(results)
    if any(type(evaluation.counts.get(key)) is not int for key in ("examples", "missing")):
        raise DataError(f"{results} is damaged: its counts lack examples or missing; evaluate the run again")
    if evaluation.split != SPLIT:
        raise DataError(f"{results} is of the split {evaluation.split!r}, not of {SPLIT!r}: evaluate the run again")
    return EvaluatedRun(str(folder), config, evaluation)


def _results(folder: Path) -> Path:
    return folder / "evaluation" / f"{SPLIT}.json"


def _read_config(path: Path) -> dict[str, Any]:
    """The config of a run. DataError if it is damaged."""
    try:
        config = read_yaml(path)
        if not isinstance(config, dict) or type(config.get("name")) is not str or type(config.get("seed")) is not int:
            raise DataError(f"{path} is damaged: a run needs a name and a seed")
        if (paper := config.get("paper")) is not None:
            if not isinstance(paper, dict) or not all(isinstance(paper.get(key), str) for key in ("table", "row")):
                raise DataError(f"{path}: paper is {paper!r}; it takes a table and a row")
            paper_table(paper["table"]).row(paper["row"])
    except ConfigError as error:
        raise DataError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    return config


def group_runs(folders: Sequence[str | Path]) -> list[RunGroup]:
    """Runs grouped by recipe, in their order. A folder that is named twice counts once; a seed must occur once."""
    once = {str(folder).rstrip("/") if is_url(folder) else Path(folder).resolve(): folder for folder in folders}
    by_recipe: dict[str, dict[int | None, EvaluatedRun]] = {}
    for run in map(read_evaluated_run, once.values()):
        seeds = by_recipe.setdefault(run.recipe, {})
        twin = seeds.setdefault(run.config.get("seed"), run)
        if twin is not run:
            raise DataError(f"{twin.place} and {run.place} are the same run with the same seed: name one of them")
    groups = [tuple(seeds.values()) for seeds in by_recipe.values()]
    names = [re.sub(r"-seed\d+$", "", runs[0].config["name"]) for runs in groups]
    return [
        RunGroup(name if names.count(name) == 1 else f"{name} ({', '.join(run.place for run in runs)})", runs)
        for name, runs in zip(names, groups, strict=True)
    ]


def markdown(result: ResultTable) -> str:
    """A heading, the table and the notes."""
    lines = [f"### {result.title}", "", *markdown_head(["", *result.columns, "seeds"])]
    for line in result.lines:
        name = f"**{line.name}**" if line.seeds and result.paper else line.name
        values = [_value(line, metric, result.decimals) for metric in result.columns.values()]
        lines.append(markdown_row([name, *values, str(len(line.seeds)) if line.seeds else ""]))
    notes = [f"Bold: runs, {OVER_SEEDS}; all else is the paper's.", *result.notes] if result.paper else result.notes
    if not result.paper and any(line.deviations for line in result.lines):
        notes = [f"{OVER_SEEDS.capitalize()}.", *notes]
    lines += ["", *(f"- {note}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


def _with_paper(paper: PaperTable, groups: list[RunGroup]) -> ResultTable | None:
    """The paper's rows, each followed by its runs; None if there are no runs."""
    lines, notes = list[ResultLine](), list[str]()
    for row in paper.rows:
        lines.append(ResultLine(name=row.name, values=paper.values(row.name)))
        for group in groups:
            line = _line(group, paper.columns)
            if group.row == (paper.name, row.name) or (row.same and group.row == row.same and line.values):
                lines.append(line)
                notes += _notes(group, line)
    if not any(line.seeds for line in lines):
        return None
    title = f"Table {paper.number} of the paper ({paper.name}): {paper.title}; {paper.data}, %"
    return ResultTable(title, paper.data, paper.name, paper.columns, paper.decimals, lines, notes)


def _without_paper(title: str, groups: list[RunGroup], reasons: dict[RunGroup, str]) -> ResultTable:
    """`reasons`: why groups that name a row of the paper are here."""
    columns = {header: metric for group in groups for header, metric in _main_columns(group.evaluation).items()}
    lines = [_line(group, columns, " (not the paper's)" if group in reasons else "") for group in groups]
    shown = {header: metric for header, metric in columns.items() if any(metric in line.values for line in lines)}
    notes = [*(reasons[g] for g in groups if g in reasons), *(note for g in groups for note in _unreadable(g))]
    if any(re.fullmatch(EDIT_DISTANCE, metric) for metric in shown.values()):
        notes = ["Edit distance: of the next actions, a fraction of 1; lower is better.", *notes]
    return ResultTable(title, groups[0].evaluation.data, None, shown, 1, lines, notes)


def _line(group: RunGroup, columns: dict[str, str], suffix: str = "") -> ResultLine:
    measured = [run.evaluation.metrics for run in group.runs]
    found = {metric: [one.get(metric, math.nan) for one in measured] for metric in columns.values()}
    found = {metric: values for metric, values in found.items() if not any(map(math.isnan, values))}
    scale = {metric: metric_format(metric)[0] for metric in found}
    return ResultLine(
        name=group.name + suffix,
        values={metric: scale[metric] * statistics.fmean(values) for metric, values in found.items()},
        deviations={m: scale[m] * statistics.stdev(values) for m, values in found.items() if len(values) > 1},
        seeds=[run.config["seed"] for run in group.runs if "seed" in run.config],
        runs=[run.place for run in group.runs],
    )


def _title(evaluation: Evaluation) -> str:
    """Everything that must be equal in a table: data sets of one name may differ in size."""
    classes, count = _classes(evaluation.data, evaluation.classes), f"{evaluation.counts['examples']:,} validation"
    if evaluation.task == "detection":
        return f"{classes}, {count} frames, detection, %"
    mode = "" if evaluation.task == "recognition" else f", anticipation ({evaluation.protocol.get('mode')})"
    return f"{classes}, {count} clips{mode}, %"


def _main_columns(evaluation: Evaluation) -> dict[str, str]:
    """Metric by header: top-1 at a few fractions and the area; or all accuracies at 1 s, or the nearest position.

    Detection: precisions now, and 1 s ahead.
    """
    if evaluation.task == "recognition":
        cut = evaluation.position_names if len(evaluation.positions) == 1 else None
        metrics = [f"action/top1@{name}" for name in cut or ("25%", "50%", "100%")] + ([] if cut else ["area"])
        return {metric_title(metric): metric for metric in metrics}
    if evaluation.task == "detection":
        metrics = ["action/map@0s", "action/mcap@0s", "action/top1@0s", "action/map@1s"]
        return {metric_title(metric): metric for metric in metrics}
    nearest = min(evaluation.positions or [1.0], key=lambda tau: abs(tau - 1))
    at = position_name("anticipation", nearest)
    accuracies = [f"{task}/{kind}@{at}" for task in TASKS for kind in ACCURACIES]
    distances = [metric for metric in evaluation.metrics if re.fullmatch(EDIT_DISTANCE, metric)]
    return {metric_title(metric, action=True): metric for metric in (*accuracies, *distances)}


def _notes(group: RunGroup, line: ResultLine) -> list[str]:
    """Where a group departs from what the paper did."""
    seen, found = group.evaluation, []
    if not line.values:
        found.append(f"{group.name}: it was not evaluated at any position of this table.")
    if seen.task == "anticipation" and seen.protocol.get("mode") != "rulstm":
        found.append(f"{group.name}: sampled in mode {seen.protocol.get('mode')}; the paper's numbers are by RULSTM's.")
    data = group.runs[0].config.get("data")
    if isinstance(data, dict) and data.get("many_shot", "rulstm") != "rulstm":
        found.append(f"{group.name}: its many-shot classes are the {data['many_shot']} ones; the paper's are RULSTM's.")
    return found + _unreadable(group)


def _unreadable(group: RunGroup) -> list[str]:
    """The largest number of any seed."""
    counts = [run.evaluation.counts for run in group.runs]
    misses, examples = max((count["missing"] - count.get("left_out", 0), count["examples"]) for count in counts)
    return [f"{group.name}: {misses:,} of {examples:,} clips could not be read and count as misses."] if misses else []


def _classes(data: str, classes: dict[str, int]) -> str:
    """EPIC-Kitchens 55 (2,513 actions, 125 verbs, 352 nouns)."""
    return f"{data} ({', '.join(f'{count:,} {task}s' for task, count in classes.items())})"


def _value(line: ResultLine, metric: str, decimals: int) -> str:
    if metric not in line.values:
        return ""
    if re.fullmatch(EDIT_DISTANCE, metric):  # the only ones that are not per cent
        decimals = metric_format(metric)[1]
    text = f"{line.values[metric]:.{decimals}f}"
    return f"{text} ± {line.deviations[metric]:.{decimals}f}" if metric in line.deviations else text
