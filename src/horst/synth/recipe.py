"""Which folder holds which made data: it belongs to one recipe, and one process at a time makes what is missing in it.

Everything in it is written whole and then renamed, so nothing breaks where there are no locks (on Windows, on odd
network disks): work is then done twice at worst.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from horst.config import check_positive
from horst.data.packed import is_complete
from horst.errors import ConfigError, DataError
from horst.io import LOCK, lock, read_json, write_text

MADE = "made.json"
CONFIG = "data.yaml"
"""Written last: where it is, all was made."""
DRAWING = {"somethings": 2, "kitchen": 1}
"""Raised whenever a generator comes to draw other clips."""
SMALLEST = {"somethings": 16, "kitchen": 32}
"""Pixels each way, below which nothing can be seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What was asked for."""

    generator: str
    count: int
    seed: int
    size: Sequence[int]
    """Height and width."""
    packed: bool
    templates: int = 0
    """Of somethings: only the first ones, which are the simplest. 0: all."""
    drawing: int = 0
    """Of the generator: another one draws other clips for the same seed. 0: the present one."""

    def __post_init__(self) -> None:
        check_positive(count=self.count)
        object.__setattr__(self, "drawing", self.drawing or DRAWING[self.generator])
        if type(self.templates) is not int or self.templates < 0 or self.templates == 1:
            raise ConfigError(f"templates is {self.templates!r}; it takes a number from 2 on, or 0 for all")
        if type(self.seed) is not int or self.seed < 0:
            raise ConfigError(f"seed is {self.seed!r}; it takes a whole number from 0 on")
        least = SMALLEST[self.generator]
        sides = self.size if isinstance(self.size, Sequence) else ()
        if len(sides) != 2 or not all(type(v) is int and v >= least for v in sides):
            raise ConfigError(f"size is {self.size!r}; height and width are whole numbers from {least} on")
        object.__setattr__(self, "size", tuple(sides))


@contextmanager
def hold(folder: Path, recipe: Recipe) -> Iterator[bool]:
    """Take a folder for a recipe, or go on with it; whether something is missing in it.

    While something is, other processes wait here, those of a distributed run for instance. The lock ends with the
    process, however that ends. Another recipe's folder is left alone, and a complete one is not written to.
    """
    if _complete(folder, recipe):
        yield False
        return
    try:
        held = lock(folder)
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error}; choose another folder") from error
    with held:
        if _complete(folder, recipe):  # by the one who held it before
            yield False
            return
        if not (folder / MADE).exists():
            write_text(folder / MADE, json.dumps(asdict(recipe), indent=1) + "\n")
        yield True


def _complete(folder: Path, recipe: Recipe) -> bool:
    """Whether all is there, by names alone: to plan the clips again would take seconds. DataError where others are."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file: choose another folder")
    # Listed first: whatever stands beside MADE was written after it.
    there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if not (folder / MADE).exists():
        if any(name != LOCK and not name.endswith(".partial") for name in there):
            raise DataError(f"{folder} is not empty: choose another folder")
        return False
    made, asked = read_json(folder / MADE), json.loads(json.dumps(asdict(recipe)))
    if made != asked:
        raise DataError(f"{folder} holds {made}, not {asked}: choose another folder, or delete it")
    if CONFIG not in there:
        return False
    if recipe.packed:
        return is_complete(folder / "packed")
    videos = folder / "videos"
    return videos.is_dir() and sum(not path.name.startswith(".") for path in videos.iterdir()) == recipe.count
