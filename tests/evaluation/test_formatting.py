"""Titles of metrics and formats of numbers."""

from __future__ import annotations

import pytest

from horst.evaluation.report import (
    MINUS,
    markdown_head,
    markdown_row,
    metric_title,
    metric_value,
    percent,
    value_with_unit,
)


@pytest.mark.parametrize(
    ("metric", "title"),
    [
        ("area", "area"),
        ("action/top1@25%", "top-1 at 25%"),
        ("calibration@50%", "calibration error at 50%"),
        ("noun/time_to_action", "noun time to action"),
        ("action/recall5@1s/tail", "recall@5 at 1s (tail)"),
        ("verb/recall5@1s/unseen", "verb recall@5 at 1s (unseen)"),
    ],
)
def test_titles(metric: str, title: str) -> None:
    assert metric_title(metric) == title
    task, slash, _ = metric.partition("/")
    assert metric_title(metric, action=True) == (f"action {title}" if slash and task == "action" else title)


def test_an_edit_distance_is_a_fraction_of_the_next_actions() -> None:
    assert metric_title("action/ed@4") == metric_title("action/ed@4", action=True) == "edit distance, next 4"
    assert metric_title("action/ed@4/greedy", action=True) == "edit distance, next 4 (greedy)"
    assert metric_value("action/ed@4", 0.8691) == value_with_unit("action/ed@4", 0.8691) == "0.869"
    assert value_with_unit("action/top1@1s", 0.8691) == "86.9%"
    assert value_with_unit("action/time_to_action", 0.8691) == "0.87 s"


def test_numbers() -> None:
    assert [percent(value) for value in (None, 0.0, 0.1234, 1.0)] == ["", "0.0", "12.3", "100.0"]
    assert percent(-0.012) == f"{MINUS}1.2"
    assert metric_value("area", 0.612, 0.59, 0.634) == "61.2 [59.0, 63.4]"
    assert metric_value("area", 0.5, None, 0.6) == "50.0"
    assert metric_value("area", -0.01, -0.05, 0.03, signed=True) == f"{MINUS}1.0 [{MINUS}5.0, +3.0]"
    assert metric_value("action/time_to_action", 1.234) == "1.23"


def test_markdown() -> None:
    assert markdown_row(["a|b", "c\nd"]) == "| a\\|b | c\\nd |"
    assert markdown_head(["", "x", "y"]) == ["|  | x | y |", "| --- | ---: | ---: |"]
