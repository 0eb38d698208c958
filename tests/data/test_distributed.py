"""Two processes with Lightning's DDP do the same as one with batches twice as large."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from horst.data.augmenter import Augment
from horst.data.batches import Batch
from horst.data.config import DataConfig
from horst.data.module import ClipDataModule, lightning

pytestmark = pytest.mark.slow

EPOCHS = 2


class Recorder(lightning.LightningModule):
    """Three weights that learn a little from the colours, and a list of what they were shown."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.tensor([0.1, -0.2, 0.3]))
        self.seen: list[tuple[int, list[str], list[int]]] = []
        self.validated: list[str] = []

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        self.seen.append((self.current_epoch, list(batch.ids), batch.lengths.tolist()))
        colours = (batch.frames.float() / 255 * batch.valid[..., None, None, None]).sum((1, 3, 4))
        told = (colours / colours.sum(1, keepdim=True)) @ self.weights
        return ((told - batch.labels["action"] / 24) ** 2).mean()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self.validated += batch.ids

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def train(folder: Path, batch_size: int, **options: Any) -> dict[str, Any]:
    data = {"source": "somethings", "folder": str(folder), "clips": 23, "size": 32, "clip": {"size": [32, 32]}}
    module = ClipDataModule(
        DataConfig.from_dict(data),
        batch_size=batch_size,
        seed=5,
        prefix=(0.3, 1.0),
        drop_last=True,
        augment=Augment(magnitude=12),
    )
    model = Recorder()
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        **options,
    )
    trainer.fit(model, module)
    return {"seen": model.seen, "validated": model.validated, "weights": model.weights.tolist()}


def replica(rank: int, root: Path) -> None:
    """What each of the processes does. Its files: RANK.json with what it saw, RANK.said with what it said."""
    os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0", "GLOO_SOCKET_IFNAME": "lo"}
    os.dup2(os.open(root / f"{rank}.said", os.O_CREAT | os.O_WRONLY), 2)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{root}/meeting", rank=rank, world_size=2)
    (root / f"{rank}.json").write_text(json.dumps(train(root / "data", 2, devices=2, strategy="ddp")))
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any], list[str]]:
    """The folder of the data, what each process saw, and what each said."""
    root = tmp_path_factory.mktemp("replicas")
    subprocess.run([sys.executable, __file__, str(root)], check=True, timeout=60)
    seen = [json.loads((root / f"{rank}.json").read_text()) for rank in range(2)]
    return root / "data", seen, [(root / f"{rank}.said").read_text() for rank in range(2)]


def test_one_process_makes_the_data(replicas: tuple[Path, list[Any], list[str]]) -> None:
    """Both opened a folder that was not there."""
    assert sorted("packing somethings" in said for said in replicas[2]) == [False, True]


@pytest.mark.filterwarnings("ignore:.*num_workers.*", "ignore:.*log_every_n_steps.*", "ignore:.*isinstance.*treespec")
def test_training_matches_one_process(replicas: tuple[Path, list[Any], list[str]]) -> None:
    folder, (first, second), _ = replicas
    alone = train(folder, 4, devices=1)
    assert len(first["seen"]) == len(second["seen"]) == len(alone["seen"]) == EPOCHS * 4
    for (epoch, ids, lengths), one, two in zip(alone["seen"], first["seen"], second["seen"], strict=True):
        assert one[0] == two[0] == epoch
        assert len(one[1]) == len(two[1]) == 2
        assert dict(zip(one[1] + two[1], one[2] + two[2], strict=True)) == dict(zip(ids, lengths, strict=True))
    assert first["weights"] == second["weights"]  # gradients were averaged
    assert first["weights"] == pytest.approx(alone["weights"], rel=1e-5)
    assert first["weights"] != pytest.approx(Recorder().weights.tolist(), rel=1e-2)


def test_evaluation_sees_each_clip_once(replicas: tuple[Path, list[Any], list[str]]) -> None:
    folder, parts, _ = replicas
    data = DataConfig.from_dict({"source": "packed", "folder": str(folder / "packed")})
    wanted = sorted(e.id for e in ClipDataModule(data, batch_size=1).annotations.split("val").examples)
    count = len(wanted) * EPOCHS
    assert sorted(chain(*(part["validated"] for part in parts))) == sorted(EPOCHS * wanted)
    assert {len(part["validated"]) for part in parts} != {count}  # one alone did not see all


if __name__ == "__main__":  # forked: to import everything twice takes longer than all the rest
    torch.multiprocessing.start_processes(replica, (Path(sys.argv[1]),), nprocs=2, start_method="fork")
