"""Accuracy of `horst teach` on real clips of people: how well it classifies clips of other recordings.

    python -m benchmarks.teaching --real FOLDER [--draws 5] [--clips 5 10] [--base motion_pool]

FOLDER has a manifest.csv with the columns path, label and run; clips of one run were recorded together. A draw splits
the runs into two halves at random, takes the clips to learn from one half and 24 test clips of each label from the
other. "within" learns and tests in one of the largest runs. "unknown" leaves one label out of the clips to learn: the
share of its clips that is rejected by the threshold that keeps 90% of the clips of known labels, and the shares of
known, unknown and still clips (the first image of a clip, held) that the model answers with "nothing".

Accuracy is that of the answers after half and at the end of a clip, where "nothing" is wrong; the calibration error (10
bins) is at the end. The base is frozen, so its features of a test clip are computed once for all models.
"""

import argparse
import csv
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from horst.data.clips import Clip
from horst.evaluation.metrics import calibration_bins
from horst.export.engine import fast_backbone
from horst.finetune import finetune
from horst.finetune.frozen import resample_clip
from horst.finetune.run import open_base, read_video
from horst.models import Predictor, open_model

TEST_CLIPS = 24  # of each label
KEPT = 0.9  # the share of known clips that the threshold for unknown ones keeps
LARGE_RUNS = 3
BINS = 10  # of the calibration error
STREAMED = 12  # one of so many test clips is streamed, to measure the frame rate


class RealClip(NamedTuple):
    path: Path
    label: str
    run: str


class Draw(NamedTuple):
    learn: list[RealClip]
    test: list[RealClip]


class Answered(NamedTuple):
    """The answers of a model for test clips."""

    labels: list[str]  # the last one is "nothing"
    probabilities: list[NDArray[np.float32]]  # of each clip, (T, labels)
    still: list[NDArray[np.float32]]  # of the first image of each clip, held
    seconds: float  # of teaching
    frames_per_second: float  # of the stream, on one thread

    def correct(self, clips: Sequence[RealClip], *, half: bool) -> list[bool]:
        at = [(len(p) - 1) // 2 if half else -1 for p in self.probabilities]
        best = [self.labels[int(p[t].argmax())] for p, t in zip(self.probabilities, at, strict=True)]
        return [label == clip.label for label, clip in zip(best, clips, strict=True)]

    def known(self) -> NDArray[np.float64]:
        """How much likelier than "nothing" the best action is at the end of each clip, as a logarithm."""
        last = np.log(np.stack([p[-1] for p in self.probabilities]).clip(1e-30))
        return last[:, :-1].max(1) - last[:, -1]

    def nothing(self) -> NDArray[np.bool_]:
        """Whether "nothing" is the answer at the end of each clip."""
        return np.asarray([p[-1].argmax() == p.shape[1] - 1 for p in self.probabilities])


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
    shares = np.stack([unknown(across_runs(clips, max(args.clips), 0), label, teach) for label in labels])
    low, high = shares[:, 0].min(), shares[:, 0].max()
    print(f"unknown labels rejected, with 90% of the known kept: {shares[:, 0].mean():.0f}% ({low:.0f} to {high:.0f})")
    known, strange, still = shares[:, 1:].mean(0)
    print(
        f'answered "nothing": {known:.0f}% of known clips, {strange:.0f}% of unknown ones, {still:.0f}% of still ones'
    )


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


def unknown(draw: Draw, label: str, teach: Teach) -> NDArray[np.float64]:
    """With a label that was not taught, per cent: its clips rejected if 90% of the known ones are kept; and the known
    clips, its clips and still ones that are answered with "nothing"."""
    answers = teach([clip for clip in draw.learn if clip.label != label], draw.test)
    is_known, score, nothing = (
        np.asarray([clip.label != label for clip in draw.test]),
        answers.known(),
        answers.nothing(),
    )
    rejected = score[~is_known] < np.quantile(score[is_known], 1 - KEPT)
    still = [p[-1].argmax() == p.shape[1] - 1 for p in answers.still]
    return 100 * np.asarray([np.mean(part) for part in (rejected, nothing[is_known], nothing[~is_known], still)])


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


@cache
def frozen(base: str) -> tuple[Predictor, Callable[[Tensor], Tensor]]:
    """The base, and its backbone as teaching runs it."""
    model = open_base(base).eval()
    return model, fast_backbone(model)


@cache
def features(path: Path, base: str) -> tuple[Tensor, Tensor]:
    """y (T, C) of a clip, and of its first image, held, by the frozen base."""
    model, backbone = frozen(base)
    clip = read_video(path, model.size)
    frames = resample_clip(clip.frames, clip.times, model.fps, model.size)
    with torch.inference_mode():
        maps = torch.cat([backbone(frame) for frame in frames.split(1)])
        found = [model.core(given.unsqueeze(0))[0].y[0] for given in (maps, maps[:1].expand_as(maps))]
    return found[0].clone(), found[1].clone()


def answer(learn: Sequence[RealClip], test: Sequence[RealClip], *, base: str) -> Answered:
    """The answers of a model that was finetuned on `learn`."""
    size = open_base(base).size
    sources: dict[str, list[Callable[[], Clip]]] = {}
    for clip in learn:
        sources.setdefault(clip.label, []).append(partial(read_video, clip.path, size))
    with tempfile.TemporaryDirectory() as folder:
        result = finetune(sources, Path(folder) / "model", base=base)
        model = open_model(result.path)
    found: tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]] = ([], [])
    for one in test:
        for given, probabilities in zip(features(one.path, base), found, strict=True):
            with torch.inference_mode():
                probabilities.append(model.head(y=given).action.softmax(-1).numpy())
    assert model.labels is not None
    rate = frames_per_second(model, test[: len(test) // STREAMED])
    return Answered(model.labels["action"], *found, result.seconds, rate)


def frames_per_second(model: Predictor, clips: Sequence[RealClip]) -> float:
    """Of the stream on one thread."""
    threads, frames, seconds = torch.get_num_threads(), 0, 0.0
    torch.set_num_threads(1)
    for one in clips:
        read, stream = read_video(one.path, model.size), model.stream()
        started = time.perf_counter()
        for image, when in zip(read.frames, read.times, strict=True):
            frames += len(list(stream.feed(image, float(when))))
        seconds += time.perf_counter() - started
    torch.set_num_threads(threads)
    return frames / seconds


def _some(clips: Sequence[RealClip], count: int, rng: np.random.Generator) -> list[RealClip]:
    """Up to `count` clips of each label."""
    chosen = []
    for label in sorted({clip.label for clip in clips}):
        of_label = [clip for clip in clips if clip.label == label]
        chosen += [of_label[i] for i in rng.permutation(len(of_label))[:count]]
    return chosen


if __name__ == "__main__":
    main()
