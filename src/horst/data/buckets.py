"""Batches of clips of similar length, so that there is little padding. Only indices and lengths: nothing is decoded.

A global batch is drawn first and then divided among the replicas: R replicas with batches of B see in each step what
one with batches of R * B sees. Everything is a function of (seed, epoch), so a run can start again at any batch.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from horst.config import check_positive
from horst.data.batches import Pick
from horst.data.clips import ClipConfig
from horst.data.example import Split
from horst.data.source import Source
from horst.errors import ConfigError, InputError

WIDTH = 1.1  # longest clip of a bucket divided by its shortest: wide enough to mix clips, narrow enough to pad little
Lengths = NDArray[np.int64]


class ClipSampler(Sampler[Any]):
    """Batches of clips with these lengths, for the replica `rank` of `replicas`."""

    def __init__(self, lengths: Sequence[int] | Lengths, batch_size: int, *, replicas: int = 1, rank: int = 0) -> None:
        check_positive(batch_size=batch_size, replicas=replicas)
        self.lengths = np.asarray(lengths, np.int64)
        if self.lengths.ndim != 1 or not self.lengths.size or self.lengths.min() < 1:
            raise InputError("lengths takes a whole number from 1 on for each clip, of which there is at least one")
        if not 0 <= rank < replicas:
            raise InputError(f"rank is {rank}; with {replicas} replicas it is one of 0..{replicas - 1}")
        self.batch_size, self.replicas, self.rank = batch_size, replicas, rank


class BucketSampler(ClipSampler):
    """Batches for training.

    Clips are sorted by length, shuffled among those of nearly the same length, cut into batches, and the batches are
    shuffled. If the last batch of the sorted clips is not divisible among the replicas, it repeats up to `replicas` - 1
    of its clips; with `drop_last` it is dropped, in each epoch with other clips. With `prefix` (low, high) a fraction
    of each clip, drawn for each epoch, is observed: that counts as its length, and picks are (index, fraction).
    """

    def __init__(
        self,
        lengths: Sequence[int] | Lengths,
        batch_size: int,
        *,
        seed: int = 0,
        replicas: int = 1,
        rank: int = 0,
        drop_last: bool = False,
        prefix: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(lengths, batch_size, replicas=replicas, rank=rank)
        check_prefix(prefix)
        self.seed, self.drop_last, self.prefix = seed, drop_last, prefix
        self.epoch, self.start_batch = 0, 0
        if not len(self):
            clips = f"{len(self.lengths)} clips do not fill a batch of {batch_size} on {replicas} replicas"
            raise InputError(f"{clips}, and incomplete batches are dropped: make batches smaller, or keep the last")

    @property
    def sampler(self) -> Self:
        """Itself: Lightning sets the epoch of this attribute."""
        return self

    def set_epoch(self, epoch: int, start_batch: int | None = None) -> None:
        """Set the epoch, and its first batch. Setting the same epoch again keeps the first batch."""
        if epoch != self.epoch or start_batch is not None:
            self.epoch, self.start_batch = epoch, start_batch or 0

    def __len__(self) -> int:
        """Batches of a complete epoch, even if it starts at a later batch."""
        size = self.batch_size * self.replicas
        return len(self.lengths) // size if self.drop_last else -(-len(self.lengths) // size)

    def __iter__(self) -> Iterator[list[Pick]]:
        fractions = self.fractions()
        for batch in self.batches()[self.start_batch :]:
            yield [i if fractions is None else (i, float(fractions[i])) for i in batch]

    def fractions(self) -> NDArray[np.float64] | None:
        """The observed fraction of each clip in this epoch; None without `prefix`."""
        if self.prefix is None:
            return None
        return np.random.default_rng((self.seed, self.epoch, 1)).uniform(*self.prefix, len(self.lengths))

    def batches(self) -> list[list[int]]:
        """All batches of this replica in this epoch."""
        rng, size = np.random.default_rng((self.seed, self.epoch)), self.batch_size * self.replicas
        fractions = self.fractions()
        lengths = self.lengths if fractions is None else observed_lengths(self.lengths, fractions)
        order = np.concatenate([rng.permutation(bucket) for bucket in buckets(lengths)])
        if spare := len(order) % size if self.drop_last else 0:
            order = np.delete(order, rng.choice(len(order), spare, replace=False))
        made = [order[i : i + size] for i in range(0, len(order), size)]
        made = [made[i] for i in rng.permutation(len(made))]
        # Replicas have batches of the same size, so the last one may repeat clips.
        filled = [np.concatenate([batch, np.resize(batch, -len(batch) % self.replicas)]) for batch in made]
        return [batch[self.rank :: self.replicas].tolist() for batch in filled]


class EvaluationSampler(ClipSampler):
    """Batches for evaluation, the longest clips first. Over all replicas every clip comes exactly once.

    A replica may have one batch more than another, so sums over replicas are taken at the end.
    """

    def __len__(self) -> int:
        return len(range(self.rank * self.batch_size, len(self.lengths), self.replicas * self.batch_size))

    def __iter__(self) -> Iterator[list[int]]:
        order, size = np.argsort(-self.lengths, kind="stable").tolist(), self.batch_size
        for start in range(self.rank * size, len(order), self.replicas * size):
            yield order[start : start + size]


def buckets(lengths: Lengths) -> list[NDArray[np.int64]]:
    """Indices sorted by length, cut where the length exceeds WIDTH times the shortest one of its bucket."""
    order = np.argsort(lengths, kind="stable")
    values = lengths[order]
    cuts = [0]
    while (cut := int(np.searchsorted(values, WIDTH * values[cuts[-1]], side="right"))) < len(values):
        cuts.append(cut)
    return np.split(order, cuts[1:])


def observed_lengths(lengths: Lengths, fractions: NDArray[np.float64]) -> Lengths:
    """`observed_frames` of many clips, each with its own fraction."""
    return np.maximum(1, np.ceil(np.round(fractions * lengths, 6))).astype(np.int64)


def clip_lengths(source: Source, split: Split, config: ClipConfig) -> Lengths:
    """The frames of each clip of a split, without decoding; 1 if it does not open, the median if that is unknown."""
    examples = source.annotations.split(split).examples
    if source.annotations.task == "anticipation":
        return np.full(len(examples), config.steps, np.int64)
    known = source.lengths(examples, config)
    median = int(np.median([n for n in known if n is not None] or [1]))
    return np.asarray([median if n is None else n for n in known], np.int64)


def check_prefix(prefix: tuple[float, float] | None) -> None:
    if prefix is not None and not (len(prefix) == 2 and 0 < prefix[0] <= prefix[1] <= 1):
        raise ConfigError(f"prefix is {prefix}; it takes the lowest and the highest fraction, above 0 and up to 1")
