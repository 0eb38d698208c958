"""Batches of clips of similar length, so that little of a batch is padding: arithmetic on indices, nothing is decoded.

A global batch is made first and then dealt out to the replicas: R replicas with batches of B see in each step what one
with batches of R * B sees. All is a function of (seed, epoch), so a run can start again at any batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from horst.config import check_positive
from horst.data.batches import Pick
from horst.data.clips import ClipConfig, wanted_times
from horst.data.config import Source
from horst.data.example import Example, Split
from horst.data.features import Features
from horst.data.packed import Packed
from horst.data.readers.pictures import is_pictures, open_pictures
from horst.errors import ConfigError, InputError, VideoError
from horst.video.sampling import observed_frames

WIDTH = 1.1
"""The longest clip of a bucket by its shortest: wide enough to mix clips, narrow enough to pad little."""

QUIET = 1.0
"""Seconds of work that nobody needs to be told of."""

Result = TypeVar("Result")
Lengths = NDArray[np.int64]


class BucketSampler(Sampler[list[Pick]]):
    """Batches for training.

    Clips are sorted by length, shuffled among those of nearly the same one, cut into batches, and the batches shuffled.
    Every replica gets the same number of batches of the same size: where the last batch of the sorted clips does not
    divide, it repeats up to `replicas` - 1 of its clips. With `drop_last` that batch is left out, each epoch with other
    clips (without `shuffle` with the longest).

    With `prefix` (low, high) each clip observes a fraction of its own, drawn anew each epoch: it is sorted by what is
    left of it, and picks are (index, fraction).
    """

    def __init__(
        self,
        lengths: Sequence[int] | Lengths,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        replicas: int = 1,
        rank: int = 0,
        drop_last: bool = False,
        prefix: tuple[float, float] | None = None,
    ) -> None:
        self.lengths = _check(lengths, batch_size, replicas, rank)
        check_prefix(prefix)
        self.batch_size, self.shuffle, self.seed = batch_size, shuffle, seed
        self.replicas, self.rank, self.drop_last, self.prefix = replicas, rank, drop_last, prefix
        self.epoch, self.start_batch = 0, 0
        if not len(self):
            raise InputError(
                f"{len(self.lengths)} clips do not fill a batch of {batch_size} on {replicas} replicas, and what does "
                "not is dropped: make batches smaller, or keep the last"
            )

    @property
    def sampler(self) -> BucketSampler:
        """Itself: Lightning looks here for something to tell the epoch."""
        return self

    def set_epoch(self, epoch: int, start_batch: int | None = None) -> None:
        """Go to an epoch, to its first batch or `start_batch`. To name the epoch again leaves the start as it is."""
        if epoch != self.epoch or start_batch is not None:
            self.epoch, self.start_batch = epoch, start_batch or 0

    def __len__(self) -> int:
        """Batches of a whole epoch, also where it starts at a later one."""
        size = self.batch_size * self.replicas
        return len(self.lengths) // size if self.drop_last else -(-len(self.lengths) // size)

    def __iter__(self) -> Iterator[list[Pick]]:
        fractions = self.fractions()
        for batch in self.batches()[self.start_batch :]:
            yield [i if fractions is None else (i, float(fractions[i])) for i in batch]

    def fractions(self) -> NDArray[np.float64] | None:
        """What each clip observes in this epoch, where that is drawn."""
        if self.prefix is None:
            return None
        return np.random.default_rng((self.seed, self.epoch, 1)).uniform(*self.prefix, len(self.lengths))

    def batches(self) -> list[list[int]]:
        """All batches of this replica in this epoch."""
        rng = np.random.default_rng((self.seed, self.epoch))
        size = self.batch_size * self.replicas
        fractions = self.fractions()
        lengths = self.lengths if fractions is None else observed_lengths(self.lengths, fractions)
        order = np.concatenate([rng.permutation(b) if self.shuffle else b for b in buckets(lengths)])
        spare = len(order) % size if self.drop_last else 0
        if spare and self.shuffle:
            order = np.delete(order, rng.choice(len(order), spare, replace=False))
        made = [order[i : i + size] for i in range(0, len(order), size)][: len(self)]
        if self.shuffle:
            made = [made[i] for i in rng.permutation(len(made))]
        return [_share(batch, self.replicas, self.rank) for batch in made]


class EvaluationSampler(Sampler[list[int]]):
    """Batches for evaluation, the longest clips first: over all replicas every clip exactly once.

    So one replica may have a batch more than another: what is summed over replicas is summed at the end.
    """

    def __init__(self, lengths: Sequence[int] | Lengths, batch_size: int, *, replicas: int = 1, rank: int = 0) -> None:
        self.lengths = _check(lengths, batch_size, replicas, rank)
        self.batch_size, self.replicas, self.rank = batch_size, replicas, rank

    def __len__(self) -> int:
        batches = -(-len(self.lengths) // self.batch_size)
        return len(range(self.rank, batches, self.replicas))

    def __iter__(self) -> Iterator[list[int]]:
        order = np.argsort(-self.lengths, kind="stable").tolist()
        size = self.batch_size
        for start in range(self.rank * size, len(order), self.replicas * size):
            yield order[start : start + size]


def buckets(lengths: Lengths) -> list[NDArray[np.int64]]:
    """Indices by length, cut where the length exceeds WIDTH times the shortest of its bucket."""
    order = np.argsort(lengths, kind="stable")
    values = lengths[order]
    cuts = [0]
    while (cut := int(np.searchsorted(values, WIDTH * values[cuts[-1]], side="right"))) < len(values):
        cuts.append(cut)
    return np.split(order, cuts[1:])


def padding_share(batches: Iterable[Sequence[int]], lengths: Sequence[int] | Lengths) -> float:
    """The fraction of all frames in these batches that is padding."""
    known = np.asarray(lengths, np.int64)
    drawn = [known[list(batch)] for batch in batches if len(batch)]
    padded = sum(len(batch) * int(batch.max()) for batch in drawn)
    return 1 - sum(int(batch.sum()) for batch in drawn) / padded if padded else 0.0


def observed_lengths(lengths: Lengths, fractions: NDArray[np.float64]) -> Lengths:
    """`observed_frames` of many clips, each with a fraction of its own."""
    return np.maximum(1, np.ceil(np.round(fractions * lengths, 6))).astype(np.int64)


def clip_lengths(source: Source, split: Split, config: ClipConfig) -> Lengths:
    """Frames of each clip of a split, from annotations, the indices of packed data and features, and headers of videos.

    A clip that does not open has length 1, where it does no harm; one whose file does not tell takes the median.
    """
    examples = source.annotations.split(split).examples
    if source.annotations.task == "anticipation":
        return np.full(len(examples), config.steps, np.int64)
    known = _frames(source, examples, config)
    usual = int(np.median([n for n in known if n is not None] or [1]))
    return np.asarray([usual if n is None else n for n in known], np.int64)


def check_prefix(prefix: tuple[float, float] | None) -> None:
    if prefix is not None and not (len(prefix) == 2 and 0 < prefix[0] <= prefix[1] <= 1):
        raise ConfigError(f"prefix is {prefix}; it takes the lowest and the highest fraction, above 0 and up to 1")


def _frames(source: Source, examples: Sequence[Example], config: ClipConfig) -> list[int | None]:
    """Frames of each clip; None where nothing tells."""
    reader = getattr(source.read, "__self__", None)
    if isinstance(reader, Features):
        return [_stored(reader, example, config) for example in examples]
    ends = _packed_ends(reader, examples) if isinstance(reader, Packed) else _ends(examples)
    return [
        None if end is None else len(wanted_times(example.start, max(end, example.start), config))
        for example, end in zip(examples, ends, strict=True)
    ]


def _stored(features: Features, example: Example, config: ClipConfig) -> int:
    found = features.store.video(example.video).clips.get((example.start, example.end))
    every = max(1, round(features.fps / config.fps))
    return 1 if found is None else observed_frames(-(-len(found[0]) // every), config.observe)


def _packed_ends(packed: Packed, examples: Sequence[Example]) -> list[float | None]:
    return [example.end if example.end is not None else _packed_end(packed, example) for example in examples]


def _packed_end(packed: Packed, example: Example) -> float:
    try:
        return float(packed.times(example)[-1]) + 1 / packed.fps
    except VideoError:
        return 0.0


def _ends(examples: Sequence[Example]) -> list[float | None]:
    """Seconds at which each clip ends; None where nothing tells. A clip that does not open ends at once."""
    unsaid = list({example.media: example for example in examples if example.end is None}.values())
    # FFmpeg opens files without Python's lock, and a disk far away answers many at once.
    with ThreadPoolExecutor(8) as pool:
        found = _shown("looking up the lengths of clips", pool.map(_duration, unsaid), len(unsaid))
        durations = dict(zip([example.media for example in unsaid], found, strict=True))
    return [e.end if e.end is not None else durations[e.media] for e in examples]


def _shown(title: str, results: Iterable[Result], total: int) -> Iterator[Result]:
    """The results as they come, with a progress bar where they take longer than `QUIET`."""
    from horst.console import progress

    bar = progress(transient=True)
    task = bar.add_task(title, total=total)
    start = time.monotonic()
    try:
        for result in results:
            yield result
            bar.advance(task)
            if time.monotonic() - start > QUIET and not bar.live.is_started:
                bar.start()
    finally:
        if bar.live.is_started:
            bar.stop()


def _duration(example: Example) -> float | None:
    try:
        if is_pictures(example.media):
            return open_pictures(example).end
        from horst.video.decode import VideoFile  # packed data is read where FFmpeg is not

        with VideoFile(example.media, threads=1) as video:
            return video.info.duration
    except (VideoError, OSError):
        return 0.0


def _share(batch: NDArray[np.int64], replicas: int, rank: int) -> list[int]:
    """A replica's part of a global batch, as large as that of the others."""
    filled = np.concatenate([batch, np.resize(batch, -len(batch) % replicas)])
    return filled[rank::replicas].tolist()


def _check(lengths: Sequence[int] | Lengths, batch_size: int, replicas: int, rank: int) -> Lengths:
    check_positive(batch_size=batch_size, replicas=replicas)
    known = np.asarray(lengths, np.int64)
    if known.ndim != 1 or not known.size or known.min() < 1:
        raise InputError("lengths takes a whole number from 1 on for each clip, of which there is at least one")
    if not 0 <= rank < replicas:
        raise InputError(f"rank is {rank}; with {replicas} replicas it is one of 0..{replicas - 1}")
    return known
