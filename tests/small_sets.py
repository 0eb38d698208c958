"""Small data sets for tests of batches: a folder of real clips, and annotations without any files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import videos

from horst.data.clips import Clip, ClipConfig
from horst.data.config import DataConfig
from horst.data.example import Annotations, Example
from horst.data.source import Source

TRAIN = {"wave/a.mp4": 7, "wave/b.webm": 12, "stop/c.mp4": 20, "stop/d.webm": 5, "wave/e.mp4": 13, "stop/f.mp4": 9}
"""Frames, of 12 a second."""


def write(root: Path) -> Path:
    """A folder of six training clips, and four for validation of which two are bad."""
    for name, frames in (
        {f"train/{k}": v for k, v in TRAIN.items()} | {"val/wave/g.mp4": 6, "val/stop/h.webm": 8}
    ).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        videos.clip(root / name, frames=frames)
    (root / "val/stop/empty.mp4").touch()
    (root / "val/wave/text.mp4").write_text("no video")
    return root


def config(root: Path, **clip: Any) -> DataConfig:
    return DataConfig(source="folder", options={"root": str(root)}, clip=ClipConfig(size=(24, 32), **clip))


def pair(mirror: tuple[int, ...], **options: Any) -> Annotations:
    """Clips of "to the left" 0, "to the right" 1, "turn clockwise" 2, and one without a label."""
    labels: list[dict[str, int]] = [{"action": i % 3} for i in range(60)]
    if options:
        labels = [{**known, "verb": known["action"], "noun": 0} for known in labels]
    labels.append({})
    examples = [Example(id=str(i), split="train", media=Path("x"), labels=known) for i, known in enumerate(labels)]
    classes = {"action": ("left", "right", "turn")} | dict.fromkeys(options and ("verb", "noun"), ("a", "b", "c"))
    parts = options.get("action_parts", ())
    return Annotations(
        name="p", task="recognition", examples=tuple(examples), classes=classes, mirror=mirror, action_parts=parts
    )


class FunctionSource(Source):
    """A source that reads clips with a function."""

    def __init__(self, annotations: Annotations, function: Callable[[Example, ClipConfig], Clip]) -> None:
        super().__init__(annotations)
        self.function = function

    def read(self, example: Example, config: ClipConfig) -> Clip:
        return self.function(example, config)
