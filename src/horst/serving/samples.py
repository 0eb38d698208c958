"""A few synthetic clips to try a server with, rendered on first use."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SIZE = 224
CLIPS: tuple[tuple[int, str, tuple[str, ...]], ...] = (
    (978777605385223804, "Lifting [something] up and putting it back", ("red duck",)),
    (4548003753737736511, "Covering [something] with [something]", ("blue ball", "teal hat")),
    (3470332971461700398, "Putting [something] on [something]", ("orange", "blue bucket")),
    (875680040195307238, "Pushing [something] from left to right", ("green bowl",)),
    (2456690045511865467, "Swapping [something] and [something]", ("yellow apple", "pink bucket")),
    (3562899592724689024, "Dropping [something]", ("green ball",)),
)
"""Seed, template and objects, chosen from `somethings.plan(240, 1000)`. The package's model was trained on seed 0, so
they are new to it. Nothing hides the action, and the model predicts it correctly."""


@dataclass(frozen=True, slots=True)
class SampleClip:
    name: str
    label: str
    """The action with the names of the objects."""
    action: str
    """The class that the package's model predicts."""
    seconds: float


class Samples:
    """Clips in a folder, each rendered when it is first requested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()

    @cached_property
    def _known(self) -> dict[str, SampleClip]:
        from horst.data.readers.ssv2 import plain
        from horst.synth import somethings
        from horst.synth.somethings.scene import sample_scene

        found = {}
        for number, (seed, template, objects) in enumerate(CLIPS, 1):
            label = template.replace("[something]", "{}").format(*objects)
            seconds = round(sample_scene(seed).frames / somethings.FPS, 2)
            found[f"sample-{number}"] = SampleClip(f"sample-{number}", label, plain(template), seconds)
        return found

    def list(self) -> list[SampleClip]:
        return list(self._known.values())

    def file(self, name: str) -> Path | None:
        """The mp4 file of a clip; None if there is no clip of this name."""
        from horst.synth import somethings
        from horst.video.encode import write_video

        if name not in self._known:
            return None
        seed, template, objects = CLIPS[[*self._known].index(name)]
        path = self.folder / f"{seed}.mp4"  # not by name, which another version may use for another clip
        with self._lock:
            if not path.exists():
                self.folder.mkdir(parents=True, exist_ok=True)
                spec = somethings.ClipSpec(name, "val", template, objects, self._known[name].label, seed)
                write_video(path, somethings.render(spec, size=SIZE), somethings.FPS)
        return path
