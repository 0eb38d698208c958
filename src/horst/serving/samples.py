"""A few clips to try a server with, drawn on first use."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
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
"""Seed, template and objects. They were chosen from `somethings.plan(240, 1000)`, which is new to the package's model
(it learnt from seed 0): nothing comes before the camera, what is done can be seen, and the model names it rightly."""


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    label: str
    """What is done, with the names of the objects."""
    action: str
    """The name of its class, as the package's model gives it."""
    seconds: float

    def to_dict(self) -> dict[str, str | float]:
        return asdict(self)


class Samples:
    """Clips of hands and things in a folder, each made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()

    @cached_property
    def _known(self) -> dict[str, Sample]:
        from horst.data.readers.ssv2 import plain
        from horst.synth import somethings
        from horst.synth.somethings.scene import sample_scene

        found = {}
        for number, (seed, template, objects) in enumerate(CLIPS, 1):
            label = template.replace("[something]", "{}").format(*objects)
            seconds = round(sample_scene(seed).frames / somethings.FPS, 2)
            found[f"sample-{number}"] = Sample(f"sample-{number}", label, plain(template), seconds)
        return found

    def list(self) -> list[Sample]:
        return list(self._known.values())

    def file(self, name: str) -> Path | None:
        """The mp4 of one by its name; None where there is none of that name."""
        from horst.synth import somethings
        from horst.video.encode import write_video

        if name not in self._known:
            return None
        seed, template, objects = CLIPS[[*self._known].index(name)]
        path = self.folder / f"{seed}.mp4"  # not by its name, which another version may have for another clip
        with self._lock:
            if not path.exists():
                self.folder.mkdir(parents=True, exist_ok=True)
                spec = somethings.ClipSpec(name, "val", template, objects, self._known[name].label, seed)
                write_video(path, somethings.render(spec, size=SIZE), somethings.FPS)
        return path
