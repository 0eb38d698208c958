"""Dataclasses from plain data: whatever a class can hold goes through, and nothing else does."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horst.config import from_dict
from horst.errors import ConfigError


@dataclass(frozen=True)
class Inner:
    share: float = 0.5
    kind: Literal["one", "two"] = "one"
    pair: tuple[int, float] | None = None


@dataclass(frozen=True)
class Outer:
    name: str
    count: int = 1
    on: bool = False
    many: tuple[str, ...] = ()
    devices: int | Literal["auto"] = "auto"
    options: dict[str, Any] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)
    other: Inner | None = None


numbers = st.floats(allow_nan=False, allow_infinity=False)
inners = st.builds(
    Inner,
    share=numbers,
    kind=st.sampled_from(["one", "two"]),
    pair=st.none() | st.tuples(st.integers(), numbers),
)
outers = st.builds(
    Outer,
    name=st.text(),
    count=st.integers(),
    on=st.booleans(),
    many=st.lists(st.text(), max_size=3).map(tuple),
    devices=st.integers() | st.just("auto"),
    options=st.dictionaries(st.text(), st.integers()),
    inner=inners,
    other=st.none() | inners,
)


def listed(value: Any) -> Any:
    """As YAML gives it: lists for tuples."""
    if isinstance(value, dict):
        return {key: listed(v) for key, v in value.items()}
    return [listed(v) for v in value] if isinstance(value, list | tuple) else value


@given(outers)
def test_what_a_class_holds_goes_through(made: Outer) -> None:
    assert from_dict(Outer, listed(asdict(made))) == made


@given(st.integers())
def test_whole_numbers_are_numbers(value: int) -> None:
    share = from_dict(Inner, {"share": value}).share
    assert isinstance(share, float)
    assert share == value or abs(value) > 2**53


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], r"the config is \[\]; it takes a mapping of name, count"),
        ({}, "the config needs the entry 'name'"),
        ({"name": "x", "cuont": 2}, "the config has no entry 'cuont', did you mean 'count'?"),
        ({"name": "x", 3: 2}, "the config has no entry 3"),
        ({"name": 3}, "name is 3; it takes text"),
        ({"name": None}, "name is None; it takes text"),
        ({"name": "x", "count": True}, "count is True; it takes a whole number"),
        ({"name": "x", "count": 1.0}, "count is 1.0; it takes a whole number"),
        ({"name": "x", "on": 1}, "on is 1; it takes true or false"),
        ({"name": "x", "many": "abc"}, "many is 'abc'; it takes a list of text"),
        ({"name": "x", "many": ["a", 1]}, r"many\[1\] is 1; it takes text"),
        ({"name": "x", "devices": "all"}, "devices is 'all'; it takes a whole number"),
        ({"name": "x", "options": []}, r"options is \[\]; it takes a mapping"),
        ({"name": "x", "inner": 3}, "inner is 3; it takes a mapping of share, kind, pair"),
        ({"name": "x", "inner": {"share": "much"}}, "inner.share is 'much'; it takes a number"),
        ({"name": "x", "inner": {"share": "1e-3"}}, "write 1.0e-3"),
        ({"name": "x", "inner": {"share": False}}, "inner.share is False; it takes a number"),
        ({"name": "x", "inner": {"kind": "tow"}}, "inner.kind is 'tow'; choose from 'one', 'two', did you mean 'two'?"),
        ({"name": "x", "inner": {"kind": None}}, "inner.kind is None; choose from"),
        ({"name": "x", "inner": {"kind": []}}, r"inner.kind is \[\]; choose from"),
        ({"name": "x", "other": {"pair": [1]}}, r"other.pair is \[1\]; it takes a list of a whole number, a number"),
        ({"name": "x", "other": {"shares": 1}}, "other has no entry 'shares', did you mean 'share'?"),
    ],
)
def test_errors_name_the_place_the_value_and_what_it_takes(data: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        from_dict(Outer, data)


def test_a_class_may_know_better_how_it_is_read() -> None:
    @dataclass(frozen=True)
    class Own:
        value: int

        @classmethod
        def from_entry(cls, data: Any, where: str) -> Own:
            return cls(len(where) + data)

    Outermost = dataclass(type("Outermost", (), {"__annotations__": {"deep": Own}}))  # noqa: N806
    assert from_dict(Outermost, {"deep": 3}).deep == Own(7)  # type: ignore[attr-defined]
