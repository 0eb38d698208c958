"""All clips of a split in the memory of the device, for data sets that fit there: no process decodes or copies batches.

A GPU that trains a small model waits for its clips, and several runs on one GPU wait for the same few cores. 3,000
clips of 20 frames of 112 x 112 are 2.3 GB: they are read once, and a batch is a gather on the device itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from horst.data.batches import BadClip, Batch, ClipDataset, Item, Pick, collate
from horst.errors import ConfigError
from horst.video.sampling import observed_frames

CHUNK = 8
"""Clips that a worker sends at once: few tensors are sent faster than many, and shared memory is small."""


class Resident:
    """The clips of `dataset`, read whole by `workers` processes and kept on `device`.

    Clips that are bad or of which something was lost are not kept: batches with one of them are read as ever.
    """

    def __init__(self, dataset: ClipDataset, device: torch.device, workers: int = 0) -> None:
        self.dataset, self.device = dataset, device
        self.items: dict[int, Item] = {}
        """With the places of their frames in the store where the frames would be."""
        frames: list[Tensor] = []
        count = 1  # the first place is black, as padding is
        whole = [(i, 1.0) for i in range(len(dataset))]
        chunks: Any = DataLoader(
            dataset,
            batch_sampler=[whole[i : i + CHUNK] for i in range(0, len(whole), CHUNK)],
            num_workers=workers,
            collate_fn=_joined,
            generator=torch.Generator(),  # otherwise it would draw from the model's
        )
        for chunk in chain.from_iterable(chunks):
            if frames and chunk.frames.shape[1:] != frames[0].shape[1:]:
                shapes = f"{tuple(chunk.frames.shape[1:])} and others of {tuple(frames[0].shape[1:])}"
                ident = dataset.examples[chunk.indices[0]].id
                raise ConfigError(f"batches.resident: {ident} has frames of {shapes}; set it to false")
            # Copies: what workers send lies in shared memory, of which there is little, and with it open files.
            frames.append(chunk.frames.clone())
            places = torch.arange(count, count + len(chunk.frames)).view(-1, 1, 1, 1)
            count += len(places)
            clips = (t.split(chunk.lengths) for t in (places, chunk.times.clone(), chunk.observed.clone()))
            for index, place, times, observed in zip(chunk.indices, *clips, strict=True):
                example = dataset.examples[index]
                self.items[index] = Item(place, times, observed, dict(example.labels), example.id, index)
        self.pictures = bool(frames) and frames[0].dtype == torch.uint8
        self.frames = (torch.cat([torch.zeros_like(frames[0][:1]), *frames]) if frames else torch.empty(0)).to(device)

    def batch(self, picks: Sequence[Pick]) -> Batch:
        """What `collate` makes of the same clips, on the device."""
        told = [pick if isinstance(pick, tuple) else (pick, self.dataset.config.observe) for pick in picks]
        if any(index not in self.items for index, _ in told):
            return collate(self.dataset[pick] for pick in picks)
        made = collate(_cut(self.items[index], observe) for index, observe in told)
        places = made.frames.flatten(1)  # (B, T)
        frames = self.frames[places.flatten().to(self.device, non_blocking=True)].unflatten(0, places.shape)
        return replace(made, frames=frames.permute(0, 1, 4, 2, 3) if self.pictures else frames)


def _cut(item: Item, observe: float) -> Item:
    count = observed_frames(len(item.times), observe)
    return replace(item, frames=item.frames[:count], times=item.times[:count], observed=item.observed[:count])


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """Clips whose frames have one shape, one after the other."""

    indices: list[int]
    lengths: list[int]
    frames: Tensor
    """Of pictures with their channels last, as they lie in batches."""
    times: Tensor
    observed: Tensor


def _joined(items: list[Item | BadClip]) -> list[_Chunk]:
    """Those that are whole."""
    kept = [item for item in items if isinstance(item, Item) and not item.note]
    alike = [list(some) for _, some in groupby(kept, lambda item: item.frames.shape[1:])]
    return [
        _Chunk(
            indices=[item.index for item in some],
            lengths=[len(item.times) for item in some],
            frames=torch.cat([_laid_out(item.frames) for item in some]),
            times=torch.cat([item.times for item in some]),
            observed=torch.cat([item.observed for item in some]),
        )
        for some in alike
    ]


def _laid_out(frames: Tensor) -> Tensor:
    return (frames.permute(0, 2, 3, 1) if frames.dtype == torch.uint8 else frames).contiguous()


class ResidentLoader:
    """Batches of resident clips, as a sampler picks them. It is a DataLoader to Lightning, as far as that asks."""

    def __init__(self, clips: Resident, batch_sampler: Sampler[list[Pick]] | Sampler[list[int]]) -> None:
        self.clips, self.batch_sampler = clips, batch_sampler

    def __len__(self) -> int:
        return len(self.batch_sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        for picks in self.batch_sampler:
            yield self.clips.batch(picks)

    def state_dict(self) -> dict[str, Any]:
        """Nothing: what is resumed is known to the sampler."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
