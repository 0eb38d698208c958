"""Processes of a distributed run: how many there are, and an exact gather of what each of them holds."""

from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist


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
