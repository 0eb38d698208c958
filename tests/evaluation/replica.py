"""One process of a distributed evaluation, run by test_recognition: what it finds is written to a folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import distributed as dist

import horst
from horst.data.config import DataConfig
from horst.data.module import ClipDataModule
from horst.evaluation.evaluate import evaluate_predictions, predict


def main(model: str, data: str, batch_size: str, rank: str, replicas: str, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = f"file://{Path(folder).absolute()}/store"
    dist.init_process_group("gloo", init_method=store, rank=int(rank), world_size=int(replicas))
    module = ClipDataModule(DataConfig.from_file(data), batch_size=int(batch_size))
    found = predict(horst.open_model(model), module, progress=False)
    found.save(Path(folder) / f"{rank}.safetensors")
    evaluate_predictions(found, module.annotations, "val", module.data.clip).save(Path(folder) / f"{rank}.json")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
