"""Clips of a data set as batches, in one process or several. Training, validation and evaluation use the same loader.

    clips = ClipBatches(DataConfig.from_file("data.yaml"), batch_size=8, workers=4)
    for batch in clips.evaluation_loader("val"): ...

`horst.data.module.ClipDataModule` adds the training split for Lightning.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.utils.data import DataLoader

from horst.config import check_positive
from horst.data.batches import Batch, ClipDataset, collate
from horst.data.buckets import ClipSampler, EvaluationSampler, clip_lengths
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.example import Annotations, Split
from horst.data.jobs import worker_init
from horst.data.preload import PreloadedClips
from horst.data.source import Source, open_source
from horst.errors import ConfigError
from horst.threads import available_cores


class ClipLoader(DataLoader[Any]):
    """Lightning resumes an epoch only if the loader has these methods. The sampler does the work."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class ClipBatches:
    """The clips of one data config.

    Args:
        data: What to read.
        batch_size: Clips in a batch, on each process.
        workers: Processes that decode, at most one for each available core; 0 decodes in this process.
        seed: Seed of everything random.
        cache: A folder on a fast disk for decoded clips; see `horst.data.cache`.
        source: The data set, if it is open already.
        decoded: Splits whose clips are in memory already.
    """

    def __init__(
        self,
        data: DataConfig,
        *,
        batch_size: int = 8,
        workers: int = 0,
        seed: int = 0,
        cache: str | None = None,
        source: Source | None = None,
        decoded: Mapping[Split, PreloadedClips] | None = None,
    ) -> None:
        super().__init__()
        check_positive(batch_size=batch_size)
        if type(workers) is not int or workers < 0:
            raise ConfigError(f"workers is {workers!r}; it takes a whole number from 0 on")
        self.data, self.batch_size, self.seed, self.cache = data, batch_size, seed, cache
        self.workers = min(workers, available_cores())  # torch warns of more, which are slower
        self.decoded: dict[Split, PreloadedClips] = dict(decoded or {})
        if source is not None:
            self.source = source

    @cached_property
    def source(self) -> Source:
        return open_source(self.data)

    @property
    def annotations(self) -> Annotations:
        """Annotations of all splits; `classes` names what models predict."""
        return self.source.annotations

    def evaluation_loader(
        self, split: Split = "val", clip: ClipConfig | None = None, share: tuple[int, int] | None = None
    ) -> ClipLoader:
        """All clips of a split. Over all processes each clip comes exactly once; unreadable ones are in `Batch.bad`.

        `clip` replaces the config's own, for a model with another frame size or rate. `share` (parts, part): a part of
        the batches, whatever process this is.
        """
        clip = clip or self.data.clip
        replicas, rank = world_and_rank() if share is None else share
        lengths = clip_lengths(self.source, split, clip)
        sampler = EvaluationSampler(lengths, self.batch_size, replicas=replicas, rank=rank)
        return self.loader(split, sampler, clip)

    def loader(self, split: Split, sampler: ClipSampler, clip: ClipConfig, *, read: bool = True) -> ClipLoader:
        """Batches as `sampler` picks them. Without `read`, those of clips in memory may have places for frames."""
        decoded = self.decoded.get(split)
        # Workers draw nothing; without a generator the loader would draw from the global one.
        generator = torch.Generator().manual_seed(self.seed)
        if decoded is not None and decoded.dataset.config == clip:
            collated = Batch.read if read else lambda batch: batch
            return ClipLoader(decoded, batch_sampler=sampler, collate_fn=collated, generator=generator)
        return ClipLoader(
            ClipDataset(self.source, split, clip, self.cache),
            batch_sampler=sampler,
            num_workers=self.workers,
            worker_init_fn=worker_init(),
            collate_fn=collate,
            pin_memory=torch.cuda.is_available(),
            persistent_workers=self.workers > 0,
            generator=generator,
        )


def world_and_rank() -> tuple[int, int]:
    """(number of processes, number of this one); (1, 0) if nothing is distributed."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size(), dist.get_rank()
    return 1, 0


def gather(tensors: dict[str, Tensor], extra: Any) -> list[tuple[dict[str, Tensor], Any]]:
    """(tensors, extra) of every process, by rank. Shapes and names may differ; `extra` is a small picklable object.

    Tensors are broadcast one by one: pickling them together would take several times their memory.
    """
    processes, rank = world_and_rank()
    if processes == 1:
        return [(tensors, extra)]
    shapes = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    everyone: list[Any] = [None] * processes
    dist.all_gather_object(everyone, (shapes, extra))
    device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
    gathered: list[tuple[dict[str, Tensor], Any]] = []
    for source, (their_shapes, their_extra) in enumerate(everyone):
        received = {}
        for name, (shape, dtype) in their_shapes.items():
            tensor = torch.empty(shape, dtype=dtype, device=device)
            if source == rank:
                tensor.copy_(tensors[name])
            if tensor.numel():
                dist.broadcast(tensor, src=source)
            received[name] = tensor.cpu()
        gathered.append((received, their_extra))
    return gathered
