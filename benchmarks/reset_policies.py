"""Compares reset policies on long streams of actions, where nobody tells when an action starts, as with a camera.

    python -m benchmarks.reset_policies [--clips 48]

The package's model watches new clips of `somethings`, joined to one stream. "Known starts" resets with every clip: an
upper bound, as no camera knows the starts. The columns are the accuracy of the answer after half and after all of an
action and over all frames, the share of frames with a probability of at least 50%, and the accuracy on those.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass

import numpy as np

from horst.evaluation.evaluate import clip_for
from horst.models import Predictor, open_model
from horst.streaming import MotionReset, NeverReset, PeriodicReset, ResetPolicy
from horst.synth.fresh import Fresh, fresh_somethings
from horst.video.frame import Image

CONFIDENT = 0.5


@dataclass
class KnownStarts:
    """Resets at the first frame of every clip."""

    starts: set[int]
    states: int = 1
    _frame: int = -1

    def resets(self, image: Image, time: float, *, first: bool) -> list[int]:
        self._frame += 1
        return [0] if self._frame in self.starts else []

    def choose(self, probabilities: object) -> int:
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=48)
    parser.add_argument("--seed", type=int, default=2000)
    args = parser.parse_args()
    model = open_model("somethings")
    with tempfile.TemporaryDirectory() as folder:
        frames, labels, fractions = long_stream(model, fresh_somethings(folder, args.clips, args.seed))
    starts = {i for i, fraction in enumerate(fractions) if i == 0 or fractions[i - 1] > fraction}
    policies: dict[str, ResetPolicy] = {"known starts": KnownStarts(starts), "never": NeverReset()}
    periods = ((2, 1), (3, 1), (2, 2), (3, 2), (3, 3), (4, 4))
    policies |= {f"every {s:g} s, {states} states": PeriodicReset(s, states) for s, states in periods}
    policies |= {f"on motion, level {level:g}": MotionReset(level=level) for level in (1, 2, 4)}
    heads = ("after 50%", "after 100%", "all", "confident", "correct if confident")
    print("policy".ljust(22), *(head.rjust(len(head) + 2) for head in heads))
    for name, policy in policies.items():
        results = evaluate_policy(model, frames, labels, fractions, policy)
        cells = (f"{100 * result:.1f}%".rjust(len(head) + 2) for result, head in zip(results, heads, strict=True))
        print(name.ljust(22), *cells, flush=True)


def long_stream(model: Predictor, fresh: Fresh) -> tuple[list[Image], list[int], list[float]]:
    """Frames at the model's rate, the label of each, and the observed fraction of its action."""
    frames, labels, fractions = [], [], []
    for example in fresh.annotations.split("val").examples:
        clip = fresh.clip(example, clip_for(fresh, model))
        frames += list(clip.frames)
        labels += [example.labels["action"]] * len(clip.frames)
        fractions += [(i + 1) / len(clip.frames) for i in range(len(clip.frames))]
    return frames, labels, fractions


def evaluate_policy(
    model: Predictor, frames: list[Image], labels: list[int], fractions: list[float], policy: ResetPolicy
) -> tuple[float, float, float, float, float]:
    stream = model.stream(reset=policy)
    predictions = [p for i, frame in enumerate(frames) for p in stream.feed(frame, i / model.fps)]
    probabilities = np.stack([p.probabilities["action"] for p in predictions])
    correct = probabilities.argmax(1) == np.asarray(labels)
    confident = probabilities.max(1) >= CONFIDENT
    seen = np.asarray(fractions)
    previous = np.concatenate([[np.inf], seen[:-1]])
    half = (seen >= 0.5) & ((previous < 0.5) | (previous > seen))  # the first frame of each clip from half of it on
    results = correct[half], correct[seen == 1], correct, confident, correct[confident]
    return tuple(float(result.mean()) for result in results)  # type: ignore[return-value]


if __name__ == "__main__":
    main()
