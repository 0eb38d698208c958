"""All clips of a split in the memory of the device, for data sets that fit there: no process decodes or copies batches.

A GPU that trains a small model waits for its clips, and several runs on one GPU wait for the same few cores. 3,000
clips of 20 frames of 112 x 112 are 2.3 GB: they are read once, and a batch is a gather on the device itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from horst.data.batches import Batch, ClipDataset, Item, Pick, collate
from horst.errors import ConfigError
from horst.video.sampling import observed_frames


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
        whole: Any = DataLoader(
            dataset,
            batch_size=None,
            sampler=[(i, 1.0) for i in range(len(dataset))],
            num_workers=workers,
            generator=torch.Generator(),  # otherwise it would draw from the model's
        )
        for item in whole:
            if not isinstance(item, Item) or item.note:
                continue
            put = _laid_out(item.frames)
            if frames and put.shape[1:] != frames[0].shape[1:]:
                shapes = f"{tuple(put.shape[1:])} and others of {tuple(frames[0].shape[1:])}"
                raise ConfigError(f"batches.resident: {item.id} has frames of {shapes}; set it to false")
            # Copies: what workers send lies in shared memory, of which there is little, and with it open files.
            self.items[item.index] = replace(
                item,
                frames=torch.arange(count, count + len(put)).view(-1, 1, 1, 1),
                times=item.times.clone(),
                observed=item.observed.clone(),
            )
            count += len(put)
            frames.append(put)
        self.pictures = bool(frames) and frames[0].dtype == torch.uint8
        self.frames = (torch.cat([torch.zeros_like(frames[0][:1]), *frames]) if frames else torch.empty(0)).to(device)

    def batch(self, picks: list[Pick]) -> Batch:
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


def _laid_out(frames: Tensor) -> Tensor:
    """A copy, of pictures with their channels last, as they lie in batches."""
    return (frames.permute(0, 2, 3, 1) if frames.dtype == torch.uint8 else frames).clone(
        memory_format=torch.contiguous_format
    )


class ResidentLoader:
    """Batches of resident clips, as a sampler picks them. It is a DataLoader to Lightning, as far as that asks."""

    def __init__(self, clips: Resident, batch_sampler: Sampler[list[Pick]]) -> None:
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
