"""What the order of actions alone tells, of small videos and of CAD-120."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bigrams import measure
from horst.data.example import ActionSegment, Annotations, Example
from horst.data.readers.cad120 import read_cad120
from horst.errors import DataError


def videos(*rows: tuple[str, str], classes: str = "abc") -> Annotations:
    """A video for each (group, one letter for each second)."""
    examples = []
    for number, (group, letters) in enumerate(rows):
        segments = tuple(ActionSegment(t, t + 1.0, classes.index(c)) for t, c in enumerate(letters))
        media = Path(f"{number}.mp4")
        examples.append(Example(id=str(number), split="train", media=media, labels={}, group=group, segments=segments))
    return Annotations(name="small", task="online", examples=tuple(examples), classes={"action": tuple(classes)})


def test_each_order_knows_one_action_more() -> None:
    """After "aa" follows "b", after "ba" follows "c", and the next one of "b" and of "c" is always "a"."""
    found = measure(videos(("x", "aabacaabaca"), ("y", "aabacaabaca")), 0.5)
    assert {count for count, *_ in found.values()} == {20}
    assert found["prior"][1:] == (0.6, pytest.approx(1 / 3))  # "a" in 12 of 20
    assert found["bigram"][1] < 1
    assert found["trigram"][1:] == (1, 1)
    assert measure(videos(("x", "ababa"), ("y", "ababa")), 0.5)["bigram"][1:] == (1, 1)


def test_the_last_action_is_the_one_that_has_begun_by_then() -> None:
    known = videos(("x", "abcabc"), ("y", "abcabc"))
    assert measure(known, 1.0)["bigram"] == (10, 1, 1)  # at the start of the one before it
    assert measure(known, 1.5)["bigram"][0] == 8  # the second action of a video would be predicted before its start


def test_a_person_is_not_counted_for_its_own_examples() -> None:
    assert measure(videos(("x", "ab"), ("y", "ac")), 0.5)["bigram"][1] == 0
    assert measure(videos(("x", "ab"), ("x", "ac"), ("x", "ac"), ("y", "ab")), 0.5)["bigram"][1] == 0.25
    with pytest.raises(DataError, match="has 1 group"):
        measure(videos(("x", "ab"), ("x", "ac")), 0.5)


def test_cad120_has_its_published_references(samples: Path) -> None:
    """Of the README beside the data: examples, top-1 and class-mean top-1 in per cent."""
    annotations = read_cad120(samples / "cad120")
    for tau, wanted in {
        1.0: {"prior": (775, 32.3, 10.0), "bigram": (775, 53.4, 23.5), "trigram": (775, 56.3, 26.3)},
        0.5: {"prior": (795, 31.6, 10.0), "bigram": (795, 67.4, 28.9), "trigram": (795, 72.2, 36.0)},
        0.25: {"prior": (799, 31.4, 10.0), "bigram": (799, 69.3, 29.5), "trigram": (799, 74.1, 36.6)},
    }.items():
        found = measure(annotations, tau)
        assert {k: (n, round(100 * a, 1), round(100 * b, 1)) for k, (n, a, b) in found.items()} == wanted
