"""The terminal report of an evaluation: worked examples."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from horst.evaluation import report
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.predictions import FRACTIONS
from horst.evaluation.report import MetricRow

COUNTS = {"examples": 12, "read": 7, "missing": 5, "left_out": 2, "unlabelled": 3, "train": 20}


def recognition(**changes: Any) -> Evaluation:
    known: dict[str, Any] = {
        "data": "made",
        "split": "val",
        "task": "recognition",
        "counts": COUNTS,
        "protocol": {
            "mode": "prefix",
            "leaks": {},
            "unobserved": {},
            "fractions": [0.25, 1.0],
            "size": [8, 6],
            "fps": 12.0,
        },
        "metrics": {
            "action/top1@25%": 0.125,
            "action/top1@100%": 0.5,
            "calibration@25%": 0.25,
            "calibration@100%": 0.0625,
            "area": 0.375,
            "decided": 0.8,
        },
        "prior": {"action/top1": 0.0471},
        "seconds": 1.26,
        "version": "9.9",
    }
    return Evaluation(**{**known, **changes})


def anticipation(**changes: Any) -> Evaluation:
    known: dict[str, Any] = {
        "task": "anticipation",
        "protocol": {"mode": "rulstm", "leaks": {"1s": 2}, "unobserved": {"1s": 4, "0.5s": 1}, "taus": [1.0, 0.5]},
        "metrics": {
            "verb/recall5@1s": 0.3,
            "verb/recall5@0.5s": 0.4,
            "verb/recall5@1s/tail": 0.1,
            "verb/recall5@0.5s/unseen": 0.2,
            "action/time_to_action": 1.234,
            "noun/time_to_action": 0.5,
        },
        "prior": {},
        "unmeasured": {"noun": "no label"},
        "notices": ["a list is missing"],
    }
    return recognition(**{**known, **changes})


def test_notes_of_recognition() -> None:
    counted = (
        "12 examples, 7 read, 3 could not be read (misses), 2 that no frame precedes (left out), "
        "3 without a label (left out); 1.3 s, horst 9.9"
    )
    assert report.notes(recognition()) == ["area under top-1 37.5%; answer decided after 80.0% of a clip", counted]
    few = {"examples": 4, "read": 3, "missing": 1}  # as older versions wrote it
    assert report.notes(recognition(metrics={}, counts=few)) == [
        "4 examples, 3 read, 1 could not be read (misses); 1.3 s, horst 9.9"
    ]
    all_read = {"examples": 4, "read": 4, "missing": 0}
    assert report.notes(recognition(metrics={}, counts=all_read)) == ["4 examples, 4 read; 1.3 s, horst 9.9"]
    protocol = {**recognition().protocol, "made_for": {"size": [16, 24], "fps": 7.5}}
    assert report.notes(recognition(protocol=protocol))[-1] == (
        "the clips have 8x6 pixels at 12 fps; the model was made for 16x24 pixels at 7.5 fps"
    )


def test_notes_of_anticipation() -> None:
    first, early, _, leaks, unmeasured, unseen = report.notes(anticipation())
    assert first == "note: a list is missing"
    assert early == "time to action (top-5): action 1.23 s, noun 0.50 s"
    assert leaks == "protocol rulstm: examples that saw too much: 2 at 1s"
    assert unmeasured == "not measured: noun (no label)"
    assert unseen == "no frame observed yet (misses): 4 at 1s, 1 at 0.5s"
    protocol = {"mode": "strict", "leaks": {}, "taus": [1.0, 0.5]}
    quiet = replace(anticipation(), protocol=protocol, metrics={}, notices=[], unmeasured={})
    assert report.notes(quiet)[1:] == ["protocol strict: no leak"]


def test_rows() -> None:
    found = recognition()
    assert found.position_names == ["25%", "100%"]
    assert report.rows(found, "action") == [
        MetricRow("top-1", [0.125, 0.5], 0.0471),
        MetricRow("calibration", [0.25, 0.0625]),
    ]
    assert report.rows(found, "verb") == []
    found = anticipation()
    assert found.position_names == ["1s", "0.5s"]
    assert report.rows(found, "action") == []
    assert report.rows(found, "verb") == [
        MetricRow("verb recall@5", [0.3, 0.4]),
        MetricRow("  tail", [0.1, None]),
        MetricRow("  unseen", [None, 0.2]),
    ]


def test_table() -> None:
    made = report.table(recognition())
    cells = [list(column.cells) for column in made.columns]
    assert [column.header for column in made.columns] == ["observed", "25%", "100%", "prior"]
    assert cells == [["top-1", "calibration"], ["12.5", "25.0"], ["50.0", "6.2"], ["4.7", ""]]
    assert [row.end_section for row in made.rows] == [False, True]
    assert made.title == "made, val, %"
    made = report.table(anticipation())
    assert [column.header for column in made.columns] == ["seconds before", "1", "0.5"]
    assert [list(column.cells) for column in made.columns][1:] == [["30.0", "10.0", ""], ["40.0", "", "20.0"]]


def test_all_positions_fit_into_80_columns() -> None:
    """With a prior, and with values of 100%."""
    metrics = {f"action/{kind}@{100 * part:g}%": 1.0 for kind in ("top1", "top5") for part in FRACTIONS}
    metrics |= {f"calibration@{100 * part:g}%": 1.0 for part in FRACTIONS}
    prior = {"action/top1": 1.0, "action/top5": 1.0}
    found = recognition(metrics=metrics, prior=prior, protocol={"fractions": list(FRACTIONS)})
    file = io.StringIO()
    Console(file=file, width=80).print(report.table(found))
    assert "…" not in file.getvalue()
    assert file.getvalue().count("100 ") >= 3 * len(FRACTIONS)
