"""What a row of the paper is made of, and where a run that names it differs: model, clips, data.

The model of a row is that of the method that has it (`horst.models.method_table`), at the size of the table's data set.
HORST may be of either variant. How long and by which optimiser a run was trained is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from horst.errors import HorstError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.paper import PaperTable
from horst.layers import HORSTConfig
from horst.models import MODELS, model_config
from horst.models.method_table import METHODS, Method
from horst.registry import Part

OF_DATA = ("num_classes", "num_verbs", "num_nouns", "pairs")
"""Options of heads that the data decides."""
ANTICIPATION = {"steps": 14, "stride": 0.25}
"""The frames of RULSTM's protocol, which all methods read that do not say others."""


def method_of(table: str, row: str) -> Method | None:
    """Whose row it is; None where no method of the package is."""
    return next((method for method in METHODS.values() if method.rows.get(table) == row), None)


def differences(table: PaperTable, row: str, config: Mapping[str, Any], evaluation: Evaluation) -> list[str]:
    """What of a run is not as in the row that it names: "order is 1, not 8"; none where all that is known agrees.

    `config` is the run as its folder has it.
    """
    method = method_of(table.name, row)
    if method is None:
        return [f"no method of the package is the row {row!r}"]
    try:
        return [*_model(table, method, config), *_clips(table, method, config), *_counts(table, evaluation)]
    except (HorstError, KeyError, TypeError, AttributeError) as error:
        return [f"its model cannot be told from its config ({error})"]


def _model(table: PaperTable, method: Method, config: Mapping[str, Any]) -> Iterator[str]:
    chosen = config["model"]
    options = dict(chosen.get("options") or {})
    name = method.model_name(table.size)
    wanted_options = method.options_for(table.size)
    if isinstance(MODELS[name]().core, HORSTConfig) and "variant" in options:
        wanted_options["variant"] = options["variant"]
    found, wanted = model_config(chosen["name"], **options), model_config(name, **wanted_options)
    if found.core.name != wanted.core.name:
        yield f"its core is {found.core.title}, not {wanted.core.title}"
    else:
        yield from _unlike(asdict(found.core), asdict(wanted.core))  # type: ignore[call-overload]
    yield from _part("head", found.head, wanted.head)
    precomputed = found.backbone.name == "maps" and found.core.in_channels == wanted.core.in_channels
    if not precomputed:
        yield from _part("backbone", found.backbone, wanted.backbone)
        if wanted.backbone.name == "bn_inception" and not (chosen.get("tsn") or chosen.get("init")):
            yield "its backbone has no TSN weights (model.tsn)"


def _part(what: str, found: Part, wanted: Part) -> Iterator[str]:
    if found.name != wanted.name:
        yield f"its {what} is {found.name}, not {wanted.name}"
        return
    mine, theirs = ({k: v for k, v in part.options.items() if k not in OF_DATA} for part in (found, wanted))
    yield from _unlike(mine, theirs, f"{what} ")


def _clips(table: PaperTable, method: Method, config: Mapping[str, Any]) -> Iterator[str]:
    clip = config["data"]["clip"]
    if method.task == "anticipation":
        yield from _unlike(clip, {**ANTICIPATION, **method.clips.get(table.size, {})}, "clip.", wanted_only=True)
        return
    size = list(model_config(method.model_name(table.size)).size)
    if list(clip["size"]) != size:
        yield f"clip.size is {list(clip['size'])}, not {size}"
    if clip["fps"] not in table.fps:
        yield f"clip.fps is {clip['fps']:g}, not {' or '.join(f'{fps:g}' for fps in table.fps)}"
    shown = f"{100 * clip['observe']:g}%"
    if not any(metric.endswith(f"@{shown}") for metric in table.columns.values()):
        yield f"{shown} of each clip is observed, not {' or '.join(table.columns)}"


def _counts(table: PaperTable, evaluation: Evaluation) -> Iterator[str]:
    counts = evaluation.counts
    if counts["examples"] != table.examples:
        yield f"evaluated on {counts['examples']:,} clips, the paper on {table.examples:,}"
    train = counts.get("train")  # not in evaluations of older versions; 0 where the data has no training split
    if train and train != table.train:
        yield f"the data has {train:,} training clips, the paper's {table.train:,}"


def _unlike(found: Any, wanted: Any, prefix: str = "", *, wanted_only: bool = False) -> Iterator[str]:
    for key in wanted if wanted_only else {**wanted, **found}:
        mine, theirs = _plain(found.get(key)), _plain(wanted.get(key))
        if mine != theirs:
            yield f"{prefix}{key} is {mine}, not {theirs}"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
