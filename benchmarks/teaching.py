"""How well a few clips teach: accuracy on fresh clips, by how and by how many clips of each of four actions.

    python -m benchmarks.teaching [--clips 3 5 10] [--minutes 1] [--fresh 25]

"known" actions are four of `somethings`, which the package's model was trained to tell apart from each other: a frozen
core has it easy there. "new" ones are gestures of a hand in the air that it has never seen, which is what people teach.
Clips differ in room, hand, light and pace; fresh ones are of other rooms and hands. Guessing gives 25%.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from horst.data.clips import Clip
from horst.finetune.teach import How, Taught, teach
from horst.models import load
from horst.synth.render.hands import make_hand
from horst.synth.render.raster import FrameBuffer, Sensor
from horst.synth.somethings import FPS, plan, render
from horst.synth.somethings.background import draw_background, make_background

KNOWN = (
    "Pushing [something] from left to right",
    "Moving [something] up",
    "Covering [something] with [something]",
    "Turning [something] clockwise",
)
Motion = Callable[[float, float], tuple[float, float, float, float]]
"""From the part of the gesture that is over and its size to x, y (from the hand's own place), angle and scale."""
NEW: dict[str, Motion] = {
    "waving": lambda t, a: (0.0, 0.0, 2.5 * a * math.sin(6 * math.pi * t), 1.0),
    "circling": lambda t, a: (a * math.sin(4 * math.pi * t), -a * math.cos(4 * math.pi * t), 0.0, 1.0),
    "reaching": lambda t, a: (0.0, 0.5 * a * t, 0.0, 1.0 + 4 * a * t),
    "knocking": lambda t, a: (0.0, a * abs(math.sin(4 * math.pi * t)), 0.0, 1.0),
}


def templates(clips: int, seed: int) -> dict[str, list[Clip]]:
    """Clips of the known actions."""
    made: dict[str, list[Clip]] = {name: [] for name in KNOWN}
    for spec in plan(clips * len(KNOWN), seed, templates=KNOWN):
        made[spec.template].append(_clip(render(spec)))
    return made


def gestures(clips: int, seed: int) -> dict[str, list[Clip]]:
    """Clips of the new ones."""
    return {
        name: [_gesture(path, np.random.default_rng([seed, which, i])) for i in range(clips)]
        for which, (name, path) in enumerate(NEW.items())
    }


def _gesture(path: Motion, rng: np.random.Generator, size: int = 112) -> Clip:
    frame = FrameBuffer(size, size)
    background, hand = make_background(rng, size, size), make_hand(rng, 1.5 * frame.unit, size=1.3)
    sensor = Sensor(rng, size, size, noise=0.015, vignette=0.2, tint=(1.0, 1.0, 1.0))
    x, y, amount = 0.5 + rng.uniform(-0.15, 0.15), 0.45 + rng.uniform(-0.1, 0.1), float(rng.uniform(0.1, 0.2))
    tilt, gain = float(rng.uniform(-0.3, 0.3)), float(rng.uniform(0.85, 1.12))
    count = int(FPS * rng.uniform(2, 3.5))
    frames = []
    for index in range(count):
        part = index / (count - 1)
        dx, dy, angle, scale = path(part, amount)
        draw_background(frame, background, part)
        frame.draw(hand.back["open"], x + dx, y + dy, angle=tilt + angle, scale=scale)
        frames.append(sensor.expose(rng, frame.pixels, gain=gain))
    return _clip(np.stack(frames))


def _clip(frames: np.typing.NDArray[np.uint8]) -> Clip:
    return Clip(frames, np.arange(len(frames)) / FPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, nargs="+", default=[3, 5, 10], help="of each action")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--fresh", type=int, default=25, help="clips of each action that are tried")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--how", nargs="+", default=["frozen", "scratch"], choices=["frozen", "scratch"])
    args = parser.parse_args()
    print("actions  how      clips  after 50%  after 100%  held out  seconds")
    for name, make in (("known", templates), ("new", gestures)):
        pool, fresh = make(max(args.clips), args.seed), make(args.fresh, args.seed + 1000)
        for how in args.how:
            for count in args.clips:
                clips = {label: known[:count] for label, known in pool.items()}
                half, end, taught = tried(clips, fresh, how, args.minutes)
                held = f"{100 * taught.trial.accuracy:.0f}%" if taught.trial else "-"
                shares = f"{100 * half:8.0f}%  {100 * end:9.0f}%  {held:>8}  {taught.seconds:7.0f}"
                print(f"{name:7}  {how:7}  {count:5d}  {shares}", flush=True)


def tried(
    clips: Mapping[str, list[Clip]], fresh: Mapping[str, list[Clip]], how: How, minutes: float
) -> tuple[float, float, Taught]:
    """The share of fresh clips that a taught model, streamed, names rightly after half and after all of them."""
    with tempfile.TemporaryDirectory() as folder:
        taught = teach(clips, Path(folder) / "taught", how=how, minutes=minutes)
        model = load(taught.path)
    half, end = [], []
    for label, known in fresh.items():
        for clip in known:
            stream = model.stream()
            times = zip(clip.frames, clip.times, strict=True)
            said = [p.answer() == label for image, time in times for p in stream.feed(image, float(time))]
            half.append(said[(len(said) - 1) // 2])
            end.append(said[-1])
    return float(np.mean(half)), float(np.mean(end)), taught


if __name__ == "__main__":
    main()
