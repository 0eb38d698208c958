"""CUDA graphs on a real GPU: in several processes, and for models that cannot be captured.

Two processes share the GPU and exchange gradients by gloo, because NCCL accepts one process per GPU.
"""

from __future__ import annotations

import logging
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from horst.models import Predictor, create_model
from horst.training.network import CUDAGraphNetwork, TrainingNetwork

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
CLIPS, FRAMES, SIZE, STEPS = 4, 8, (32, 32), 3


def small(norm: str = "none") -> Predictor:
    torch.manual_seed(0)
    options: dict[str, Any] = {"order": 2, "hidden": [8, 8], "stride": [1, 2], "size": SIZE, "norm": norm}
    return create_model("horst_tiny", num_classes=5, variant="released", **options).cuda()


class Step(nn.Module):
    """What `DistributedDataParallel` wraps: the loss of a part of the batch, with graphs or without."""

    def __init__(self, network: TrainingNetwork, graphs: CUDAGraphNetwork | None) -> None:
        super().__init__()
        self.network, self.graphs = network, graphs

    def forward(self, frames: Tensor, labels: Tensor) -> Tensor:
        valid = torch.ones(frames.shape[:2], dtype=torch.bool, device="cuda")
        logits, *_ = (self.graphs or self.network)(frames, valid)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.repeat_interleave(FRAMES))


def train(norm: str, graphs: bool, rank: int, processes: int) -> dict[str, Tensor]:
    torch.backends.cudnn.allow_tf32 = False  # also in processes that pytest has not set up
    torch.backends.cudnn.deterministic = True  # in float32 cuDNN prefers algorithms that do not repeat
    network = TrainingNetwork(small(norm))
    graphed = CUDAGraphNetwork(network, processes=processes) if graphs else None
    step: nn.Module = Step(network, graphed)
    if processes > 1:
        with torch.cuda.stream(torch.cuda.Stream()):  # as Lightning does: no capture may wait for the default stream
            step = DistributedDataParallel(step)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    generator, part = (
        torch.Generator().manual_seed(1),
        slice(rank * CLIPS // processes, (rank + 1) * CLIPS // processes),
    )
    for _ in range(STEPS):
        frames = torch.randint(0, 256, (CLIPS, FRAMES, 3, *SIZE), dtype=torch.uint8, generator=generator)
        labels = torch.randint(0, 5, (CLIPS,), generator=generator)
        optimiser.zero_grad()
        step(frames[part].cuda(), labels[part].cuda()).backward()
        optimiser.step()
    assert graphed is None or (len(graphed.captured) == 1 and not graphed.failed)
    return {name: value.cpu() for name, value in network.state_dict().items()}


def replica(rank: int, root: Path, port: int) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for norm in ("none", "batch"):
        for graphs in (False, True):
            torch.save(train(norm, graphs, rank, 2), root / f"{norm}-{graphs}-{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("replicas")
    small_runs.by_itself(__file__, root)
    return root


@pytest.mark.parametrize("norm", ["none", "batch"])  # a head whose batch norms exchange statistics stays outside
def test_two_processes_with_graphs_train_the_same(replicas: Path, norm: str) -> None:
    """As without graphs to the last bit in float32, and as one process with all clips."""
    alone = train(norm, True, 0, 1)
    plain, graphed = (torch.load(replicas / f"{norm}-{graphs}-0.pt") for graphs in (False, True))
    other = torch.load(replicas / f"{norm}-True-1.pt")
    for name, value in graphed.items():
        assert torch.equal(value, plain[name]), name
        assert torch.equal(value, other[name]), name
        torch.testing.assert_close(value, alone[name], rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


class Waits(nn.Module):
    """A part that waits for the GPU, which no graph can contain."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * (1.0 if x.float().sum().item() > 0 else 2.0)


def test_a_model_that_cannot_be_captured_is_trained_without(caplog: pytest.LogCaptureFixture) -> None:
    model = small()
    model.head.fc = Waits(model.head.fc)  # type: ignore[assignment]
    graphed = CUDAGraphNetwork(TrainingNetwork(model))
    frames = torch.randint(0, 256, (2, FRAMES, 3, *SIZE), dtype=torch.uint8, device="cuda")
    valid = torch.ones(2, FRAMES, dtype=torch.bool, device="cuda")
    with caplog.at_level(logging.WARNING):
        found = [graphed(frames, valid)[0] for _ in range(2)]
    assert graphed.failed
    assert sum("CUDA graphs off" in record.message for record in caplog.records) == 1
    found[1].sum().backward()
    assert torch.equal(found[0], found[1])
    assert all(p.grad is not None for p in model.head.parameters())
    torch.randn(3, device="cuda")  # dropout goes on


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


if __name__ == "__main__":
    torch.multiprocessing.start_processes(replica, (Path(sys.argv[1]), free_port()), nprocs=2, start_method="spawn")
