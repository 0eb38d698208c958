"""The paper's tables: a sample of the numbers, and metric names that `measure` uses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from horst.data.clips import ClipConfig
from horst.data.example import Annotations, Example, Task
from horst.errors import ConfigError
from horst.evaluation.measure import measure
from horst.evaluation.paper import paper_table, paper_tables
from horst.evaluation.predictions import Predictions, positions

NAMES = ["early-recognition", "attention", "order", "key-value", "ek55", "ek55-backbones", "ek100"]


@pytest.mark.parametrize(
    ("table", "row", "numbers"),
    [
        ("early-recognition", "3D-CNN", {"action/top1@25%": 13.3, "action/top1@50%": 20.7}),
        ("early-recognition", "Conv-TT-LSTM", {"action/top1@25%": 19.5, "action/top1@50%": 30.1}),
        ("early-recognition", "Conv-TT-LSTM (retrained)", {"action/top1@25%": 29.3, "action/top1@50%": 42.3}),
        ("early-recognition", "HORST", {"action/top1@25%": 33.9, "action/top1@50%": 47.8}),
        ("ek55-backbones", "RU-RGB", {"action/top1@1s": 13.1, "action/top5@1s": 30.8}),
        ("ek55-backbones", "ImagineRNN", {"action/top1@1s": 13.7, "action/top5@1s": 31.6}),
        ("ek55-backbones", "HORST-url", {"action/top1@1s": 12.8, "action/top5@1s": 31.6}),
        ("ek55-backbones", "AVT-h (irCSN152, IG65M)", {"action/top1@1s": 14.4, "action/top5@1s": 31.7}),
        ("ek100", "RU-RGB", {"verb/recall5@1s": 27.5, "noun/recall5@1s": 29.0, "action/recall5@1s": 13.3}),
        ("ek100", "AVT-h (AVT-b, In21+1k)", {"action/recall5@1s": 14.4}),
    ],
)
def test_numbers(table: str, row: str, numbers: dict[str, float]) -> None:
    assert numbers.items() <= paper_table(table).values(row).items()


def test_missing_numbers() -> None:
    assert set(paper_table("ek55").values("DMR")) == {
        "action/top5@1s", "verb/top5@1s", "noun/top5@1s",
        "verb/recall5@1s/many-shot", "noun/recall5@1s/many-shot", "action/recall5@1s/many-shot",
    }  # fmt: skip


def test_tables_are_consistent() -> None:
    rows = {(table.name, row.name) for table in paper_tables().values() for row in table.rows}
    assert len(rows) == sum(len(table.rows) for table in paper_tables().values())
    for table in paper_tables().values():
        assert all(len(row.values) == len(table.columns) for row in table.rows)
        assert all(row.same is None or row.same in rows for row in table.rows)


def test_table_numbers() -> None:
    assert {table.number: name for name, table in paper_tables().items()} == dict(enumerate(NAMES, 1))


def test_rows_of_the_same_model_have_the_same_numbers() -> None:
    printed_again = [(t, row) for t in paper_tables().values() for row in t.rows if row.same]
    assert len(printed_again) == 6
    for table, row in printed_again:
        assert row.same is not None
        other = paper_table(row.same[0])
        assert (table.data, table.classes, table.examples) == (other.data, other.classes, other.examples)
        for metric, value in table.values(row.name).items():
            assert paper_table(row.same[0]).values(row.same[1]).get(metric, value) == pytest.approx(value, abs=0.05)


def test_the_best_ablation_is_the_main_result() -> None:
    for name in ("attention", "order", "key-value"):
        table = paper_table(name)
        assert max(value for row in table.rows for value in row.values if value) == 33.9


def measured(task: Task, **options: object) -> set[str]:
    """The metrics of `measure` for two examples."""
    names = ("action", "verb", "noun") if task == "anticipation" else ("action",)
    labels = {name: torch.tensor([0, 1]) for name in names}
    there = positions(task, ClipConfig())
    examples = tuple(Example(id=str(i), split="val", media=Path("x"), labels=dict.fromkeys(names, i)) for i in range(2))
    annotations = Annotations(
        name="two", task=task, examples=examples, classes=dict.fromkeys(names, ("a", "b")), **options
    )  # type: ignore[arg-type]
    predictions = Predictions(
        task=task,
        positions=there,
        ids=("0", "1"),
        labels=labels,
        scores={name: torch.zeros(2, len(there), 2) for name in names},
        read=torch.ones(2, dtype=torch.bool),
        empty=torch.zeros(2, dtype=torch.bool),
        answers=torch.zeros(2, 10, dtype=torch.int64),
        lengths=torch.tensor([10, 10]),
        last_seen=torch.zeros(2, len(there), dtype=torch.float64),
        limits=torch.zeros(2, len(there), dtype=torch.float64),
    )
    return set(measure(predictions, annotations))


def test_columns_are_metrics() -> None:
    many_shot = {f"many-shot {task}": frozenset([0]) for task in ("action", "verb", "noun")}
    known = {
        "Something-Something v2": measured("recognition"),
        "EPIC-Kitchens 55": measured("anticipation", subsets=many_shot),
        "EPIC-Kitchens 100": measured("anticipation"),
    }
    for table in paper_tables().values():
        assert set(table.columns.values()) <= known[table.data], table.name


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match=r"no table 'ek5'.*did you mean 'ek55'"):
        paper_table("ek5").values("HORST")
    with pytest.raises(ConfigError, match=r"'ek55' has no row 'HORST-ulr'.*'HORST-url'"):
        paper_table("ek55").values("HORST-ulr")
