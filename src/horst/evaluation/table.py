"""Results of runs as Markdown: beside the paper's rows where a run names one, and in a table of each data set else.

Numbers of different data never share a table. A run stands in a table of the paper only if it was evaluated on the
data set of that table, with as many classes and clips, and if its model and clips are those of the row
(`horst.evaluation.facts`); where it claims a row and differs, it stands apart and a sentence says in what. Other
departures (unreadable clips, another protocol) are told below the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from horst.errors import InputError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.facts import differences
from horst.evaluation.measure import PARTS
from horst.evaluation.paper import PaperTable, paper_table, paper_tables
from horst.evaluation.predictions import position_name
from horst.evaluation.runs import Group, group_runs

RECOGNITION = {f"top-1 at {name}": f"action/top1@{name}" for name in ("25%", "50%", "100%")} | {"area": "area"}
KINDS = {"top-1": "top1", "top-5": "top5", "recall@5": "recall5"}
OVER_SEEDS = "mean ± standard deviation over seeds"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A row: the paper's, or of runs."""

    name: str
    values: dict[str, float]
    """Per cent by metric."""
    deviations: dict[str, float] = field(default_factory=dict)
    """Over seeds."""
    seeds: list[int] = field(default_factory=list)
    """Of the runs; none for the paper's rows."""
    runs: list[str] = field(default_factory=list)
    """Their folders."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultTable:
    """Numbers that may be compared."""

    title: str
    data: str
    paper: str | None
    """Which of its tables, if any."""
    columns: dict[str, str]
    """Metric by header."""
    decimals: int
    lines: list[Line]
    notes: list[str]
    """What to know before comparing."""


def table(runs: Sequence[str | Path]) -> str:
    """The results of run folders as Markdown."""
    return "\n".join(map(markdown, tables(runs)))


def table_data(runs: Sequence[str | Path]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [asdict(one) for one in tables(runs)]


def tables(runs: Sequence[str | Path]) -> list[ResultTable]:
    """The paper's tables that runs name, in its order, then one for each other data set."""
    if not runs:
        raise InputError("there is no run to tabulate: name one run folder or more")
    groups = group_runs(runs)
    apart = {id(group): why for group in groups if (why := why_apart(group)) is not None}
    fitting = [group for group in groups if id(group) not in apart]
    made = [one for paper in paper_tables().values() if (one := _beside(paper, fitting)) is not None]
    own: dict[str, list[Group]] = {}
    for group in groups:
        if group.row is None or id(group) in apart:
            own.setdefault(_own_title(group.evaluation), []).append(group)
    for title, members in own.items():
        notes = [apart[id(group)] for group in members if id(group) in apart]
        made.append(_alone(title, members, notes, {id(group) for group in members if id(group) in apart}))
    return made


def why_apart(group: Group) -> str | None:
    """Why a group does not belong in the table of the paper that it names; None where it does, or names none."""
    if group.row is None:
        return None
    wanted, seen = paper_table(group.row[0]), group.evaluation
    if seen.data == wanted.data and all(seen.classes.get(task) == count for task, count in wanted.classes.items()):
        found = [differences(wanted, group.row[1], run.config, run.evaluation) for run in group.runs]
        unlike = list(dict.fromkeys(one for each in found for one in each))
        row = f"the paper's row {group.row[1]!r} ({wanted.name})"
        return f"{group.name} names {row} and is not that: {'; '.join(unlike)}." if unlike else None
    return (
        f"{group.name} names the paper's table {wanted.name!r}, which is of {_classes(wanted.data, wanted.classes)}. "
        f"It was evaluated on {_classes(seen.data, seen.classes)}: its numbers cannot be compared with the paper's."
    )


def markdown(result: ResultTable) -> str:
    """A heading, the table and the notes."""
    headers = ["", *result.columns, "seeds"]
    lines = [f"### {result.title}", "", _cells(headers), _cells(["---", *["---:"] * (len(headers) - 1)])]
    for line in result.lines:
        name = f"**{line.name}**" if line.seeds and result.paper else line.name
        values = [_value(line, metric, result.decimals) for metric in result.columns.values()]
        lines.append(_cells([name, *values, str(len(line.seeds)) if line.seeds else ""]))
    notes = [f"Bold: runs, {OVER_SEEDS}; all else is the paper's.", *result.notes] if result.paper else result.notes
    if not result.paper and any(line.deviations for line in result.lines):
        notes = [f"{OVER_SEEDS.capitalize()}.", *notes]
    lines += ["", *(f"- {note}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


def _beside(paper: PaperTable, groups: list[Group]) -> ResultTable | None:
    """The paper's rows, each with the runs for it below; None where there is no run for any."""
    lines, notes, some = [], [], False
    for row in paper.rows:
        lines.append(Line(name=row.name, values=paper.values(row)))
        for group in groups:
            line = _line(group, paper.columns)
            printed_again = row.same is not None and group.row == row.same and bool(line.values)
            if group.row == (paper.name, row.name) or printed_again:
                some = True
                lines.append(line)
                notes += _notes(group, line)
    if not some:
        return None
    title = f"Table {paper.number} of the paper ({paper.name}): {paper.title}; {paper.data}, %"
    return ResultTable(
        title=title,
        data=paper.data,
        paper=paper.name,
        columns=paper.columns,
        decimals=paper.decimals,
        lines=lines,
        notes=notes,
    )


def _alone(title: str, groups: list[Group], notes: list[str], claiming: set[int]) -> ResultTable:
    """`claiming`: which groups name a row of the paper that they are not."""
    columns: dict[str, str] = {}
    for group in groups:
        columns |= _main_columns(group.evaluation)
    lines = [
        replace(line, name=f"{line.name} (not the paper's)") if id(group) in claiming else line
        for group in groups
        for line in [_line(group, columns)]
    ]
    notes = [*notes, *(note for group in groups for note in _unreadable(group))]
    return ResultTable(
        title=title,
        data=groups[0].evaluation.data,
        paper=None,
        columns={header: metric for header, metric in columns.items() if any(metric in line.values for line in lines)},
        decimals=1,
        lines=lines,
        notes=notes,
    )


def _line(group: Group, columns: dict[str, str]) -> Line:
    means = {metric: group.mean(metric) for metric in columns.values()}
    spread = {metric: group.deviation(metric) for metric in columns.values()}
    return Line(
        name=group.name,
        values={metric: 100 * value for metric, value in means.items() if value is not None},
        deviations={metric: 100 * value for metric, value in spread.items() if value is not None},
        seeds=group.seeds,
        runs=[str(run.folder) for run in group.runs],
    )


def _own_title(evaluation: Evaluation) -> str:
    """Says all that must be equal for numbers to share a table: the name alone may stand for larger or smaller sets."""
    what = f"{_classes(evaluation.data, evaluation.classes)}, {evaluation.counts['examples']:,} validation clips"
    return f"{what}, anticipation ({evaluation.protocol.get('mode')}), %" if _anticipates(evaluation) else f"{what}, %"


def _main_columns(evaluation: Evaluation) -> dict[str, str]:
    """At 1 s, or the nearest there is; recognition where only a part was shown: at that."""
    if not _anticipates(evaluation):
        fractions = evaluation.protocol.get("fractions", ())
        shown = [position_name("recognition", fraction) for fraction in fractions]
        return RECOGNITION if len(shown) != 1 else {f"top-1 at {shown[0]}": f"action/top1@{shown[0]}"}
    taus = evaluation.protocol.get("taus") or (1.0,)
    at = position_name("anticipation", min(taus, key=lambda tau: abs(tau - 1)))
    tasks = ("action", *PARTS)
    return {f"{task} {title} at {at}": f"{task}/{kind}@{at}" for task in tasks for title, kind in KINDS.items()}


def _notes(group: Group, line: Line) -> list[str]:
    """Where a group departs from what the paper did."""
    seen, found = group.evaluation, []
    if not line.values:
        found.append(f"{group.name}: it was not evaluated at any position of this table.")
    if _anticipates(seen) and seen.protocol.get("mode") != "rulstm":
        found.append(f"{group.name}: sampled in mode {seen.protocol.get('mode')}; the paper's numbers are by RULSTM's.")
    data = group.runs[0].config.get("data")
    if isinstance(data, dict) and data.get("many_shot", "rulstm") != "rulstm":
        found.append(f"{group.name}: its many-shot classes are the {data['many_shot']} ones; the paper's are RULSTM's.")
    return found + _unreadable(group)


def _unreadable(group: Group) -> list[str]:
    """The most of any seed."""
    counts = max((run.evaluation.counts for run in group.runs), key=_misses)
    told = f"{group.name}: {_misses(counts):,} of {counts['examples']:,} clips could not be read and count as misses."
    return [told] if _misses(counts) else []


def _misses(counts: dict[str, int]) -> int:
    return counts["missing"] - counts.get("left_out", 0)


def _anticipates(evaluation: Evaluation) -> bool:
    return evaluation.task == "anticipation"


def _classes(data: str, classes: dict[str, int]) -> str:
    """EPIC-Kitchens 55 (2,513 actions, 125 verbs, 352 nouns)."""
    return f"{data} ({', '.join(f'{count:,} {task}s' for task, count in classes.items())})"


def _value(line: Line, metric: str, decimals: int) -> str:
    if metric not in line.values:
        return ""
    text = f"{line.values[metric]:.{decimals}f}"
    return f"{text} ± {line.deviations[metric]:.{decimals}f}" if metric in line.deviations else text


def _cells(values: list[str]) -> str:
    return "| " + " | ".join(value.replace("|", "\\|") for value in values) + " |"
