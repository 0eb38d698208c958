"""Clips for torch: a data set of items, batches of clips of different lengths, and an account of the bad ones.

    dataset = ClipDataset(open_source(config), "train", config.clip)
    batch = collate([dataset[0], dataset[1]])

A clip that cannot be read is an item too, a `BadClip`: it neither kills a worker nor vanishes. Training counts it in
`BadClips`; evaluation finds it in `Batch.bad` and counts it as wrong.

Shapes: B clips of a batch, T frames of the longest, H x W pixels.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from horst.data.cache import Cached
from horst.data.clips import Clip, ClipConfig
from horst.data.config import Source
from horst.data.example import Split
from horst.data.features import FeatureClip
from horst.errors import ConfigError, DataError, InputError, VideoError
from horst.io import write_text

Pick = int | tuple[int, float]
"""Which clip: its index, and where it is not the config's the fraction of it to observe."""
UNKNOWN = -1
"""Stands for a label that nobody tells."""


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One clip."""

    frames: Tensor
    """(T, 3, H, W) uint8, RGB; in memory the channels are last, as they are decoded. Or maps (T, C, h, w), float."""
    times: Tensor
    """(T,) float64: seconds in the media; NaN where unobserved."""
    observed: Tensor
    """(T,) bool."""
    labels: dict[str, int]
    id: str
    index: int
    """In its `ClipDataset`."""
    note: str = ""
    """What was lost on the way, where something was."""


@dataclass(frozen=True, slots=True)
class BadClip:
    """A clip that cannot be read."""

    id: str
    index: int
    why: str
    labels: dict[str, int] = field(default_factory=dict)
    """What it would have shown: a recall by class counts it there."""


class ClipDataset(Dataset[Item | BadClip]):
    """The clips of one split."""

    def __init__(self, source: Source, split: Split, config: ClipConfig, cache: str | Path | None = None) -> None:
        """`cache`: a folder for decoded clips; see `Cached`."""
        check = getattr(getattr(source.read, "__self__", None), "check", None)
        if check is not None:
            check(config)  # a stored set refuses what it does not have before work starts
        self.examples = source.annotations.split(split).examples
        self.config = config
        named = f"{source.annotations.task} {source.annotations.name}"
        self._cached = None if cache is None else Cached(source.read, cache, data=named)
        self._read = self._cached or source.read

    @property
    def together(self) -> tuple[Path, str] | None:
        """Where all clips may lie in one file, and what they are made of; None without a cache."""
        return None if self._cached is None else self._cached.together(self.examples, self.config)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, pick: Pick) -> Item | BadClip:
        index, observe = pick if isinstance(pick, tuple) else (pick, self.config.observe)
        example = self.examples[index]
        labels = dict(example.labels)
        try:
            clip = self._read(example, replace(self.config, observe=observe))
        except (VideoError, InputError, OSError) as error:  # InputError: a segment without any valid frame
            return BadClip(example.id, index, str(error), labels)
        return Item(
            frames=_frames(clip),
            times=torch.from_numpy(clip.times),
            observed=torch.from_numpy(clip.observed),
            labels=labels,
            id=example.id,
            index=index,
            note=clip.note,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Clips of different lengths, each padded at its end to the longest. It may hold no clip, where all were bad."""

    frames: Tensor
    """(B, T, 3, H, W) uint8, black in the padding; in memory the channels are last (torch's channels_last).

    Or precomputed maps (B, T, C, h, w) as they were stored, zero in the padding."""
    lengths: Tensor
    """(B,) int64, on the CPU always: models ask for its numbers, which must not wait for a GPU."""
    times: Tensor
    """(B, T) float64, NaN in the padding and where unobserved; on the CPU always."""
    observed: Tensor
    """(B, T) bool, False in the padding."""
    labels: dict[str, Tensor]
    """(B,) int64 by task, -1 where unknown."""
    ids: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()
    bad: tuple[BadClip, ...] = ()
    """Those that could not be read: they are in no tensor."""
    notes: tuple[str, ...] = ()
    """What was lost of each clip; empty where nothing was."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def valid(self) -> Tensor:
        """(B, T) bool on the frames' device: not padding. What a clip does not observe is valid all the same."""
        places = torch.arange(self.frames.shape[1])
        return (places < self.lengths[:, None]).to(self.frames.device, non_blocking=True)

    def to(self, device: torch.device | str | int) -> Batch:
        """Frames, observed and labels on `device`; does not wait for the copy to a GPU."""
        later = torch.device(device).type != "cpu"
        return replace(
            self,
            frames=self.frames.to(device, non_blocking=later),
            observed=self.observed.to(device, non_blocking=later),
            labels={task: values.to(device, non_blocking=later) for task, values in self.labels.items()},
        )

    def pin_memory(self) -> Batch:
        return replace(
            self,
            frames=self.frames.pin_memory(),
            observed=self.observed.pin_memory(),
            labels={task: values.pin_memory() for task, values in self.labels.items()},
        )


def collate(items: Iterable[Item | BadClip]) -> Batch:
    """Items as one batch, in their order; bad ones apart."""
    given = list(items)
    good = [item for item in given if isinstance(item, Item)]
    lengths = torch.tensor([len(item.frames) for item in good], dtype=torch.int64)
    longest = int(lengths.max()) if good else 0
    frames = _room(good, longest)
    times = torch.full((len(good), longest), math.nan, dtype=torch.float64)
    observed = torch.zeros((len(good), longest), dtype=torch.bool)
    for row, item in enumerate(good):
        length = len(item.frames)
        frames[row, :length] = item.frames
        frames[row, length:] = 0
        times[row, :length] = item.times
        observed[row, :length] = item.observed
    tasks = sorted({task for item in given for task in item.labels})
    return Batch(
        frames=frames,
        lengths=lengths,
        times=times,
        observed=observed,
        labels={task: torch.tensor([i.labels.get(task, UNKNOWN) for i in good], dtype=torch.int64) for task in tasks},
        ids=tuple(item.id for item in good),
        indices=tuple(item.index for item in good),
        bad=tuple(item for item in given if isinstance(item, BadClip)),
        notes=tuple(item.note for item in good),
    )


def _frames(clip: Clip | FeatureClip) -> Tensor:
    if isinstance(clip, FeatureClip):
        return torch.from_numpy(clip.maps)
    return torch.from_numpy(clip.frames).permute(0, 3, 1, 2)  # a view: to move so many bytes takes a while


def _room(items: list[Item], longest: int) -> Tensor:
    """Uninitialised frames of a batch, in the memory layout of the items."""
    if not items:
        return torch.empty((0, 0, 3, 0, 0), dtype=torch.uint8)
    channels, height, width = items[0].frames.shape[1:]
    if items[0].frames.dtype != torch.uint8:
        return torch.empty((len(items), longest, channels, height, width), dtype=items[0].frames.dtype)
    return torch.empty((len(items), longest, height, width, channels), dtype=torch.uint8).permute(0, 1, 4, 2, 3)


class BadClips:
    """Counts the training clips that cannot be read, each once, and stops the run where they are too many.

    They are too many when they exceed `limit` of the clips seen so far. Few clips say little, so up to `MINIMUM` bad
    ones are let pass while that is less than `limit` of all `total` clips: 3 bad ones among the first 10 of 50,000 stop
    nothing, while the first one among 50 clips does, as it is more than 1% of them whatever follows.

    Each process of a distributed run counts what it reads itself; `merge` adds what others counted.
    """

    MINIMUM = 10

    def __init__(self, limit: float = 0.01, *, total: int) -> None:
        if not 0 <= limit <= 1:
            raise ConfigError(f"the limit of bad clips is {limit}; it is a fraction, from 0 to 1")
        self.limit, self.total = limit, total
        self._seen = torch.zeros(total, dtype=torch.bool)
        self._bad: dict[int, BadClip] = {}

    def __len__(self) -> int:
        return len(self._bad)

    @property
    def seen(self) -> int:
        """Clips that were asked for, bad ones among them."""
        return int(self._seen.sum())

    @property
    def listed(self) -> tuple[tuple[str, str], ...]:
        """(id, why), in the order of the data set."""
        return tuple((clip.id, clip.why) for _, clip in sorted(self._bad.items()))

    def add(self, batch: Batch) -> None:
        """Count a batch; DataError where too many are bad by now."""
        self._seen[list(batch.indices) + [clip.index for clip in batch.bad]] = True
        self._bad |= {clip.index: clip for clip in batch.bad}
        if batch.bad and len(self) > max(self.limit * self.seen, min(self.MINIMUM, self.limit * self.total)):
            some = "; ".join(f"{ident}: {why}" for ident, why in self.listed[:5])
            more = f"; and {len(self) - 5} more" if len(self) > 5 else ""
            raise DataError(
                f"{len(self)} of {self.seen} training clips read so far ({self.total} in all) are bad, more than the "
                f"limit of {self.limit:.3g}: mend them, leave them out, or raise batches.bad_limit. {some}{more}"
            )

    def merge(self, state: dict[str, Any]) -> None:
        """Add what another process has counted, as its `state_dict` tells it. Nothing stops here: `add` decides."""
        self._seen |= state["seen"].bool()
        self._bad |= {index: BadClip(ident, index, why) for index, ident, why in state["bad"]}

    def write(self, path: str | Path) -> None:
        """The list as CSV (id, why), whole or not at all."""
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([("id", "why"), *self.listed])
        write_text(Path(path), text.getvalue())

    def state_dict(self) -> dict[str, Any]:
        """Plain data, for a checkpoint."""
        return {"seen": self._seen.clone(), "bad": [(c.index, c.id, c.why) for c in self._bad.values()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if len(state["seen"]) != self.total:
            raise DataError(
                f"the checkpoint was made with {len(state['seen'])} training clips and there are {self.total} now: "
                "resume with the same data"
            )
        self._seen = state["seen"].clone()
        self._bad = {index: BadClip(ident, index, why) for index, ident, why in state["bad"]}
