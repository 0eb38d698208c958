"""`horst info MODEL`: what a model is and costs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from horst.console import Console
from horst.errors import ConfigError, InputError
from horst.layers import HORSTConfig
from horst.models import MODELS, PredictorConfig, model_config, pretrained_models
from horst.models.hub import is_address, open_config
from horst.models.summary import Summary, summarize


def run(model: str, *, variant: str | None, size: tuple[int, int] | None, as_json: bool) -> None:
    config = _config(model, variant)
    height, width = size or config.size
    if min(height, width) < 1:
        raise InputError(f"size is {(height, width)}; it takes [height,width] in pixels")
    summary = summarize(config, (height, width))
    if as_json:
        totals = {"parameters": summary.parameters, "flop": summary.flop, "state_bytes": summary.state_bytes}
        print(json.dumps({"model": model, "config": config.to_dict(), **totals, **asdict(summary)}, indent=2))
        return
    console = Console()
    core = config.core
    form = f"{core.variant} variant" if isinstance(core, HORSTConfig) else core.title
    console.print(_parts(f"{model}, {form}, one frame of {height}x{width}", summary))
    if isinstance(core, HORSTConfig):
        console.print(_attention(core.order, summary))


def _parts(title: str, summary: Summary) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("part", "output", "parameters", "GFLOP", "state MB"):
        table.add_column(column, justify="left" if column in ("part", "output") else "right")
    for row in summary.rows:
        table.add_row(row.name, "x".join(map(str, row.output)), *_costs(row.parameters, row.flop, row.state_bytes))
    table.add_section()
    table.add_row("total", "", *_costs(summary.parameters, summary.flop, summary.state_bytes))
    return table


def _attention(order: int, summary: Summary) -> Table:
    table = Table(title=f"million operations of a step of attention, S = {order}", title_justify="left")
    table.add_column("layer")
    for column in ("spatial-temporal\n(6S+1)CHW+18(S+1)HW", "joint\n2S(HW)²C", "temporal\n2SHWC"):
        table.add_column(column, justify="right")
    for costs in summary.attention:
        table.add_row(costs.name, *(f"{n / 1e6:,.1f}" for n in (costs.statt, costs.joint, costs.temporal)))
    return table


def _config(model: str, variant: str | None) -> PredictorConfig:
    if model in MODELS and not Path(model).exists():
        return model_config(model, **({} if variant is None else {"variant": variant}))
    if not (is_address(model) or Path(model).exists() or model in pretrained_models()):
        model_config(model)  # raises, with near matches
    if variant is not None:
        raise ConfigError(f"{model} is a saved model and has its variant: leave --variant out")
    return open_config(model)


def _costs(parameters: int, flop: int, state_bytes: int) -> tuple[str, str, str]:
    return f"{parameters:,}", f"{flop / 1e9:.3f}", f"{state_bytes / 1e6:.2f}" if state_bytes else ""
