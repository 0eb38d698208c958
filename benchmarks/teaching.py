"""Accuracy of `horst teach` on real clips of people: how well it classifies clips of other recordings.

    python -m benchmarks.teaching --real FOLDER [--draws 5] [--clips 5 10] [--base motion_pool]

FOLDER has a manifest.csv with the columns path, label and run; clips of one run were recorded together. A draw splits
the runs into two halves at random, takes the clips to learn from one half and 24 test clips of each label from the
other. "within" learns and tests in one of the largest runs. "unknown" leaves one label out of the clips to learn: the
share of its clips that is rejected by the threshold that keeps 90% of the clips of known labels.

Accuracy is that of the stream after half and at the end of a clip; the calibration error (10 bins) is at the end.
"""

import argparse
import csv
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from horst.data.clips import Clip
from horst.evaluation.metrics import calibration_bins
from horst.finetune import finetune
from horst.finetune.run import open_base, read_video
from horst.models import open_model

TEST_CLIPS = 24  # of each label
KEPT = 0.9  # the share of known clips that the threshold for unknown ones keeps
LARGE_RUNS = 3
BINS = 10  # of the calibration error


class RealClip(NamedTuple):
    path: Path
    label: str
    run: str


class Draw(NamedTuple):
    learn: list[RealClip]
    test: list[RealClip]


class Answered(NamedTuple):
    """The answers of a model for test clips."""

    labels: list[str]
    probabilities: list[NDArray[np.float32]]  # of each clip, (T, labels)
    seconds: float  # of teaching
    frames_per_second: float  # of the stream, on one thread

    def correct(self, clips: Sequence[RealClip], *, half: bool) -> list[bool]:
        at = [(len(p) - 1) // 2 if half else -1 for p in self.probabilities]
        best = [self.labels[int(p[t].argmax())] for p, t in zip(self.probabilities, at, strict=True)]
        return [label == clip.label for label, clip in zip(best, clips, strict=True)]

    def confidence(self) -> NDArray[np.float64]:
        """Of the answers at the end."""
        return np.asarray([float(p[-1].max()) for p in self.probabilities])


class Teach(Protocol):
    def __call__(self, learn: Sequence[RealClip], test: Sequence[RealClip]) -> Answered: ...


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, required=True, help="a folder with manifest.csv")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--clips", type=int, nargs="+", default=[5, 10], help="of each label")
    parser.add_argument("--base", default="motion_pool", help="of `horst.finetune.finetune`")
    args = parser.parse_args()
    torch.set_num_threads(2)
    clips, teach = read_manifest(args.real), partial(answer, base=args.base)
    print("setting        clips  half (range)      end (range)        ECE  seconds  frames/s")
    for count in args.clips:
        show("across runs", count, [across_runs(clips, count, seed) for seed in range(args.draws)], teach)
    show("within a run", max(args.clips), within_runs(clips, max(args.clips)), teach)
    labels = sorted({clip.label for clip in clips})
    shares = [100 * unknown_rejected(across_runs(clips, max(args.clips), 0), label, teach) for label in labels]
    print(f"unknown labels rejected: {np.mean(shares):.0f}% ({min(shares):.0f} to {max(shares):.0f})")


def read_manifest(folder: Path) -> list[RealClip]:
    """The clips of a folder; a missing column is a KeyError that names it."""
    with (folder / "manifest.csv").open(newline="", encoding="utf-8") as file:
        return [RealClip(folder / row["path"], row["label"], row["run"]) for row in csv.DictReader(file)]


def across_runs(clips: Sequence[RealClip], count: int, seed: int) -> Draw:
    """Clips to learn and to test from different runs: the first split from this seed with enough of both."""
    runs, labels = sorted({clip.run for clip in clips}), sorted({clip.label for clip in clips})
    for attempt in range(1000):
        rng = np.random.default_rng([seed, attempt])
        learn_runs = set(rng.permutation(runs)[: len(runs) // 2])
        learn = [clip for clip in clips if clip.run in learn_runs]
        test = [clip for clip in clips if clip.run not in learn_runs]
        counts = Counter(clip.label for clip in learn), Counter(clip.label for clip in test)
        if all(counts[0][label] >= max(10, count) and counts[1][label] >= TEST_CLIPS for label in labels):
            return Draw(_some(learn, count, rng), _some(test, TEST_CLIPS, rng))
    raise SystemExit(f"no split of the runs has {count} clips of each label to learn and {TEST_CLIPS} to test")


def within_runs(clips: Sequence[RealClip], count: int) -> list[Draw]:
    """A draw in each of the largest runs."""
    draws = []
    for run, _ in Counter(clip.run for clip in clips).most_common(LARGE_RUNS):
        rng = np.random.default_rng(0)
        of_run = [clip for clip in clips if clip.run == run]
        learn = _some(of_run, count, rng)
        draws.append(Draw(learn, _some([clip for clip in of_run if clip not in learn], TEST_CLIPS, rng)))
    return draws


def unknown_rejected(draw: Draw, label: str, teach: Teach) -> float:
    """The share of clips of a label that was not taught whose confidence is below that of 90% of known clips."""
    confidence = teach([clip for clip in draw.learn if clip.label != label], draw.test).confidence()
    known = np.asarray([clip.label != label for clip in draw.test])
    return float(np.mean(confidence[~known] < np.quantile(confidence[known], 1 - KEPT)))


def show(setting: str, count: int, draws: Sequence[Draw], teach: Teach) -> None:
    answers = [teach(draw.learn, draw.test) for draw in draws]
    columns = []
    for half in (True, False):
        found = [100 * np.mean(a.correct(draw.test, half=half)) for a, draw in zip(answers, draws, strict=True)]
        columns.append(f"{np.mean(found):5.1f} ({min(found):.0f} to {max(found):.0f})")
    last = torch.from_numpy(np.stack([p[-1] for a in answers for p in a.probabilities])).log()
    targets = [a.labels.index(clip.label) for a, draw in zip(answers, draws, strict=True) for clip in draw.test]
    error = 100 * calibration_bins(last, torch.tensor(targets), BINS).error
    slowest, rate = max(a.seconds for a in answers), min(a.frames_per_second for a in answers)
    print(
        f"{setting:14} {count:5d}  {columns[0]:16}  {columns[1]:16}  {error:4.1f}  {slowest:7.0f}  {rate:8.1f}",
        flush=True,
    )


def answer(learn: Sequence[RealClip], test: Sequence[RealClip], *, base: str) -> Answered:
    """The answers of a model that was finetuned on `learn`."""
    size = open_base(base).size
    sources: dict[str, list[Callable[[], Clip]]] = {}
    for clip in learn:
        sources.setdefault(clip.label, []).append(partial(read_video, clip.path, size))
    with tempfile.TemporaryDirectory() as folder:
        result = finetune(sources, Path(folder) / "model", base=base)
        model = open_model(result.path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    probabilities, seconds = [], 0.0
    for one in test:
        read, stream, found = read_video(one.path, size), model.stream(), []
        started = time.perf_counter()
        for image, when in zip(read.frames, read.times, strict=True):
            found += [prediction.probabilities["action"] for prediction in stream.feed(image, float(when))]
        seconds += time.perf_counter() - started
        probabilities.append(np.stack(found))
    torch.set_num_threads(threads)
    rate = sum(map(len, probabilities)) / seconds
    return Answered(result.labels, probabilities, result.seconds, rate)


def _some(clips: Sequence[RealClip], count: int, rng: np.random.Generator) -> list[RealClip]:
    """Up to `count` clips of each label."""
    chosen = []
    for label in sorted({clip.label for clip in clips}):
        of_label = [clip for clip in clips if clip.label == label]
        chosen += [of_label[i] for i in rng.permutation(len(of_label))[:count]]
    return chosen


if __name__ == "__main__":
    main()
