"""All clips of a split in the memory of the device, for data sets that fit: no process decodes or copies batches.

A GPU that trains a small model waits for its clips, and several runs on one GPU wait for the same few cores. 3,000
clips of 20 frames of 112 x 112 are 2.3 GB: they are read once, and a batch is a gather on the device. With a cache of
decoded clips, all of them are also stored in one file, which the next run loads in seconds.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from horst.data.batches import BadClip, Batch, ClipDataset, Item, Pick, collate
from horst.data.jobs import worker_init
from horst.data.segments import item_labels
from horst.errors import ConfigError
from horst.io import atomic_write, set_default_mode
from horst.video.sampling import observed_frames

CHUNK = 8  # clips that a worker sends at once: a few large tensors are sent faster than many; shared memory is small


class ClipTensors(NamedTuple):
    """Several clips, one after the other."""

    frames: Tensor  # images with channels last, as in batches, or maps
    indices: Tensor
    lengths: Tensor
    times: Tensor
    observed: Tensor


class PreloadedClips(Dataset[Item | BadClip]):
    """The clips of `dataset`, read by `workers` processes and kept on `device`.

    Clips that are bad or incomplete are not kept: a batch with one of them is read from its files.
    """

    def __init__(self, dataset: ClipDataset, device: torch.device, workers: int = 0) -> None:
        self.dataset, self.device = dataset, device
        file = None if dataset.cache is None else dataset.cache.file_for(dataset.examples, dataset.config)
        clips = None if file is None else _load(*file, device)
        if clips is None:
            clips = _read(dataset, workers)
            if file is not None and clips.frames.dtype == torch.uint8 and len(clips.indices) == len(dataset):
                _save(clips, *file)
        # The first frame is black, for the padding.
        self.frames, self.images = clips.frames.to(device), clips.frames.dtype == torch.uint8
        places = torch.arange(1, len(self.frames)).view(-1, 1, 1, 1)
        parts = (t.split(clips.lengths.tolist()) for t in (places, clips.times, clips.observed))
        self.items: dict[int, Item] = {}  # with the places of their frames in `frames` in place of frames
        for index, place, times, observed in zip(clips.indices.tolist(), *parts, strict=True):
            example = dataset.examples[index]
            labels = item_labels(example, times.numpy(), dataset.config, dataset.task)
            self.items[index] = Item(place, times, observed, labels, example.id, index)

    def batch(self, picks: Sequence[Pick]) -> Batch:
        """The batch that `collate` makes of the same clips, on the device, before `Batch.read`: an augmentation may use
        few of its frames."""
        pairs = [pick if isinstance(pick, tuple) else (pick, self.dataset.config.observe) for pick in picks]
        if any(index not in self.items for index, _ in pairs):
            return collate(self.dataset[pick] for pick in picks)
        batch = collate(_cut(self.items[index], observe) for index, observe in pairs)
        places = batch.frames.flatten(1).to(self.device, non_blocking=True)  # (B, T)
        return replace(batch, frames=places, read_frames=self._frames)

    def _frames(self, places: Tensor) -> Tensor:
        frames = self.frames[places.flatten()].unflatten(0, places.shape)
        return frames.permute(0, 1, 4, 2, 3) if self.images else frames

    __getitems__ = batch  # DataLoader calls it


def _cut(item: Item, observe: float) -> Item:
    count = observed_frames(len(item.times), observe)
    return replace(item, frames=item.frames[:count], times=item.times[:count], observed=item.observed[:count])


def _read(dataset: ClipDataset, workers: int) -> ClipTensors:
    """All complete clips, after one black frame."""
    picks = [(i, 1.0) for i in range(len(dataset))]
    chunks: Any = DataLoader(
        dataset,
        batch_sampler=[picks[i : i + CHUNK] for i in range(0, len(picks), CHUNK)],
        num_workers=workers,
        worker_init_fn=worker_init(),
        collate_fn=_join,
        generator=torch.Generator(),  # otherwise it would draw from the global one
    )
    found: list[ClipTensors] = []
    for chunk in chain.from_iterable(chunks):
        if found and chunk.frames.shape[1:] != found[0].frames.shape[1:]:
            shapes = f"{tuple(chunk.frames.shape[1:])} and others of {tuple(found[0].frames.shape[1:])}"
            ident = dataset.examples[int(chunk.indices[0])].id
            raise ConfigError(f"batches.preload: {ident} has frames of {shapes}; leave preload out")
        # Copies: what workers send is in shared memory, which is small, and keeps files open.
        found.append(ClipTensors(*(tensor.clone() for tensor in chunk)))
    if not found:
        nothing = torch.empty(0, dtype=torch.int64)
        return ClipTensors(torch.zeros(1), nothing, nothing, torch.empty(0), torch.empty(0))
    frames, *others = zip(*found, strict=True)
    return ClipTensors(torch.cat([torch.zeros_like(frames[0][:1]), *frames]), *map(torch.cat, others))


def _join(items: list[Item | BadClip]) -> list[ClipTensors]:
    """The complete clips, joined if their frames have the same shape."""
    complete = [item for item in items if isinstance(item, Item) and not item.note]
    return [
        ClipTensors(
            frames=torch.cat([_channels_last(item.frames) for item in some]),
            indices=torch.tensor([item.index for item in some]),
            lengths=torch.tensor([len(item.times) for item in some]),
            times=torch.cat([item.times for item in some]),
            observed=torch.cat([item.observed for item in some]),
        )
        for some in (list(group) for _, group in groupby(complete, lambda item: item.frames.shape[1:]))
    ]


def _channels_last(frames: Tensor) -> Tensor:
    return (frames.permute(0, 2, 3, 1) if frames.dtype == torch.uint8 else frames).contiguous()


def _load(path: Path, stamp: str, device: torch.device) -> ClipTensors | None:
    """The clips in a file, with frames on the device; None if there is no such file or its media have changed."""
    try:
        with safe_open(path, "pt", device=str(device)) as there, safe_open(path, "pt") as here:
            if (here.metadata() or {}).get("made_of") != stamp:
                return None
            return ClipTensors(there.get_tensor("frames"), *(here.get_tensor(name) for name in ClipTensors._fields[1:]))
    except (OSError, SafetensorError):
        return None


def _save(clips: ClipTensors, path: Path, stamp: str) -> None:
    with suppress(OSError, SafetensorError), atomic_write(path) as partial:  # a full disk is no reason to stop
        save_file(clips._asdict(), partial, {"made_of": stamp})
        set_default_mode(partial)
