"""The processes of a distributed evaluation, for test_recognition: each writes its results to a folder."""

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

PROCESSES = 2


def replica(rank: int, model: str, data: str, batch_size: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = f"file://{Path(folder).absolute()}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=PROCESSES)
    module = ClipDataModule(DataConfig.from_file(data), batch_size=batch_size)
    found = predict(horst.open_model(model), module, progress=False)
    found.save(Path(folder) / f"{rank}.safetensors")
    evaluation = evaluate_predictions(found, module.annotations, "val", module.data.clip)
    evaluation.save(Path(folder) / f"{rank}.json")
    dist.destroy_process_group()


if __name__ == "__main__":  # forked: importing everything twice would take longer than the rest
    model, data, batch_size, folder = sys.argv[1:]
    args = model, data, int(batch_size), folder
    torch.multiprocessing.start_processes(replica, args, nprocs=PROCESSES, start_method="fork")
