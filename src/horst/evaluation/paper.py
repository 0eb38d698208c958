"""The paper's result tables as data, and how a run differs from the row that it names.

    early-recognition, attention, order, key-value    Tables 1-4, Something-Something v2
    ek55, ek55-backbones                              Tables 5-6, EPIC-Kitchens 55
    ek100                                             Table 7, EPIC-Kitchens 100

    paper_table("ek55").values("HORST-url")["action/top5@1s"]     31.58

The numbers are in paper_tables.yaml. A run is compared with a row by its model, clips and data. The model of a row is
that of its method (`horst.models.registry`) for the table's data set; HORST may be of either variant. Training
length and optimiser are not compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import yaml

from horst.config import from_dict
from horst.errors import ConfigError, HorstError, did_you_mean
from horst.layers import HORSTConfig
from horst.models import MODELS, model_config
from horst.models.registry import METHODS, Method
from horst.registry import Part

OF_DATA = ("num_classes", "num_verbs", "num_nouns", "pairs")  # options of heads that follow from the data
ANTICIPATION = {"steps": 14, "stride": 0.25}  # clips of RULSTM's protocol; methods may name others


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperResult:
    """A row of a table."""

    name: str
    values: tuple[float | None, ...]  # per cent, by column; None if the paper has no number
    same: tuple[str, str] | None = None  # (table, row) of the same model: a run for that row counts for this one too


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperTable:
    """A table, and the data of its numbers."""

    number: int  # in the paper
    title: str
    data: str  # name of the data set, as in `Annotations.name`
    classes: dict[str, int]  # number of classes by task
    size: str  # the data set in the names of models; see `horst.models.registry`
    train: int  # examples of the training split
    examples: int  # examples of the validation split
    columns: dict[str, str]  # metric by header; see `horst.evaluation.measure`
    rows: tuple[PaperResult, ...]
    fps: tuple[float, ...] = ()  # recognition: allowed frame rates
    decimals: int = 1  # as printed
    name: str = field(default="", compare=False)

    def row(self, name: str) -> PaperResult:
        """The row with that name, or ConfigError."""
        known = {row.name: row for row in self.rows}
        if name not in known:
            close = did_you_mean(name, known, "There are", separator="; ")
            raise ConfigError(f"the paper's table {self.name!r} has no row {name!r}{close}")
        return known[name]

    def values(self, row: str) -> dict[str, float]:
        """The numbers of a row, per cent by metric, for the metrics that the paper has."""
        pairs = zip(self.columns.values(), self.row(row).values, strict=True)
        return {metric: value for metric, value in pairs if value is not None}


def paper_table(name: str) -> PaperTable:
    """The table with that name, or ConfigError."""
    tables = paper_tables()
    if name not in tables:
        raise ConfigError(f"the paper has no table {name!r}{did_you_mean(name, tables, 'There are')}")
    return tables[name]


@cache
def paper_tables() -> Mapping[str, PaperTable]:
    """All tables by name, in the paper's order."""
    data = yaml.safe_load((files("horst.evaluation") / "paper_tables.yaml").read_text(encoding="utf-8"))
    return MappingProxyType({name: from_dict(PaperTable, {**data[name], "name": name}, name) for name in data})


def differences(table: PaperTable, row: str, config: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    """How a run, by its config.yaml and the counts of its evaluation, differs from a row: ["order is 1, not 8"]."""
    method = next((method for method in METHODS.values() if method.rows.get(table.name) == row), None)
    if method is None:
        return [f"no method of the package is the row {row!r}"]
    try:
        return [*_model(table, method, config), *_clips(table, method, config), *_counts(table, counts)]
    except (HorstError, KeyError, TypeError, AttributeError) as error:
        return [f"its config does not describe a known model ({error})"]


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
        yield from _differing(asdict(found.core), asdict(wanted.core))
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
    yield from _differing(mine, theirs, f"{what} ")


def _clips(table: PaperTable, method: Method, config: Mapping[str, Any]) -> Iterator[str]:
    clip = config["data"]["clip"]
    if method.task == "anticipation":
        wanted = {**ANTICIPATION, **method.clips.get(table.size, {})}
        yield from _differing({key: clip.get(key) for key in wanted}, wanted, "clip.")
        return
    size = list(model_config(method.model_name(table.size)).size)
    if list(clip["size"]) != size:
        yield f"clip.size is {list(clip['size'])}, not {size}"
    if clip["fps"] not in table.fps:
        yield f"clip.fps is {clip['fps']:g}, not {' or '.join(f'{fps:g}' for fps in table.fps)}"
    shown = f"{100 * clip['observe']:g}%"
    if not any(metric.endswith(f"@{shown}") for metric in table.columns.values()):
        yield f"{shown} of each clip is observed, not {' or '.join(table.columns)}"


def _counts(table: PaperTable, counts: Mapping[str, int]) -> Iterator[str]:
    if counts["examples"] != table.examples:
        yield f"evaluated on {counts['examples']:,} clips, the paper on {table.examples:,}"
    train = counts.get("train")  # absent in evaluations of older versions; 0 without a training split
    if train and train != table.train:
        yield f"the data has {train:,} training clips, the paper's {table.train:,}"


def _differing(found: Any, wanted: Any, prefix: str = "") -> Iterator[str]:
    for key in {**wanted, **found}:
        mine, theirs = (list(v) if isinstance(v, tuple) else v for v in (found.get(key), wanted.get(key)))
        if mine != theirs:
            yield f"{prefix}{key} is {mine}, not {theirs}"
