"""`horst models`: the methods of the paper's tables, the costs of each, and the paper's results."""

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
from horst.layers import create_core
from horst.models import METHODS, Method, list_methods, model_config
from horst.models.registry import SIZES
from horst.models.summary import summarize

FROZEN = ("bn_inception",)
"""Backbones that the runs do not train."""
DATA = {
    "ssv2": "Something-Something v2",
    "ek55": "EPIC-Kitchens 55",
    "ek100": "EPIC-Kitchens 100",
    "tiny": "synthetic videos",
}
TITLES = {"recognition": "Early recognition", "anticipation": "Anticipation"}
FIGURES = {
    "ssv2": ("top-1 %\n25 / 50%", ("action/top1@25%", "action/top1@50%")),
    "ek55": ("top-5 %\nat 1 s", ("action/top5@1s",)),
    "ek100": ("recall %\nat 1 s", ("action/recall5@1s",)),
}
"""The results of the paper in the table: header and metrics. It has none on synthetic videos."""
OPTIONAL = ("name", "model", "streams")
"""Columns that a narrow terminal leaves out, in this order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """The costs of a model, as `summarize` counts them."""

    parameters: int
    """Trained parameters."""
    frozen_parameters: int
    flop: int
    """Per frame, of the whole model."""
    state_bytes: int
    streaming: bool


def show_methods(data: str, task: str | None, as_json: bool) -> None:
    sizes = {name: known[0] if data == "paper" else data for name, known in SIZES.items() if task in (None, name)}
    sizes = {name: size for name, size in sizes.items() if size in SIZES[name]}
    if not sizes:
        raise ConfigError(f"--data {data} has no {task}: leave --task out, or choose another --data")
    if as_json:
        listed = [_listed(method, sizes[method.task]) for method in list_methods() if method.task in sizes]
        print(json.dumps({"data": data, "methods": listed}, indent=2))
        return
    console = Console()
    for name, size in sizes.items():
        table, left_out = _fitting(name, size, console)
        console.print(table)
        console.print(_caption(name, size, left_out), highlight=False, soft_wrap=False)


def find_method(name: str) -> Method:
    """By its name or its title, in any case."""
    known = {method.title.casefold(): method for method in METHODS.values()} | dict(METHODS)
    return known.get(name.casefold()) or METHODS[name]


def costs(model: str, options: Mapping[str, Any]) -> Costs:
    """The costs of a model by name, cached: many methods share a model."""
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
    """The paper's results of a method on a data set, per cent by metric, for the metrics in the table."""
    shown = FIGURES[size][1] if size in FIGURES else ()
    printed: dict[str, float] = {}
    for name, row in method.rows.items():
        table = paper_table(name)
        if table.data == DATA[size]:
            printed = table.values(table.row(row)) | printed
    return {metric: printed[metric] for metric in shown if metric in printed}


def loss_words(method: Method) -> str:
    """The loss in one or two words; "+" means that it is added to cross-entropy."""
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
    return "marginal" if method.config().head.name == "marginal" else "cross-entropy"


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
    """The table with the columns that fit the terminal, and those left out. If that is not enough, titles wrap."""
    for count in range(len(OPTIONAL) + 1):
        table = _table(task, size, OPTIONAL[:count])
        if console.measure(table, options=console.options.update(width=1000)).maximum <= console.width:
            break
    return table, OPTIONAL[:count]


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
    for method in list_methods(task):
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
    """What the numbers mean."""
    if size in ("ek55", "ek100"):
        lines = [
            "params: trained parameters; HORST's BN-Inception is frozen and not counted.",
            "GFLOP: per frame, with HORST's BN-Inception; the other methods read precomputed vectors, without a"
            " backbone. Heads that unroll run 1 s ahead.",
        ]
    else:
        lines = ["params: all parameters, which are all trained; GFLOP: per frame, of the whole model."]
    if task == "anticipation":
        lines.append("Losses with + are added to cross-entropy.")
    if size in FIGURES:
        lines.append("%: the paper's results; - where it prints none.")
    if left_out:
        lines.append(f"A wider terminal shows more columns ({', '.join(left_out)}), --json shows all.")
    return "\n".join((*lines, "horst models METHOD shows one method in detail.\n"))
