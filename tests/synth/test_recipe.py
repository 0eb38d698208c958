"""What may be asked of made data, and which folder may hold it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from horst.errors import ConfigError, DataError
from horst.synth.recipe import CONFIG, DRAWING, MADE, SMALLEST, Recipe, hold


def recipe(**changes: Any) -> Recipe:
    given = {"generator": "somethings", "count": 2, "seed": 0, "size": [16, 20], "packed": False}
    return Recipe(**{**given, **changes})


@pytest.mark.parametrize("generator", ["somethings", "kitchen"])
def test_the_least_that_may_be_asked_for(generator: str) -> None:
    least = SMALLEST[generator]
    made = recipe(generator=generator, count=1, size=[least, least])
    assert made.size == (least, least)
    assert made.drawing == DRAWING[generator] > 0
    assert recipe(drawing=1).drawing == 1
    for size in ([least - 1, least], [least, least - 1], [least], [least] * 3, least, [least, float(least)]):
        with pytest.raises(ConfigError, match=f"whole numbers from {least} on"):
            recipe(generator=generator, size=size)


@pytest.mark.parametrize(("name", "good", "bad"), [("templates", [0, 2, 3], [-1, 1, 2.0]), ("seed", [0, 1], [-1, 0.5])])
def test_numbers_that_are_taken(name: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(recipe(**{name: value}), name) == value
    for value in bad:
        with pytest.raises(ConfigError, match=f"{name} is {value!r}"):
            recipe(**{name: value})


def fill(folder: Path, videos: int) -> None:
    (folder / "videos").mkdir(exist_ok=True)
    for i in range(videos):
        (folder / "videos" / f"{i}.webm").touch()
    (folder / CONFIG).touch()


def test_a_folder_is_complete_when_all_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    with hold(folder, recipe()) as missing:
        assert missing
        assert json.loads((folder / MADE).read_text())["count"] == 2
    for videos, complete in ((1, False), (2, True)):
        fill(folder, videos)
        (folder / "videos" / ".hidden.partial").touch()
        with hold(folder, recipe()) as missing:
            assert missing != complete
    (folder / "videos" / "2.webm").touch()  # more than were asked for is another data set
    with hold(folder, recipe()) as missing:
        assert missing
    (folder / "videos" / "2.webm").unlink()
    (folder / CONFIG).unlink()
    with hold(folder, recipe()) as missing:
        assert missing


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    for name, why in (("file", "is a file"), ("full", "is not empty")):
        with pytest.raises(DataError, match=why), hold(tmp_path / name, recipe()):
            pass
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]
    with hold(tmp_path / "mine", recipe()):
        pass
    with pytest.raises(DataError, match=r"holds .*, not "), hold(tmp_path / "mine", recipe(seed=1)):
        pass
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "x.partial").touch()  # what an ended process left is no obstacle
    with hold(tmp_path / "begun", recipe()) as missing:
        assert missing
