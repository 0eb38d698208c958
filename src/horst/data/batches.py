"""Clips for torch: a data set of items, batches of clips of different lengths, and a count of the bad ones.

A clip that cannot be read is a `BadClip` item. Training counts it in `BadClips`; evaluation finds it in `Batch.bad` and
counts it as wrong. Shapes: B clips in a batch, T frames of the longest one, H x W pixels.
"""

import csv
import io
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import Dataset

from horst.data.cache import DiskCache
from horst.data.clips import ClipConfig
from horst.data.example import UNKNOWN, Split
from horst.data.segments import item_labels
from horst.data.source import Source
from horst.errors import ConfigError, DataError, InputError, VideoError
from horst.io import write_text
from horst.masks import length_mask

Pick = int | tuple[int, float]  # A clip: its index, or (index, observed fraction) to replace the fraction in the config


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One clip."""

    frames: Tensor  # (T, 3, H, W) uint8, RGB, with channels last in memory, as decoded; or maps (T, C, h, w), float
    times: Tensor  # (T,) float64: seconds in the media; NaN where unobserved
    observed: Tensor  # (T,) bool
    labels: dict[str, int | Tensor]  # of whole videos: tensors (T, ...)
    id: str
    index: int  # in its `ClipDataset`
    note: str = ""  # what could not be read; empty if nothing is missing


@dataclass(frozen=True, slots=True)
class BadClip:
    """A clip that cannot be read."""

    id: str
    index: int
    why: str
    labels: dict[str, int] = field(default_factory=dict)  # for recall by class


class ClipDataset(Dataset[Item | BadClip]):
    """The clips of one split. `cache`: a folder for decoded clips; see `DiskCache`."""

    def __init__(self, source: Source, split: Split, config: ClipConfig, cache: str | Path | None = None) -> None:
        source.check(config)
        self.examples, self.config = source.annotations.split(split).examples, config
        self.task = source.annotations.task
        name = f"{self.task} {source.annotations.name}"
        self.cache = None if cache is None else DiskCache(source.read, cache, data=name)
        self._read = self.cache.read if self.cache is not None else source.read

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, pick: Pick) -> Item | BadClip:
        index, observe = pick if isinstance(pick, tuple) else (pick, self.config.observe)
        example, labels = self.examples[index], dict(self.examples[index].labels)
        try:
            clip = self._read(example, replace(self.config, observe=observe))
        except (VideoError, InputError, OSError) as error:  # InputError: nothing precedes the action
            return BadClip(example.id, index, str(error), labels)
        frames = torch.from_numpy(clip.frames)
        if frames.dtype == torch.uint8:
            frames = frames.permute(0, 3, 1, 2)  # a view: copying is slow
        times, observed = torch.from_numpy(clip.times), torch.from_numpy(clip.observed)
        found = item_labels(example, clip.times, self.config, self.task)
        return Item(frames, times, observed, found, example.id, index, clip.note)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Clips of different lengths, padded at their ends. It is empty if all clips were bad."""

    frames: Tensor
    """(B, T, 3, H, W) uint8, 0 in the padding, channels last in memory; or stored maps (B, T, C, h, w). If
    `read_frames` is set, places (B, T) until `read` is called."""
    lengths: Tensor  # (B,) int64, always on the CPU: models read its numbers, and must not wait for a GPU
    times: Tensor  # (B, T) float64, NaN in the padding and where unobserved; always on the CPU
    observed: Tensor  # (B, T) bool, False in the padding
    labels: dict[str, Tensor]
    """(B,) int64 by task, -1 if unknown. Whole videos: those of `video_labels`, (B, T, ...), -1 in the padding."""
    ids: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()
    bad: tuple[BadClip, ...] = ()  # clips that could not be read; they are in no tensor
    notes: tuple[str, ...] = ()  # what is missing of each clip; empty if nothing is
    read_frames: Callable[[Tensor], Tensor] | None = None
    """If `frames` are places (B, T) in a store, 0 in the padding: reads them. See `PreloadedClips`."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def valid(self) -> Tensor:
        """(B, T) bool on the frames' device: False in the padding. Unobserved positions are valid."""
        return length_mask(self.lengths, self.frames.shape[1]).to(self.frames.device, non_blocking=True)

    def read(self) -> Self:
        """The batch with its frames, if it has their places."""
        if self.read_frames is None:
            return self
        return replace(self, frames=self.read_frames(self.frames), read_frames=None)

    def to(self, device: torch.device | str | int) -> Self:
        """Frames, observed and labels on `device`, without waiting for the copy to a GPU."""
        later = torch.device(device).type != "cpu"
        return self._moved(lambda tensor: tensor.to(device, non_blocking=later))

    def pin_memory(self) -> Self:
        return self._moved(Tensor.pin_memory)

    def _moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        labels = {task: move(values) for task, values in self.labels.items()}
        return replace(self, frames=move(self.frames), observed=move(self.observed), labels=labels)


def collate(items: Iterable[Item | BadClip]) -> Batch:
    """A batch of the items, in their order; bad clips are kept apart."""
    given = list(items)
    good = [item for item in given if isinstance(item, Item)]
    lengths = torch.tensor([len(item.frames) for item in good], dtype=torch.int64)
    longest = int(lengths.max()) if good else 0
    frames = _empty_frames(good, longest)
    times = torch.full((len(good), longest), math.nan, dtype=torch.float64)
    observed = torch.zeros((len(good), longest), dtype=torch.bool)
    for row, item in enumerate(good):
        length = len(item.frames)
        frames[row, :length] = item.frames
        frames[row, length:] = 0
        times[row, :length] = item.times
        observed[row, :length] = item.observed
    tasks = sorted({task for item in given for task in item.labels})
    labels = {task: stack_labels([item.labels.get(task, UNKNOWN) for item in good], longest) for task in tasks}
    ids, indices, notes = (tuple(getattr(item, name) for item in good) for name in ("id", "index", "note"))
    bad = tuple(item for item in given if isinstance(item, BadClip))
    return Batch(frames, lengths, times, observed, labels, ids, indices, bad, notes)


def stack_labels(labels: Sequence[int | Tensor], longest: int) -> Tensor:
    if not any(isinstance(label, Tensor) for label in labels):
        return torch.tensor(labels, dtype=torch.int64)
    like = next(label for label in labels if isinstance(label, Tensor))
    found = torch.full((len(labels), longest, *like.shape[1:]), UNKNOWN, dtype=like.dtype)
    for row, label in zip(found, labels, strict=True):
        row[: len(label)] = label  # type: ignore[arg-type]
    return found


def _empty_frames(items: list[Item], longest: int) -> Tensor:
    """Uninitialised frames of a batch, in the memory layout of the items."""
    if not items:
        return torch.empty((0, 0, 3, 0, 0), dtype=torch.uint8)
    channels, height, width = items[0].frames.shape[1:]
    if items[0].frames.dtype != torch.uint8:
        return torch.empty((len(items), longest, channels, height, width), dtype=items[0].frames.dtype)
    return torch.empty((len(items), longest, height, width, channels), dtype=torch.uint8).permute(0, 1, 4, 2, 3)


class BadClips:
    """Counts the training clips that cannot be read, each once, and stops the run if there are too many.

    The limit is `limit` of the clips seen so far. Up to `MINIMUM` bad clips are accepted while that is less than
    `limit` of all `total` clips: 3 bad ones among the first 10 of 50,000 stop nothing, but the first one of 50 clips
    does. Each process of a distributed run counts what it reads; `merge` adds the counts of others.

    `early`: indices of actions that no frame precedes. They are left out: no fault of the data, they count nowhere.
    """

    MINIMUM = 10

    def __init__(self, limit: float = 0.01, *, total: int, early: Collection[int] = ()) -> None:
        if not 0 <= limit <= 1:
            raise ConfigError(f"the limit of bad clips is {limit}; it is a fraction, from 0 to 1")
        self.limit, self.total, self.early = limit, total, frozenset(early)
        self._seen = torch.zeros(total, dtype=torch.bool)
        self._bad: dict[int, BadClip] = {}

    def __len__(self) -> int:
        return len(self._bad)

    @property
    def seen(self) -> int:
        """Number of clips that were read, including bad ones."""
        return int(self._seen.sum())

    @property
    def listed(self) -> tuple[tuple[str, str], ...]:
        """(id, reason), in the order of the data set."""
        return tuple((clip.id, clip.why) for _, clip in sorted(self._bad.items()))

    def add(self, batch: Batch) -> None:
        """Count a batch; DataError if there are too many bad clips."""
        bad = {clip.index: clip for clip in batch.bad if clip.index not in self.early}
        self._seen[[*batch.indices, *bad]] = True
        self._bad |= bad
        most = min(self.MINIMUM, self.limit * (self.total - len(self.early)))
        if bad and len(self) > max(self.limit * self.seen, most):
            some = "; ".join(f"{ident}: {why}" for ident, why in self.listed[:5])
            more = f"; and {len(self) - 5} more" if len(self) > 5 else ""
            count = f"{len(self)} of {self.seen} training clips read so far ({self.total} in all)"
            remedy = "repair them, leave them out, or raise batches.bad_limit"
            raise DataError(f"{count} are bad, more than the limit of {self.limit:.3g}: {remedy}. {some}{more}")

    def merge(self, state: dict[str, Any]) -> None:
        """Add the `state_dict` of another process. Only `add` checks the limit."""
        self._seen |= state["seen"].bool()
        bad = {index: BadClip(ident, index, why) for index, ident, why in state["bad"]}
        self._bad |= {index: clip for index, clip in bad.items() if index not in self.early}

    def write(self, path: str | Path) -> None:
        """Write the list as CSV (id, why), atomically."""
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([("id", "why"), *self.listed])
        write_text(Path(path), text.getvalue())

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self._seen.clone(), "bad": [(c.index, c.id, c.why) for c in self._bad.values()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if (before := len(state["seen"])) != self.total:
            clips = f"{before} training clips and there are {self.total} now"
            raise DataError(f"the checkpoint was made with {clips}: resume with the same data")
        self._seen, self._bad = torch.zeros(self.total, dtype=torch.bool), {}
        self.merge(state)
