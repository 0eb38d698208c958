"""A few synthetic clips to try a server with, rendered on first use."""

import threading
from dataclasses import dataclass
from pathlib import Path

SIZE = 224
CLIPS: tuple[tuple[int, str, tuple[str, ...], float], ...] = (
    (978777605385223804, "Lifting [something] up and putting it back", ("red duck",), 2.5),
    (4548003753737736511, "Covering [something] with [something]", ("blue ball", "teal hat"), 3.25),
    (3470332971461700398, "Putting [something] on [something]", ("orange", "blue bucket"), 2.42),
    (875680040195307238, "Pushing [something] from left to right", ("green bowl",), 2.92),
    (2456690045511865467, "Swapping [something] and [something]", ("yellow apple", "pink bucket"), 3.0),
    (3562899592724689024, "Dropping [something]", ("green ball",), 3.17),
)
"""Seed, template, objects and seconds, chosen from `somethings.plan(240, 1000)`. The package's model was trained on
seed 0, so they are new to it. Nothing hides the action, and the model predicts it correctly."""


@dataclass(frozen=True, slots=True)
class SampleClip:
    name: str
    label: str  # the action with the names of the objects
    action: str  # the class that the package's model predicts
    seconds: float


class Samples:
    """Clips in a folder, each rendered when it is first requested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()

    def list(self) -> list[SampleClip]:
        return [
            SampleClip(f"sample-{i}", _fill(template, objects), template.replace("[something]", "something"), seconds)
            for i, (_, template, objects, seconds) in enumerate(CLIPS, 1)
        ]

    def file(self, name: str) -> Path | None:
        """The mp4 file of a clip; None if there is no clip of this name."""
        from horst.synth import somethings
        from horst.video.encode import write_video

        names = [sample.name for sample in self.list()]
        if name not in names:
            return None
        seed, template, objects, _ = CLIPS[names.index(name)]
        path = self.folder / f"{seed}.mp4"  # not by name, which another version may use for another clip
        with self._lock:
            if not path.exists():
                self.folder.mkdir(parents=True, exist_ok=True)
                spec = somethings.ClipSpec(name, "val", template, objects, _fill(template, objects), seed)
                write_video(path, somethings.render(spec, size=SIZE), somethings.FPS)
        return path


def _fill(template: str, objects: tuple[str, ...]) -> str:
    return template.replace("[something]", "{}").format(*objects)
