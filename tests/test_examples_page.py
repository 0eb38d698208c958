"""docs/results/examples.json and its pictures are what tools/draw_examples.py makes of the package's models."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from horst.models import open_model
from horst.synth.fresh import fresh_somethings
from horst.viz.streamed import stream

ROOT = Path(__file__).parents[1]


def script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))  # as it is where the script is run
    try:
        return import_module("draw_examples")
    finally:
        sys.path.pop(0)


DRAW: Any = script()
TOLD = json.loads(DRAW.NUMBERS.read_text())
EVERY = [(data, entry) for data in TOLD for entry in TOLD[data]["examples"]]
every_example = pytest.mark.parametrize(("data", "entry"), EVERY, ids=[entry["picture"] for _, entry in EVERY])


def texts(entry: dict[str, Any]) -> list[str]:
    root = ElementTree.fromstring((DRAW.FOLDER / entry["picture"]).read_text())
    return ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_there_is_one_example_of_each_kind_in_a_picture_of_its_own() -> None:
    for data, kinds in DRAW.KINDS.items():
        examples = TOLD[data]["examples"]
        assert [(entry["kind"], entry["rule"]) for entry in examples] == [(kind.name, kind.rule) for kind in kinds]
        assert len({entry["truth"] for entry in examples}) == len(examples)
        assert TOLD[data]["seed"] == DRAW.SEED
    assert {file.name for file in DRAW.FOLDER.iterdir()} == {entry["picture"] for _, entry in EVERY}
    assert sum(file.stat().st_size for file in DRAW.FOLDER.iterdir()) < 1_200_000


@every_example
def test_an_example_is_of_its_kind(data: str, entry: dict[str, Any]) -> None:
    kind = next(kind for kind in DRAW.KINDS[data] if kind.name == entry["kind"])
    ranks = {}
    for position, answers in zip(DRAW.POSITIONS[data], entry["answers"].values(), strict=True):
        names = [name for name, _ in answers["best"]]
        ranks[position] = 1 + names.index(entry["truth"]) if entry["truth"] in names else 6
    assert kind.holds(ranks)
    weights = [state["weight"] for state in entry["attention"]["states"]]
    assert sum(weights) <= 1.003  # the rest is on the empty state, from before the first frame
    assert kind.looks(DRAW.np.array(weights))
    assert entry["attention"]["most"] == max(entry["attention"]["states"], key=lambda state: state["weight"])


@every_example
def test_a_picture_shows_the_numbers(data: str, entry: dict[str, Any]) -> None:
    shown = texts(entry)
    what = "clip" if data == "somethings" else "action"
    assert shown[:2] == [entry["truth"], f"{what} {entry['id']}, {entry['rule']}"]
    whole = [int(text[:-1]) for text in shown if re.fullmatch(r"\d+%", text)]
    answers = [chance for said in entry["answers"].values() for _, chance in said["best"]]
    weights = [state["weight"] for state in entry["attention"]["states"]]
    axis, best = 5, 5  # 0, 25, ... 100% of the timeline; the answers beside the attention
    assert whole[:axis] == [0, 25, 50, 75, 100]
    assert whole[axis : axis + len(answers)] == pytest.approx([100 * chance for chance in answers], abs=0.6)
    rest = whole[axis + len(answers) :]
    assert len(rest) == len(weights) + best
    assert rest[: len(weights)] == pytest.approx([100 * weight for weight in weights], abs=0.6)


def test_the_model_still_says_so(tmp_path: Path) -> None:
    """The first clips of a larger set are those of a smaller one: two are made again, and shown to the model."""
    model, fresh = open_model("somethings"), fresh_somethings(tmp_path, clips=2, seed=DRAW.SEED)
    made = [stream(model, fresh, "val", index) for index in range(2)]
    told = {entry["id"]: entry for entry in TOLD["somethings"]["examples"]}
    again = [clip for clip in made if clip.id in told]
    assert again
    for clip in again:
        entry = told[clip.id]
        kind = next(kind for kind in DRAW.KINDS["somethings"] if kind.name == entry["kind"])
        found = DRAW.numbers(DRAW.Example("somethings", kind, clip, tau=False))
        for key in ("truth", "picture", "frames"):
            assert found[key] == entry[key]
        for position, said in entry["answers"].items():
            ours = found["answers"][position]
            assert ours["truth"] == pytest.approx(said["truth"], abs=0.005)
            assert ours["best"][0][0] == said["best"][0][0]
            assert [chance for _, chance in ours["best"]] == pytest.approx([c for _, c in said["best"]], abs=0.005)
        for ours, theirs in zip(found["attention"]["states"], entry["attention"]["states"], strict=True):
            assert ours["weight"] == pytest.approx(theirs["weight"], abs=0.005)
