"""Two nodes, as torchrun starts them on two machines: they train what one process trains, into one folder."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import small_runs
import torch
import yaml

from horst import remote
from horst.training.fit import train
from horst.training.run import Run

pytestmark = [pytest.mark.slow, pytest.mark.integration]
NODES = 2


def torchrun(nodes: int, words: list[str], folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    environment |= {"GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={nodes}", f"--nproc-per-node={NODES // nodes}"]
    command += ["--master-addr=127.0.0.1", f"--master-port={port}"]
    started = []
    for node in range(nodes):
        with (folder / f"node{node}.log").open("w") as log:
            given = [*command, f"--node-rank={node}", "-m", "horst", *words]
            started.append(subprocess.Popen(given, env=environment, stdout=log, stderr=log))
    try:
        for node, process in enumerate(started):
            assert process.wait(120) == 0, (folder / f"node{node}.log").read_text()[-3000:]
    finally:
        for process in started:
            process.kill()


def test_two_nodes_train_what_one_process_trains(tmp_path: Path) -> None:
    """From nothing: one of them makes the clips and the folder of the run, which is an address."""
    changes = {"optimiser": {"name": "sgd", "lr": 0.02, "lookahead": False}}
    two = small_runs.plain(tmp_path / "made", **changes, batches={"size": 2}, trainer={"nodes": NODES, "epochs": 2})
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(two))
    address = f"file://{tmp_path}/store/run"
    torchrun(NODES, ["train", str(tmp_path / "run.yaml"), "--folder", address, "--evaluate"], tmp_path)
    told = [(tmp_path / f"node{node}.log").read_text() for node in range(NODES)]
    assert [f"{address}: horst_tiny" in text for text in told] == [True, False]
    assert ["done, best area" in text for text in told] == [True, False]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    one = small_runs.config(tmp_path / "made", **changes, batches={"size": 2 * NODES}, trainer={"epochs": 2})
    alone = train(one, tmp_path / "alone", console=small_runs.silent())
    torch.set_num_threads(threads)
    remote.forget(address)
    run = Run(address)
    assert run.evaluation("val").is_file()
    found, expected = small_runs.weights(run.last), small_runs.weights(alone.last)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-5)
    for a, b in zip(small_runs.metrics(run.folder), small_runs.metrics(alone.folder), strict=True):
        assert {k: float(v) for k, v in a.items()} == pytest.approx({k: float(v) for k, v in b.items()}, abs=1e-4)
