"""All clips of a split in the memory of the device, for data sets that fit there: no process decodes or copies batches.

A GPU that trains a small model waits for its clips, and several runs on one GPU wait for the same few cores. 3,000
clips of 20 frames of 112 x 112 are 2.3 GB: they are read once, and a batch is a gather on the device itself. Where
decoded clips are kept, all of them are in one file, too: the next run has them in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from horst.data.batches import BadClip, Batch, ClipDataset, Item, Pick, collate
from horst.errors import ConfigError
from horst.io import atomic_write, set_default_mode
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
        kept = dataset.together
        found = None if kept is None else _load(*kept, device)
        if found is None:
            found = _read(dataset, workers)
            if kept is not None:
                _save(found, *kept, len(dataset))
        self.frames, self.pictures = found.frames.to(device), found.frames.dtype == torch.uint8
        lengths = found.lengths.tolist()
        places = torch.arange(1, len(self.frames)).view(-1, 1, 1, 1)
        clips = (t.split(lengths) for t in (places, found.times, found.observed))
        for index, place, times, observed in zip(found.indices.tolist(), *clips, strict=True):
            example = dataset.examples[index]
            self.items[index] = Item(place, times, observed, dict(example.labels), example.id, index)

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


class _Clips(NamedTuple):
    """All clips that are whole, one after the other."""

    frames: Tensor
    """The first is black, as padding is."""
    indices: Tensor
    lengths: Tensor
    times: Tensor
    observed: Tensor


def _read(dataset: ClipDataset, workers: int) -> _Clips:
    everything = [(i, 1.0) for i in range(len(dataset))]
    chunks: Any = DataLoader(
        dataset,
        batch_sampler=[everything[i : i + CHUNK] for i in range(0, len(everything), CHUNK)],
        num_workers=workers,
        collate_fn=_joined,
        generator=torch.Generator(),  # otherwise it would draw from the model's
    )
    found: list[_Chunk] = []
    for chunk in chain.from_iterable(chunks):
        if found and chunk.frames.shape[1:] != found[0].frames.shape[1:]:
            shapes = f"{tuple(chunk.frames.shape[1:])} and others of {tuple(found[0].frames.shape[1:])}"
            ident = dataset.examples[chunk.indices[0]].id
            raise ConfigError(f"batches.resident: {ident} has frames of {shapes}; set it to false")
        # Copies: what workers send lies in shared memory, of which there is little, and with it open files.
        copies = {name: getattr(chunk, name).clone() for name in ("frames", "times", "observed")}
        found.append(replace(chunk, **copies))
    indices, lengths = (torch.tensor([n for chunk in found for n in getattr(chunk, a)]) for a in ("indices", "lengths"))
    if not found:
        return _Clips(torch.zeros(1), indices.long(), lengths.long(), torch.empty(0), torch.empty(0))
    black = torch.zeros_like(found[0].frames[:1])
    frames, times, observed = ([getattr(c, name) for c in found] for name in ("frames", "times", "observed"))
    return _Clips(torch.cat([black, *frames]), indices, lengths, torch.cat(times), torch.cat(observed))


def _load(path: Path, made_of: str, device: torch.device) -> _Clips | None:
    """None where there is no such file, or one of other media. The frames go straight to the device."""
    try:
        with safe_open(path, "pt", device=str(device)) as there, safe_open(path, "pt") as here:
            if (here.metadata() or {}).get("made_of") != made_of:
                return None
            return _Clips(there.get_tensor("frames"), *(here.get_tensor(name) for name in _Clips._fields[1:]))
    except (OSError, SafetensorError):
        return None


def _save(clips: _Clips, path: Path, made_of: str, count: int) -> None:
    """Pictures alone, as they alone are cached, and only where each of the `count` clips could be read."""
    if clips.frames.dtype != torch.uint8 or len(clips.indices) < count:
        return
    with suppress(OSError, SafetensorError), atomic_write(path) as partial:  # a full disk is no reason to stop
        save_file(clips._asdict(), partial, {"made_of": made_of})
        set_default_mode(partial)


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
