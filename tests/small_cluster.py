"""A Ray cluster of two nodes on this machine, each with one CPU, on the loopback address, and a small study for it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import small_runs
import yaml

os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # the loopback address, on Linux too
    "RAY_DEDUP_LOGS": "0",
    "GLOO_SOCKET_IFNAME": "lo",
}
STUDY: dict[str, Any] = {
    "name": "try",
    "title": "A try",
    "question": "Is S = 3 better than S = 1?",
    "base": "run.yaml",
    "changes": {"trainer.validate_every": 0, "trainer.checkpoint_minutes": 0},
    "runs": [{"name": "s3", "title": "S = 3"}, {"name": "s1", "title": "S = 1", "changes": {"model.options.order": 1}}],
    "seeds": [0],
    "against": "s3",
    "metrics": ["action/top1@25%", "area", "calibration@50%"],
}
TIMES = ("seconds", "frames_per_second", "command", "folder", "commit")  # what depends on time and place
STORE = 80 * 2**20  # bytes; the smallest that Ray takes


class TwoNodes:
    """The cluster. The second node can be killed."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        options = {"num_cpus": 1, "object_store_memory": STORE, "node_ip_address": "127.0.0.1"}
        self.cluster = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
        self.second: Any = self.cluster.add_node(**options)
        self.address = str(self.cluster.address)

    def kill_second(self) -> None:
        """Its daemon is killed, as by a power cut; its processes notice that."""
        node, self.second = self.second, None
        if node is not None:
            self.cluster.remove_node(node, allow_graceful=False)

    def add_second(self) -> None:
        if self.second is None:
            self.second = self.cluster.add_node(num_cpus=1, object_store_memory=STORE, node_ip_address="127.0.0.1")

    @contextmanager
    def killed_when(
        self, due: Callable[[], bool], *, replace: bool = False, then: Callable[[], object] | None = None
    ) -> Iterator[None]:
        """Kill the second node, from another thread, as soon as `due`; `replace`: then add another one; call `then`."""
        over = threading.Event()

        def watch() -> None:
            while not over.is_set():
                if due():
                    self.kill_second()
                    if then is not None:
                        then()
                    if replace:
                        with patch("signal.signal"):  # Ray sets a handler, which only the main thread can do
                            self.add_second()
                        over.wait()  # the processes of the node end with the thread that started them
                    return
                time.sleep(0.05)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    import ray

    nodes = TwoNodes()
    try:
        yield nodes
    finally:
        ray.shutdown()
        nodes.cluster.shutdown()


def results(folder: Path) -> dict[str, Any]:
    """The table of a study, to the last digit."""
    found = json.loads((folder / "results.json").read_text())
    return {k: [{n: v for n, v in one.items() if n not in TIMES} for one in found[k]] for k in ("rows", "runs")}


GATE = """
import time
from pathlib import Path

import torch

import horst

FILE, STEPS = Path({file!r}), 2


@horst.register_loss("gated")
class Gated(torch.nn.CrossEntropyLoss):
    \"""Waits at the second step of the process until the file is there.\"""

    def __init__(self) -> None:
        super().__init__(reduction="none")
        self.steps = 0

    def forward(self, scores, labels):
        self.steps += 1
        end = time.monotonic() + 120
        while self.steps == STEPS and not FILE.exists() and time.monotonic() < end:
            time.sleep(0.02)
        return super().forward(scores, labels)
"""


def gated(folder: Path) -> tuple[dict[str, Any], Path]:
    """Entries of runs that wait after their first checkpoint, and the file that lets them go on.

    Without it, one of two runs may have ended before the other has started: importing torch takes longer than training.
    """
    gate, code = folder / "gate", folder / "gated.py"
    code.write_text(GATE.format(file=str(gate)))
    return {"imports": [str(code)], "loss.name": "gated"}, gate


def study(folder: Path, data: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """The file of the study. `data` and `changes` replace entries of its data and its own."""
    run = small_runs.plain(folder / "made")
    (folder / "run.yaml").write_text(yaml.safe_dump({**run, "data": {**run["data"], **(data or {})}}))
    (folder / "try.yaml").write_text(yaml.safe_dump({**STUDY, **changes}))
    return str(folder / "try.yaml")
