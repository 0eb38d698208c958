"""What the runs of a study share, made once before several of them start at once: drawn videos, and decoded clips."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

import torch
from torch.utils.data import DataLoader, Dataset

from horst.data.batches import ClipDataset
from horst.data.example import Split
from horst.data.preload import PreloadedClips
from horst.data.source import open_source
from horst.errors import ConfigError
from horst.studies.plan import SPLIT, Job


def prepare(jobs: Iterable[Job]) -> None:
    """Open the data of each job that is still to be trained, which makes what is not there, and fill its cache."""
    seen = set()
    for job in jobs:
        data, cache = job.config.data, job.config.batches.cache
        about = json.dumps([data.to_dict(), cache, job.config.batches.preload], default=str)
        if about in seen:
            continue
        seen.add(about)
        source = open_source(data)
        if SPLIT not in source.annotations.counts():
            raise ConfigError(f"{source.annotations.name} has no validation examples, which a study compares runs by")
        if cache is None:
            continue
        splits: tuple[Split, ...] = ("train", "val")
        for split in splits:
            clips = ClipDataset(source, split, data.clip, cache)
            workers = os.cpu_count() or 1
            if job.config.batches.preload:
                PreloadedClips(clips, torch.device("cpu"), workers)
                continue
            for _ in DataLoader(_Decoded(clips), batch_size=32, num_workers=workers, generator=torch.Generator()):
                pass


class _Decoded(Dataset[int]):
    """Decodes a clip, which keeps it, and does not send it to another process."""

    def __init__(self, clips: ClipDataset) -> None:
        self.clips = clips

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> int:
        self.clips[index, 1.0]
        return index
