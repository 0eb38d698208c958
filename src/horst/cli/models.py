"""`horst models`: the methods of the paper's tables, with costs and results; `horst info`: what one model costs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table
from rich.text import Text

from horst.cli.options import Json, Source
from horst.config import Task
from horst.console import Console, new_table, working
from horst.errors import ConfigError, InputError

if TYPE_CHECKING:
    from horst.models import Method, PredictorConfig
    from horst.models.summary import PartCosts, Summary

DATA = {
    "ssv2": "Something-Something v2",
    "ek55": "EPIC-Kitchens 55",
    "ek100": "EPIC-Kitchens 100",
    "tiny": "synthetic videos",
}
TITLES = {"recognition": "Early recognition", "anticipation": "Anticipation"}
RESULTS = {
    "ssv2": ("top-1 %\n25 / 50%", ("action/top1@25%", "action/top1@50%")),
    "ek55": ("top-5 %\nat 1 s", ("action/top5@1s",)),
    "ek100": ("recall %\nat 1 s", ("action/recall5@1s",)),
    "tiny": ("", ()),
}
"""The results of the paper in the table: header and metrics. It has none on synthetic videos."""
OPTIONAL = ("name", "model", "streams")  # columns that a narrow terminal leaves out, in this order


def models(
    method: str | None = None,
    /,
    *,
    data: Literal["paper", "ek100", "tiny"] = "paper",
    task: Task | None = None,
    as_json: Json = False,
) -> None:
    """List the methods of the paper's tables: the model and loss of each, its costs, and the paper's results.

    Args:
        method: Name of one, such as rulstm, to see its description, models, configs and results in the paper.
        data: Models for the paper's main data sets, for EPIC-Kitchens 100, or small ones for synthetic videos.
        task: List the methods of one task.
    """
    with working("loading torch"):
        from horst.models import METHODS, list_methods
        from horst.models.registry import SIZES

    if method is not None:
        if data != "paper" or task is not None:
            raise ConfigError(f"{method} is shown for all its data: leave --data and --task out")
        known = {one.title.casefold(): one for one in METHODS.values()} | dict(METHODS)
        _show_method(known.get(method.casefold()) or METHODS[method], as_json)
        return
    sizes = {name: known[0] if data == "paper" else data for name, known in SIZES.items() if task in (None, name)}
    sizes = {name: size for name, size in sizes.items() if size in SIZES[name]}
    if not sizes:
        raise ConfigError(f"--data {data} has no {task}: leave --task out, or choose another --data")
    if as_json:
        listed = [_row(one, size) for name, size in sizes.items() for one in list_methods(name)]
        print(json.dumps({"data": data, "methods": listed}, indent=2))
        return
    console = Console()
    for name, size in sizes.items():
        with working("counting operations"):
            cells = [_cells(one, size) for one in list_methods(name)]
        for count in range(len(OPTIONAL) + 1):  # if that is not enough, titles wrap
            table = _table(f"{TITLES[name]}, {DATA[size]}", size, cells, OPTIONAL[:count])
            if console.measure(table, options=console.options.update(width=1000)).maximum <= console.width:
                break
        console.print(table)
        console.print(_caption(name, size, OPTIONAL[:count]), highlight=False, soft_wrap=False)


def _row(method: Method, size: str) -> dict[str, Any]:
    from horst.training.methods import costs, paper_results

    model, options = method.model_name(size), method.options_for(size)
    found = paper_results(method, DATA[size])
    results = {metric: found[metric] for metric in RESULTS[size][1] if metric in found}
    about = {"name": method.name, "title": method.title, "task": method.task, "model": model, "options": options}
    return {**about, **costs(model, options), "loss": dict(method.loss), "paper": results}


def _table(title: str, size: str, rows: list[dict[str, str]], left_out: tuple[str, ...]) -> Table:
    style: dict[str, Any] = {"box": SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}
    table = Table(title=title, title_justify="left", title_style="bold", **style)
    shown = [column for column in rows[0] if column and column not in left_out]
    for column in shown:
        justify: Any = "right" if column in ("params", "GFLOP", "state", RESULTS[size][0]) else "left"
        table.add_column(column, justify=justify, no_wrap=column != "method", vertical="top")
    for row in rows:
        table.add_row(*(row[column] for column in shown))
    return table


def _cells(method: Method, size: str) -> dict[str, str]:
    """By header, in the order of the columns; the header of no results is empty."""
    from horst.training.methods import loss_title

    row = _row(method, size)
    results = [str(row["paper"].get(metric, "-")).rjust(4) for metric in RESULTS[size][1]]
    return {
        "method": method.title,
        "name": method.name,
        "model": row["model"],
        **cost_cells(row),
        "loss": loss_title(method),
        RESULTS[size][0]: " / ".join(results) if row["paper"] else "-",
    }


def cost_cells(costs: Mapping[str, Any]) -> dict[str, str]:
    count = costs["state_bytes"]
    state = f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB" if count >= 1e3 else f"{count} B"
    return {
        "params": f"{costs['parameters'] / 1e6:.2f} M",
        "GFLOP": f"{costs['flop'] / 1e9:.3f}",
        "state": state if costs["streaming"] else "-",
        "streams": "yes" if costs["streaming"] else "no",
    }


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
    if RESULTS[size][0]:
        lines.append("%: the paper's results; - where it prints none.")
    if left_out:
        lines.append(f"A wider terminal shows more ({', '.join(left_out)}), --json all.")
    return "\n".join((*lines, "horst models METHOD describes one of them.\n"))


def _show_method(method: Method, as_json: bool) -> None:
    from horst.training.methods import config_files, costs, describe_method, loss_title, paper_rows

    models = {model: costs(model, method.options_for(size)) for size, model in method.models.items()}
    configs, about, loss = config_files(method), describe_method(method), dict(method.loss)
    if as_json:
        found = {
            **{key: getattr(method, key) for key in ("name", "title", "task", "reference", "idea")},
            "about": about,
            "options": dict(method.options),
            "loss": loss,
            "models": {size: {"model": model, **models[model]} for size, model in method.models.items()},
            "configs": configs,
            "paper": {table: {"row": row, "values": values} for table, row, values in paper_rows(method)},
        }
        print(json.dumps(found, indent=2))
        return
    words = [": ".join(filter(None, (loss_title(method), _options(loss)))), about["loss"]]
    grid = Table.grid("", "", padding=(0, 2, 0, 0))
    grid.columns[0].no_wrap = True
    for what, text in (
        ("paper", method.reference),
        ("idea", method.idea),
        ("method", about["method"]),
        ("loss", "\n".join(filter(None, words))),
        ("options", _options(method.options)),
        ("configs", "\n".join(configs)),
        ("results", "\n".join(_result_line(*row) for row in paper_rows(method)) or "-"),
    ):
        if text:
            grid.add_row(what, Text(text))
    numbers = "params\ntrained", "GFLOP\nper frame", "state", "streams"
    columns = [Column(header, justify="right", no_wrap=True) for header in numbers]
    table = Table("model", *columns, box=None, padding=(0, 2, 0, 0))
    for model, its in models.items():
        table.add_row(model, *cost_cells(its).values())
    console = Console()
    console.print(Text(f"{method.title} ({method.name}), {TITLES[method.task].lower()}\n", style="bold"))
    console.print(grid, "", table, sep="\n")


def _options(options: Mapping[str, Any]) -> str:
    """As in a config."""
    return ", ".join(f"{key}: {value}" for key, value in options.items())


def _result_line(table: str, row: str, values: Mapping[str, float]) -> str:
    from horst.evaluation.paper import paper_table

    printed = paper_table(table)
    numbers = "; ".join(f"{header}: {value:.{printed.decimals}f}" for header, value in values.items())
    return f"Table {printed.number} ({table}), {row}. {numbers}"


def info(
    model: Source,
    /,
    *,
    variant: Literal["paper", "released"] | None = None,
    size: tuple[int, int] | None = None,
    as_json: Json = False,
) -> None:
    """Show what a model costs: parameters, operations a frame, bytes of state, layer by layer.

    Args:
        model: Name of a model, such as horst_tiny, or any saved one: a folder, a run, hf://user/name, `somethings`.
        variant: The form of the paper or of its official release; for named models only.
        size: Height and width of the frames, such as 224 224; the model's own by default.
    """
    with working("loading torch"):
        from horst.layers import HORSTConfig
        from horst.models.summary import summarize

        config = _config(model, variant)
    height, width = size or config.size
    if min(height, width) < 1:
        raise InputError(f"size is {(height, width)}; it takes a height and a width in pixels, such as 224 224")
    with working("counting operations"):
        summary = summarize(config, (height, width))
    if as_json:
        print(json.dumps({"model": str(model), "config": config.to_dict(), **asdict(summary)}, indent=2))
        return
    console, core = Console(), config.core
    form = f"{core.variant} variant" if isinstance(core, HORSTConfig) else core.title
    title = f"{model}, {form}, one frame of {height}x{width}"
    table = new_table(title, "part", "output", "parameters", "GFLOP", "state MB", left=2)
    for row in summary.rows:
        table.add_row(row.name, "x".join(map(str, row.output)), *_costs(row))
    table.add_section()
    table.add_row("total", "", *_costs(summary))
    console.print(table)
    if isinstance(core, HORSTConfig):
        columns = "layer", "spatial-temporal\n(6S+1)CHW+18(S+1)HW", "joint\n2S(HW)²C", "temporal\n2SHWC"
        table = new_table(f"million operations of a step of attention, S = {core.order}", *columns)
        for costs in summary.attention:
            table.add_row(costs.name, *(f"{n / 1e6:,.1f}" for n in (costs.statt, costs.joint, costs.temporal)))
        console.print(table)


def _config(model: Source, variant: str | None) -> PredictorConfig:
    from horst.io import is_url
    from horst.models import MODELS, model_config, pretrained_models
    from horst.models.hub import open_config

    if model in MODELS and not Path(model).exists():
        return model_config(str(model), **({} if variant is None else {"variant": variant}))
    if not (is_url(model) or Path(model).exists() or model in pretrained_models()):
        model_config(str(model))  # raises, with near matches
    if variant is not None:
        raise ConfigError(f"{model} is a saved model and has its variant: leave --variant out")
    return open_config(model)


def _costs(of: PartCosts | Summary) -> tuple[str, str, str]:
    return f"{of.parameters:,}", f"{of.flop / 1e9:.3f}", f"{of.state_bytes / 1e6:.2f}" if of.state_bytes else ""
