"""`horst info`: what a model is and costs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.table import Table

from horst.cli.options import Json, Source
from horst.console import Console, new_table
from horst.errors import ConfigError, InputError

if TYPE_CHECKING:
    from horst.models import PredictorConfig
    from horst.models.summary import Summary


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
    from horst.layers import HORSTConfig
    from horst.models.summary import summarize

    config = _config(model, variant)
    height, width = size or config.size
    if min(height, width) < 1:
        raise InputError(f"size is {(height, width)}; it takes a height and a width in pixels, such as 224 224")
    summary = summarize(config, (height, width))
    if as_json:
        print(json.dumps({"model": str(model), "config": config.to_dict(), **asdict(summary)}, indent=2))
        return
    console = Console()
    core = config.core
    form = f"{core.variant} variant" if isinstance(core, HORSTConfig) else core.title
    console.print(_parts(f"{model}, {form}, one frame of {height}x{width}", summary))
    if isinstance(core, HORSTConfig):
        console.print(_attention(core.order, summary))


def _parts(title: str, summary: Summary) -> Table:
    table = new_table(title, "part", "output", "parameters", "GFLOP", "state MB", left=2)
    for row in summary.rows:
        table.add_row(row.name, "x".join(map(str, row.output)), *_costs(row.parameters, row.flop, row.state_bytes))
    table.add_section()
    table.add_row("total", "", *_costs(summary.parameters, summary.flop, summary.state_bytes))
    return table


def _attention(order: int, summary: Summary) -> Table:
    columns = "layer", "spatial-temporal\n(6S+1)CHW+18(S+1)HW", "joint\n2S(HW)²C", "temporal\n2SHWC"
    table = new_table(f"million operations of a step of attention, S = {order}", *columns)
    for costs in summary.attention:
        table.add_row(costs.name, *(f"{n / 1e6:,.1f}" for n in (costs.statt, costs.joint, costs.temporal)))
    return table


def _config(model: Source, variant: str | None) -> PredictorConfig:
    from horst.models import MODELS, model_config, pretrained_models
    from horst.models.hub import is_address, open_config

    if model in MODELS and not Path(model).exists():
        return model_config(str(model), **({} if variant is None else {"variant": variant}))
    if not (is_address(model) or Path(model).exists() or model in pretrained_models()):
        model_config(str(model))  # raises, with near matches
    if variant is not None:
        raise ConfigError(f"{model} is a saved model and has its variant: leave --variant out")
    return open_config(model)


def _costs(parameters: int, flop: int, state_bytes: int) -> tuple[str, str, str]:
    return f"{parameters:,}", f"{flop / 1e9:.3f}", f"{state_bytes / 1e6:.2f}" if state_bytes else ""
