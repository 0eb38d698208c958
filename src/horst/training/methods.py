"""The registered methods: what they cost, their results in the paper, and the packaged runs that train them."""

import inspect
import json
import re
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import torch

from horst.configs import find_config, list_configs
from horst.configs.run_file import read_run
from horst.evaluation.paper import paper_table, paper_tables
from horst.layers import create_core
from horst.models import METHODS, Method, model_config
from horst.models.summary import summarize
from horst.training import losses
from horst.training.config import Loss

FROZEN = ("bn_inception",)  # backbones that the runs do not train
LOSSES = {"ranking": losses.ranking_loss, "exponential": losses.exponential_weights, "features": losses.feature_loss}
"""The functions that describe options of a method's loss."""


def costs(model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Trained and frozen parameters, FLOP per frame, bytes of state, and whether it can stream."""
    return _costs(model, json.dumps(options, sort_keys=True))


@cache  # many methods share a model
def _costs(model: str, options: str) -> dict[str, Any]:
    config = model_config(model, **json.loads(options))
    summary = summarize(config)
    frozen = summary.rows[0].parameters if config.backbone.name in FROZEN else 0
    with torch.device("meta"):
        streaming = create_core(config.core).streaming
    return {
        "parameters": summary.parameters - frozen,
        "frozen_parameters": frozen,
        "flop": summary.flop,
        "state_bytes": summary.state_bytes,
        "streaming": streaming,
    }


def loss_title(method: Method) -> str:
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


def describe_method(method: Method) -> dict[str, str]:
    """What docstrings say about a method, and about its loss if it is not cross-entropy only."""
    functions = [function for key, function in LOSSES.items() if key in method.loss]
    if "name" in method.loss:
        functions.append(getattr(losses, method.loss["name"]))
    return {"method": describe(sys.modules[method.module]), "loss": "\n".join(map(describe, functions))}


def describe(thing: object) -> str:
    """A docstring, a line for each paragraph and for each formula, without shapes and arguments."""
    doc = re.split(r"\n\n(?:Shapes|Args)\b", inspect.getdoc(thing) or "")[0]
    return "\n".join(p if p.startswith(" ") else " ".join(p.split()) for p in doc.split("\n\n"))


def paper_results(method: Method, data: str) -> dict[str, float]:
    """The paper's results on a data set, per cent by metric; of several tables, the first that has the metric."""
    tables = ((paper_table(name), row) for name, row in method.rows.items())
    return dict(ChainMap(*(table.values(row) for table, row in tables if table.data == data)))


def paper_rows(method: Method) -> Iterator[tuple[str, str, dict[str, float]]]:
    """(table, row, per cent by header) for all rows of the method in the paper."""
    own = method.rows.items()
    for table in paper_tables().values():
        for row in table.rows:
            if (table.name, row.name) in own or (row.same is not None and row.same in own):
                pairs = zip(table.columns, row.values, strict=True)
                yield table.name, row.name, {header: value for header, value in pairs if value is not None}


def config_files(method: Method) -> list[str]:
    """The packaged runs of a method."""
    folders = ("ssv2", "somethings") if method.task == "recognition" else ("ek55", "ek100", "kitchen")
    names = [name for folder in folders for name in list_configs(f"{folder}/*")]
    return [name for name in names if method in methods_of(Path(name).name, _packaged_run(name))]


@cache
def _packaged_run(name: str) -> Mapping[str, Any]:
    return read_run(find_config(name))


def methods_of(stem: str, config: Mapping[str, Any]) -> list[Method]:
    """The methods of a run: by the paper's row that it names, else by model and loss; the file's name breaks ties."""
    if config.get("paper"):
        row = (config["paper"]["table"], config["paper"]["row"])
        return [method for method in METHODS.values() if row in method.rows.items()]
    own, defaults = {key for method in METHODS.values() for key in method.loss}, asdict(Loss())
    loss = {**defaults, **config.get("loss", {})}
    options = config["model"].get("options", {})
    fitting = [
        method
        for method in METHODS.values()
        if config["model"]["name"] in method.models.values()
        and all(loss[key] == {**defaults, **method.loss}[key] for key in own)
        and method.options.items() <= options.items()
    ]
    named = [method for method in fitting if method.name == stem]
    most = max((len(method.options) for method in fitting), default=0)  # a run of an ablation also fits HORST
    return named or [method for method in fitting if len(method.options) == most]
