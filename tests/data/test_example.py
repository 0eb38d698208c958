"""Annotations as plain data: they survive JSON, and damage is an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horst.data.example import Annotations, Example
from horst.errors import DataError

HERE = Path("store")
NAMES = st.lists(st.text(min_size=1), min_size=3, max_size=3, unique=True).map(tuple)
SECONDS = st.floats(0, 1e6)
EXAMPLES = st.builds(
    Example,
    id=st.text(),
    split=st.sampled_from(["train", "val", "test"]),
    media=st.just(HERE),
    labels=st.dictionaries(st.sampled_from(["action", "verb", "noun"]), st.integers(0, 2)),
    start=SECONDS,
    end=st.none() | SECONDS,
    start_frame=st.none() | st.integers(1, 10**6),
    video=st.text(),
    group=st.text(),
)
ANNOTATIONS = st.builds(
    Annotations,
    name=st.text(),
    task=st.sampled_from(["recognition", "anticipation"]),
    examples=st.lists(EXAMPLES, max_size=4).map(tuple),
    classes=st.fixed_dictionaries({"action": NAMES, "verb": NAMES, "noun": NAMES}),
    action_parts=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2))).map(tuple),
    subsets=st.dictionaries(st.text(), st.frozensets(st.integers(0, 2))),
    example_sets=st.dictionaries(st.text(), st.frozensets(st.text())),
    mirror=st.lists(st.integers(-1, 2)).map(tuple),
)


@given(ANNOTATIONS)
def test_round_trip(annotations: Annotations) -> None:
    data = annotations.to_dict()
    told = json.loads(json.dumps(data))
    assert told == data
    assert Annotations.from_dict({**told, "fps": 12}, media=HERE) == annotations


def test_media_are_not_stored() -> None:
    example = Example(id="a", split="train", media=Path("/somewhere/a.mp4"), labels={})
    assert "somewhere" not in json.dumps(example.to_dict())
    assert Example.from_dict({**example.to_dict(), "offsets": [0]}, media=HERE) == replace(example, media=HERE)


@pytest.mark.parametrize("broken", [{"examples": [{}]}, {"examples": 3}, {"classes": []}, {"action_parts": [[1]]}])
def test_damage(broken: dict[str, Any]) -> None:
    annotations = Annotations(name="n", task="recognition", examples=(), classes={})
    with pytest.raises(DataError, match="store: its annotations are damaged"):
        Annotations.from_dict({**annotations.to_dict(), **broken}, media=HERE)
    with pytest.raises(DataError, match=r"damaged \(KeyError: 'name'"):
        Annotations.from_dict({}, media=HERE)


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_beyond_the_classes_are_errors(label: int) -> None:
    example = Example(id="a", split="val", media=Path("a"), labels={"action": label})
    with pytest.raises(DataError, match=f"example a has action {label} of 3 classes"):
        Annotations(name="made", task="recognition", examples=(example,), classes={"action": ("x", "y", "z")})
