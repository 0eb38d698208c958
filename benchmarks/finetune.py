"""Accuracy on new clips after finetuning, by method and by the number of clips of each of four actions.

    python -m benchmarks.finetune [--clips 3 5 10] [--minutes 1] [--test-clips 25]

"known" actions are four of `somethings`, which the pretrained model was trained to tell apart: easy for a frozen core.
"new" ones are gestures of a hand in the air that it has never seen, as users would record them. Clips differ in room,
hand, light and pace; the test clips have other rooms and hands. Chance is 25%.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from horst.data.clips import Clip
from horst.finetune import FinetuneResult, finetune
from horst.finetune.run import How
from horst.models import open_model
from horst.synth.render.hands import make_hand
from horst.synth.render.raster import FrameBuffer, Sensor
from horst.synth.somethings import FPS, plan, render
from horst.synth.somethings.clips import Background

KNOWN = (
    "Pushing [something] from left to right",
    "Moving [something] up",
    "Covering [something] with [something]",
    "Turning [something] clockwise",
)
Motion = Callable[[float, float], tuple[float, float, float, float]]
"""From the fraction of the gesture and its size to x, y (relative to the hand's position), angle and scale."""
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
    """Clips of the new actions."""
    return {
        name: [_gesture(path, np.random.default_rng([seed, which, i])) for i in range(clips)]
        for which, (name, path) in enumerate(NEW.items())
    }


def _gesture(path: Motion, rng: np.random.Generator, size: int = 112) -> Clip:
    frame = FrameBuffer(size, size)
    background, hand = Background(rng, size, size), make_hand(rng, 1.5 * frame.unit, size=1.3)
    sensor = Sensor(rng, size, size, noise=0.015, vignette=0.2, tint=(1.0, 1.0, 1.0))
    x, y, amount = 0.5 + rng.uniform(-0.15, 0.15), 0.45 + rng.uniform(-0.1, 0.1), float(rng.uniform(0.1, 0.2))
    tilt, gain = float(rng.uniform(-0.3, 0.3)), float(rng.uniform(0.85, 1.12))
    count = int(FPS * rng.uniform(2, 3.5))
    frames = []
    for index in range(count):
        part = index / (count - 1)
        dx, dy, angle, scale = path(part, amount)
        background.draw(frame, part)
        frame.draw(hand.back["open"], x + dx, y + dy, angle=tilt + angle, scale=scale)
        frames.append(sensor.expose(rng, frame.pixels, gain=gain))
    return _clip(np.stack(frames))


def _clip(frames: np.typing.NDArray[np.uint8]) -> Clip:
    return Clip(frames, np.arange(len(frames)) / FPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, nargs="+", default=[3, 5, 10], help="of each action")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--test-clips", type=int, default=25, help="test clips of each action")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--how", nargs="+", default=["frozen", "scratch"], choices=["frozen", "scratch"])
    args = parser.parse_args()
    print("actions  how      clips  after 50%  after 100%  held out  seconds")
    for name, make in (("known", templates), ("new", gestures)):
        pool, test = make(max(args.clips), args.seed), make(args.test_clips, args.seed + 1000)
        for how in args.how:
            for count in args.clips:
                clips = {label: known[:count] for label, known in pool.items()}
                half, end, result = accuracies(clips, test, how, args.minutes)
                held = f"{100 * result.held_out.accuracy:.0f}%" if result.held_out else "-"
                numbers = f"{100 * half:8.0f}%  {100 * end:9.0f}%  {held:>8}  {result.seconds:7.0f}"
                print(f"{name:7}  {how:7}  {count:5d}  {numbers}", flush=True)


def accuracies(
    clips: Mapping[str, list[Clip]], test: Mapping[str, list[Clip]], how: How, minutes: float
) -> tuple[float, float, FinetuneResult]:
    """Accuracy of a finetuned model, as a stream, after half and at the end of the test clips."""
    with tempfile.TemporaryDirectory() as folder:
        result = finetune(clips, Path(folder) / "model", how=how, minutes=minutes)
        model = open_model(result.path)
    half, end = [], []
    for label, known in test.items():
        for clip in known:
            stream = model.stream()
            frames = zip(clip.frames, clip.times, strict=True)
            correct = [p.answer() == label for image, time in frames for p in stream.feed(image, float(time))]
            half.append(correct[(len(correct) - 1) // 2])
            end.append(correct[-1])
    return float(np.mean(half)), float(np.mean(end)), result


if __name__ == "__main__":
    main()
