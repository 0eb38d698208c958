"""Which policy of restarts suits a camera that does not tell when an action begins: long streams of actions in a row.

    python -m benchmarks.restarts [--clips 48]

The package's model watches fresh clips of `somethings` as one stream, cut together. "Told" starts afresh with every
clip, which no camera does: what a policy can reach at most. Accuracy is that of the answer after half and after all of
an action, and over all moments; sure is the share of moments whose probability is at least 50%, and their accuracy.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass

import numpy as np

from horst.evaluation.evaluate import shown
from horst.models import Predictor, load_pretrained
from horst.streaming import Every, Never, OnMotion, Restarts
from horst.synth.fresh import Fresh, fresh_somethings
from horst.video.frame import Image

SURE = 0.5


@dataclass
class Told:
    """Knows when a clip begins."""

    begins: set[int]
    places: int = 1
    _tick: int = -1

    def before(self, image: Image, time: float, *, fresh: bool) -> list[int]:
        self._tick += 1
        return [0] if self._tick in self.begins else []

    def choose(self, probabilities: object) -> int:
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=48)
    parser.add_argument("--seed", type=int, default=2000)
    args = parser.parse_args()
    model = load_pretrained("somethings")
    with tempfile.TemporaryDirectory() as folder:
        frames, labels, parts = long_stream(model, fresh_somethings(folder, args.clips, args.seed))
    begins = {i for i, part in enumerate(parts) if i == 0 or parts[i - 1] > part}
    policies: dict[str, Restarts] = {"told": Told(begins), "never": Never()}
    policies |= {
        f"every {s:g} s, {of} states": Every(s, of) for s, of in ((2, 1), (3, 1), (2, 2), (3, 2), (3, 3), (4, 4))
    }
    policies |= {f"on motion, level {level:g}": OnMotion(level=level) for level in (1, 2, 4)}
    heads = ("after 50%", "after 100%", "all", "sure", "right where sure")
    print("policy".ljust(22), *(head.rjust(len(head) + 2) for head in heads))
    for name, policy in policies.items():
        shares = judged(model, frames, labels, parts, policy)
        cells = (f"{100 * share:.1f}%".rjust(len(head) + 2) for share, head in zip(shares, heads, strict=True))
        print(name.ljust(22), *cells, flush=True)


def long_stream(model: Predictor, fresh: Fresh) -> tuple[list[Image], list[int], list[float]]:
    """Frames at the model's rate, the label of each, and which part of its action has been seen with it."""
    frames, labels, parts = [], [], []
    for example in fresh.annotations.split("val").examples:
        clip = fresh.clip(example, shown(fresh, model))
        frames += list(clip.frames)
        labels += [example.labels["action"]] * len(clip.frames)
        parts += [(i + 1) / len(clip.frames) for i in range(len(clip.frames))]
    return frames, labels, parts


def judged(
    model: Predictor, frames: list[Image], labels: list[int], parts: list[float], policy: Restarts
) -> tuple[float, float, float, float, float]:
    stream = model.stream(restarts=policy)
    said = [p for i, frame in enumerate(frames) for p in stream.feed(frame, i / model.fps)]
    chances = np.stack([p.probabilities["action"] for p in said])
    right = chances.argmax(1) == np.asarray(labels)
    sure = chances.max(1) >= SURE
    seen = np.asarray(parts)
    half = np.zeros_like(right)
    half[[i for i in range(len(seen)) if seen[i] >= 0.5 and (i == 0 or seen[i - 1] < 0.5 or seen[i - 1] > seen[i])]] = (
        True
    )
    shares = right[half].mean(), right[seen == 1].mean(), right.mean(), sure.mean(), right[sure].mean()
    return tuple(float(share) for share in shares)  # type: ignore[return-value]


if __name__ == "__main__":
    main()
