"""What all processes of a distributed run hold, on each of them: exact, whatever the shares are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist


def place() -> tuple[int, int]:
    """(processes, which of them this is); (1, 0) where nothing is distributed."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size(), dist.get_rank()
    return 1, 0


def gather(tensors: dict[str, Tensor], told: Any) -> list[tuple[dict[str, Tensor], Any]]:
    """(tensors, told) of every process, in their order. Shapes and names may differ; `told` is small plain data.

    Tensors are broadcast one by one: pickled together they would take several times their memory.
    """
    processes, rank = place()
    if processes == 1:
        return [(tensors, told)]
    kinds = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    everybody: list[Any] = [None] * processes
    dist.all_gather_object(everybody, (kinds, told))
    device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
    found: list[tuple[dict[str, Tensor], Any]] = []
    for source, (theirs, said) in enumerate(everybody):
        received = {}
        for name, (shape, dtype) in theirs.items():
            tensor = torch.empty(shape, dtype=dtype, device=device)
            if source == rank:
                tensor.copy_(tensors[name])
            if tensor.numel():
                dist.broadcast(tensor, src=source)
            received[name] = tensor.cpu()
        found.append((received, said))
    return found
