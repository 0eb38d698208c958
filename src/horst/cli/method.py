"""`horst models METHOD`: one method, its models, its loss, its configs, and its results in the paper."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from horst.cli.models_table import TITLES, cost_cells, costs, loss_words
from horst.configs import find_config, list_configs
from horst.console import Console
from horst.evaluation.paper import paper_table, paper_tables
from horst.heads import HEADS
from horst.layers import CORES
from horst.models import METHODS, Method
from horst.training import losses
from horst.training.config import Loss, read_run

LOSS_FUNCTIONS = {"ranking": "ranking_loss", "exponential": "exponential_weights", "features": "feature_loss"}
"""The function of `horst.training.losses` that describes an option of a method's loss; `name` is one itself."""


def show_method(method: Method, as_json: bool) -> None:
    models = method.models
    configs, about = config_files(method), _about(method)
    if as_json:
        found = {
            "name": method.name,
            "title": method.title,
            "task": method.task,
            "reference": method.reference,
            "about": about,
            "options": dict(method.options),
            "loss": dict(method.loss),
            "models": {
                size: {"model": name, **asdict(costs(name, method.options_for(size)))} for size, name in models.items()
            },
            "configs": configs,
            "paper": {table: {"row": row, "values": values} for table, row, values in _rows(method)},
        }
        print(json.dumps(found, indent=2))
        return
    loss = ": ".join(filter(None, (loss_words(method), _plain(method.loss))))
    lines = {
        "paper": method.reference,
        "core": about["core"],
        "head": about["head"],
        "loss": "\n".join(filter(None, (loss, about.get("loss")))),
        "options": _plain(method.options),
        "configs": "\n".join(configs),
        "results": "\n".join(_row_words(*row) for row in _rows(method)) or "-",
    }
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for what, text in lines.items():
        if text:
            grid.add_row(what, Text(text))
    console = Console()
    console.print(Text(f"{method.title} ({method.name}), {TITLES[method.task].lower()}\n", style="bold"))
    console.print(grid)
    console.print()
    console.print(_models({name: method.options_for(size) for size, name in models.items()}))


def _models(options: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("model")
    for header in ("params\ntrained", "GFLOP\nper frame", "state", "streams"):
        table.add_column(header, justify="right", no_wrap=True)
    for name, given in options.items():
        table.add_row(name, *cost_cells(costs(name, given)).values())
    return table


def _plain(options: Mapping[str, Any]) -> str:
    """As in a config."""
    return ", ".join(f"{key}: {value}" for key, value in options.items())


def _about(method: Method) -> dict[str, str]:
    """What the docstrings say about its core, its head, and its loss if it is not cross-entropy only."""
    config = method.config()
    found = {
        "core": opening(sys.modules[CORES[config.core.name].__module__].__doc__),
        "head": opening(sys.modules[HEADS[config.head.name].__module__].__doc__),
    }
    for key, function in {**LOSS_FUNCTIONS, "name": method.loss.get("name", "")}.items():
        if key in method.loss:
            wanted = method.loss.get("distance", "mse") if key == "features" else ""
            found["loss"] = opening(inspect.getdoc(getattr(losses, function)), wanted)
    return found


def opening(doc: str | None, wanted: str = "") -> str:
    """The first paragraphs of a docstring, with the formulas that follow them.

    `wanted`: continue after the first one with the paragraph that starts with this.
    """
    first, *rest = (doc or "").strip().split("\n\n")
    rest = [p for p in rest if not p.startswith("Shapes")]
    start = next((i for i, p in enumerate(rest) if p.lstrip('"').casefold().startswith(wanted)), 0)
    last, shown = first, [_joined(first)]
    for paragraph in rest[start : start + 2]:
        formulas = paragraph.startswith(" ")
        if formulas and last.endswith("."):
            break  # an example
        shown.append(paragraph if formulas else _joined(paragraph))
        if formulas:
            break
        last = paragraph
    return "\n".join(shown)


def _joined(paragraph: str) -> str:
    return " ".join(paragraph.split())


def _rows(method: Method) -> Iterator[tuple[str, str, dict[str, float]]]:
    """(table, row, per cent by header) for all rows of the method in the paper."""
    for table in paper_tables().values():
        for row in table.rows:
            if (table.name, row.name) in method.rows.items() or (
                row.same is not None and row.same in method.rows.items()
            ):
                pairs = zip(table.columns, row.values, strict=True)
                yield table.name, row.name, {header: value for header, value in pairs if value is not None}


def _row_words(table: str, row: str, values: Mapping[str, float]) -> str:
    printed = paper_table(table)
    numbers = "; ".join(f"{header}: {value:.{printed.decimals}f}" for header, value in values.items())
    return f"Table {printed.number} ({table}), {row}. {numbers}"


def config_files(method: Method) -> list[str]:
    """The packaged runs of a method."""
    folders = ("ssv2", "somethings") if method.task == "recognition" else ("ek55", "ek100", "kitchen")
    names = [name for folder in folders for name in list_configs(f"{folder}/*")]
    return [name for name in names if method in methods_of(Path(name).name, read_run(find_config(name)))]


def methods_of(stem: str, config: Mapping[str, Any]) -> list[Method]:
    """The methods of a run: by the row of the paper that it names, else by its model and loss.

    If several methods have this model and loss, the name of the file decides.
    """
    if config.get("paper"):
        row = (config["paper"]["table"], config["paper"]["row"])
        return [method for method in METHODS.values() if row in method.rows.items()]
    defaults, own = asdict(Loss()), {key for method in METHODS.values() for key in method.loss}

    def chosen(loss: Mapping[str, Any]) -> dict[str, Any]:
        """What makes a method, without default values."""
        return {key: value for key, value in loss.items() if key in own and value != defaults[key]}

    options = config["model"].get("options", {})
    fitting = [
        method
        for method in METHODS.values()
        if config["model"]["name"] in method.models.values()
        and chosen(config.get("loss", {})) == chosen(method.loss)
        and method.options.items() <= options.items()
    ]
    named = [method for method in fitting if method.name == stem]
    most = max((len(method.options) for method in fitting), default=0)  # a run of an ablation also fits HORST
    return named or [method for method in fitting if len(method.options) == most]
