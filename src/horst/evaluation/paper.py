"""The paper's result tables as data, for comparison with other results.

    early-recognition, attention, order, key-value    Tables 1-4, Something-Something v2
    ek55, ek55-backbones                              Tables 5-6, EPIC-Kitchens 55
    ek100                                             Table 7, EPIC-Kitchens 100

    paper_values("ek55", "HORST-url")["action/top5@1s"]     31.58

The numbers are in paper_tables.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import yaml

from horst.config import from_dict
from horst.errors import ConfigError, did_you_mean


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperRow:
    """A row of a table."""

    name: str
    values: tuple[float | None, ...]
    """Per cent, by column; None if the paper has no number."""
    same: tuple[str, str] | None = None
    """(table, row) of the same model in another table: a run for that row counts for this one too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperTable:
    """A table, and the data of its numbers."""

    number: int
    """In the paper."""
    title: str
    data: str
    """Name of the data set, as in `Annotations.name`."""
    classes: dict[str, int]
    """Number of classes by task."""
    size: str
    """The data set in the names of models; see `horst.models.method_table`."""
    train: int
    """Examples of the training split."""
    examples: int
    """Examples of the validation split."""
    columns: dict[str, str]
    """Metric by header; see `horst.evaluation.measure`."""
    rows: tuple[PaperRow, ...]
    fps: tuple[float, ...] = ()
    """Recognition: allowed frame rates."""
    decimals: int = 1
    """As printed."""
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if len({row.name for row in self.rows}) < len(self.rows):
            raise ConfigError(f"two rows of {self.title!r} have the same name")
        for row in self.rows:
            if len(row.values) != len(self.columns):
                raise ConfigError(f"row {row.name!r} has {len(row.values)} values for {len(self.columns)} columns")

    def row(self, name: str) -> PaperRow:
        """The row with that name, or ConfigError."""
        known = {row.name: row for row in self.rows}
        if name not in known:
            close = did_you_mean(name, known, "There are", separator="; ")
            raise ConfigError(f"the paper's table {self.name!r} has no row {name!r}{close}")
        return known[name]

    def values(self, row: PaperRow) -> dict[str, float]:
        """Per cent by metric, for the metrics that the paper has."""
        pairs = zip(self.columns.values(), row.values, strict=True)
        return {metric: value for metric, value in pairs if value is not None}


def paper_table(name: str) -> PaperTable:
    """The table with that name, or ConfigError."""
    tables = paper_tables()
    if name not in tables:
        raise ConfigError(f"the paper has no table {name!r}{did_you_mean(name, tables, 'There are')}")
    return tables[name]


def paper_values(table: str, row: str) -> dict[str, float]:
    """The numbers of a row, per cent by metric. ConfigError if there is no such table or row."""
    found = paper_table(table)
    return found.values(found.row(row))


@cache
def paper_tables() -> Mapping[str, PaperTable]:
    """All tables by name, in the paper's order."""
    text = (files("horst.evaluation") / "paper_tables.yaml").read_text(encoding="utf-8")
    return MappingProxyType(tables_from(yaml.safe_load(text)))


def tables_from(data: Any) -> dict[str, PaperTable]:
    """Tables from the contents of a YAML file; ConfigError says where it is wrong."""
    if not isinstance(data, dict):
        raise ConfigError(f"tables are a mapping by name; got a {type(data).__name__}")
    tables = {
        name: from_dict(PaperTable, {**table, "name": name} if isinstance(table, dict) else table, name)
        for name, table in data.items()
    }
    there = {(name, row.name) for name, table in tables.items() for row in table.rows}
    for name, table in tables.items():
        for row in table.rows:
            if row.same is not None and row.same not in there:
                raise ConfigError(f"{name}: row {row.name!r} is the same as {row.same}, which is not there")
    return tables
