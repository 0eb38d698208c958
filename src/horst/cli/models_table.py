"""`horst models`: the methods of the paper's tables, what each costs and what the paper has of it; or one of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.table import Table

from horst.console import Console
from horst.errors import ConfigError
from horst.evaluation.paper import paper_table
from horst.models import model_config
from horst.models.cores import create_core
from horst.models.method_table import METHODS, SIZES, Method
from horst.models.method_table import method as method_of
from horst.models.summary import summarize

FROZEN = ("bn_inception",)
"""Backbones that the runs do not train."""
DATA = {
    "ssv2": "Something-Something v2",
    "ek55": "EPIC-Kitchens 55",
    "ek100": "EPIC-Kitchens 100",
    "tiny": "drawn videos",
}
TITLES = {"recognition": "Early recognition", "anticipation": "Anticipation"}
FIGURES = {
    "ssv2": ("top-1 %\n25 / 50%", ("action/top1@25%", "action/top1@50%")),
    "ek55": ("top-5 %\nat 1 s", ("action/top5@1s",)),
    "ek100": ("recall %\nat 1 s", ("action/recall5@1s",)),
}
"""What is shown of the paper: header and metrics. Of drawn videos it has nothing."""
SPARED = ("name", "model", "streams")
"""Columns that a narrow terminal goes without, in this order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """Of a model, as `summarize` counts."""

    parameters: int
    """Of what is trained."""
    frozen_parameters: int
    flop: int
    """A frame, of the whole model."""
    state_bytes: int
    streaming: bool


def show_methods(data: str, task: str | None, as_json: bool) -> None:
    sizes = {name: known[0] if data == "paper" else data for name, known in SIZES.items() if task in (None, name)}
    sizes = {name: size for name, size in sizes.items() if size in SIZES[name]}
    if not sizes:
        raise ConfigError(f"--data {data} has no {task}: leave --task out, or choose another --data")
    if as_json:
        listed = [_listed(method, sizes[method.task]) for method in METHODS.values() if method.task in sizes]
        print(json.dumps({"data": data, "methods": listed}, indent=2))
        return
    console = Console()
    for name, size in sizes.items():
        table, left_out = _fitting(name, size, console)
        console.print(table)
        console.print(_caption(name, size, left_out), highlight=False, soft_wrap=False)


def find_method(name: str) -> Method:
    """By name, or by the title that the table shows, in capitals or not."""
    known = {method.title.casefold(): method for method in METHODS.values()} | METHODS
    return known.get(name.casefold()) or method_of(name)


def costs(model: str, options: Mapping[str, Any]) -> Costs:
    """Of a model by name. Many methods share one: each is built once."""
    return _costs(model, json.dumps(options, sort_keys=True))


@cache
def _costs(model: str, options: str) -> Costs:
    config = model_config(model, **json.loads(options))
    summary = summarize(config)
    frozen = summary.rows[0].parameters if config.backbone.name in FROZEN else 0
    with torch.device("meta"):
        streaming = create_core(config.core).streaming
    return Costs(
        parameters=summary.parameters - frozen,
        frozen_parameters=frozen,
        flop=summary.flop,
        state_bytes=summary.state_bytes,
        streaming=streaming,
    )


def figures(method: Method, size: str) -> dict[str, float]:
    """What the paper prints of a method for a data set, per cent by metric, of those that the table shows."""
    shown = FIGURES[size][1] if size in FIGURES else ()
    printed: dict[str, float] = {}
    for name, row in method.rows.items():
        table = paper_table(name)
        if table.data == DATA[size]:
            printed = table.values(table.row(row)) | printed
    return {metric: printed[metric] for metric in shown if metric in printed}


def loss_words(method: Method) -> str:
    """The loss in a word or two; with "+" it is added to cross-entropy."""
    loss, k = method.loss, method.loss.get("k")
    if "name" in loss:
        return {"smooth_top_k": f"top-{k} SVM", "truncated_top_k": f"truncated top-{k}"}[loss["name"]]
    if "tasks" in loss:
        return " and ".join(f"{task}s" for task in loss["tasks"])
    if "features" in loss:
        return "+ contrast" if loss.get("distance") == "contrastive" else "+ features"
    if "ranking" in loss:
        return "+ ranking"
    if "exponential" in loss:
        return "exponential"
    return "marginal" if parts(method)[1] == "marginal" else "cross-entropy"


def parts(method: Method) -> tuple[str, str]:
    """The names of its core and its head."""
    size = SIZES[method.task][0]
    config = model_config(method.model_name(size), **method.options_for(size))
    return config.core.name, config.head.name


def _listed(method: Method, size: str) -> dict[str, Any]:
    model = method.model_name(size)
    return {
        "name": method.name,
        "title": method.title,
        "task": method.task,
        "model": model,
        "options": method.options_for(size),
        **asdict(costs(model, method.options_for(size))),
        "loss": dict(method.loss),
        "paper": figures(method, size),
    }


def _fitting(task: str, size: str, console: Console) -> tuple[Table, tuple[str, ...]]:
    """The table with the columns that the terminal has room for, and what was left out. Then titles fold."""
    for count in range(len(SPARED) + 1):
        table = _table(task, size, SPARED[:count])
        if console.measure(table, options=console.options.update(width=1000)).maximum <= console.width:
            break
    return table, SPARED[:count]


def _table(task: str, size: str, left_out: tuple[str, ...]) -> Table:
    title = f"{TITLES[task]}, {DATA[size]}"
    table = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0)
    )
    numbers = ("parameters", "GFLOP", "state", "paper")
    headers = {"parameters": "params", "paper": FIGURES[size][0] if size in FIGURES else ""}
    columns = ["method", "name", "model", "parameters", "GFLOP", "state", "streams", "loss", "paper"]
    shown = [c for c in columns if c not in left_out and headers.get(c, c)]
    for column in shown:
        justify: Any = "right" if column in numbers else "left"
        table.add_column(headers.get(column, column), justify=justify, no_wrap=column != "method", vertical="top")
    for method in METHODS.values():
        if method.task == task:
            cells = _cells(method, size)
            table.add_row(*(cells[column] for column in shown))
    return table


def _cells(method: Method, size: str) -> dict[str, str]:
    model = method.model_name(size)
    return {
        "method": method.title,
        "name": method.name,
        "model": model,
        **cost_cells(costs(model, method.options_for(size))),
        "loss": loss_words(method),
        "paper": _figure_cell(method, size),
    }


def cost_cells(costs: Costs) -> dict[str, str]:
    return {
        "parameters": f"{costs.parameters / 1e6:.2f} M",
        "GFLOP": f"{costs.flop / 1e9:.3f}",
        "state": _bytes(costs.state_bytes) if costs.streaming else "-",
        "streams": "yes" if costs.streaming else "no",
    }


def _figure_cell(method: Method, size: str) -> str:
    found = figures(method, size)
    if not found:
        return "-"
    return " / ".join(str(found.get(metric, "-")).rjust(4) for metric in FIGURES[size][1])


def _bytes(count: int) -> str:
    for unit, name in ((1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def _caption(task: str, size: str, left_out: tuple[str, ...]) -> str:
    """What the numbers are of."""
    if size in ("ek55", "ek100"):
        said = [
            "params: what is trained; HORST's BN-Inception is frozen in its runs and not counted.",
            "GFLOP: a frame through the whole model, HORST's BN-Inception too; the others read vectors that were"
            " computed before, without their backbone's. Heads that run ahead go 1 s.",
        ]
    else:
        said = ["params: what is trained, which is all; GFLOP: a frame through the whole model."]
    if task == "anticipation":
        said.append("Losses with + are added to cross-entropy.")
    if size in FIGURES:
        said.append("%: of the paper; - where it prints none.")
    if left_out:
        said.append(f"A wider terminal shows more ({', '.join(left_out)}), --json all.")
    return "\n".join((*said, "horst models METHOD tells more of one.\n"))
