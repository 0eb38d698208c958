"""A Ray cluster of two nodes, one of which is killed on the way: 8 runs and 200 clips, as on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import small_cluster  # before ray: it sets variables
import small_runs
import torch
import yaml

from horst.cli import main
from horst.data.features import open_features
from horst.training.fit import train

CLIPS = 200


@pytest.fixture(scope="module")
def nodes() -> Iterator[small_cluster.TwoNodes]:
    with small_cluster.two_nodes() as nodes:
        yield nodes


def test_eight_runs(
    nodes: small_cluster.TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their table, and all weights, to the last digit. Then the evaluation of one of them in parts."""
    nodes.add_second()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    changes = {**small_cluster.STUDY["changes"], "trainer.epochs": 6}
    data = {"templates": 4, "clips": 48}
    file = small_cluster.study(tmp_path, data, seeds=[0, 1, 2, 3], changes=changes)
    local, remote = tmp_path / "a/local", tmp_path / "b/remote"
    assert main(["study", file, "--folder", str(local), "--parallel", "2"]) == 0
    capsys.readouterr()
    with nodes.killed_when(lambda: len(list(remote.glob("*/evaluation/val.json"))) == 3):
        assert main(["study", file, "--folder", str(remote), "--ray", nodes.address]) == 0
    told = capsys.readouterr().out
    assert nodes.second is None
    assert told.count("tried again") == 1
    assert told.count(": done") == 8  # one may have been done before its node was lost
    table = small_cluster.results(local)
    assert len(table["runs"]) == 8
    assert len({str(run["metrics"]) for run in table["runs"]}) > 1
    assert small_cluster.results(remote) == table
    for run in sorted(path.parent.name for path in local.glob("*/config.yaml")):
        small_runs.assert_same(small_runs.weights(remote / run / "best"), small_runs.weights(local / run / "best"))

    nodes.add_second()
    run = remote / "s3-seed1"
    before = (run / "evaluation/val.safetensors").read_bytes()
    (run / "evaluation/val.safetensors").unlink()
    assert main(["evaluate", str(run), "--ray", nodes.address, "--parts", "3"]) == 0
    assert (run / "evaluation/val.safetensors").read_bytes() == before
    assert not list((run / "evaluation").glob(".*part*"))


def test_extraction(nodes: small_cluster.TwoNodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file twice, none missing, and every one as on one machine."""
    nodes.add_second()
    data = {**small_runs.plain(tmp_path / "made")["data"], "clips": CLIPS}
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(data))
    local, remote = tmp_path / "local", tmp_path / "remote"
    words = ["--backbone", "efficientnet_lite0", "--options", "{pretrained: true}"]
    with nodes.killed_when(lambda: len(list(remote.glob("*.maps"))) >= CLIPS // 4):
        arguments = ["extract", str(tmp_path / "data.yaml"), str(remote), *words]
        assert main([*arguments, "--ray", nodes.address, "--parts", "4"]) == 0
    told = capsys.readouterr().out
    assert nodes.second is None
    assert "tried again" in told
    assert f"{CLIPS} videos are in" in told
    torch.set_num_threads(1)
    assert main(["extract", str(tmp_path / "data.yaml"), str(local), *words]) == 0
    names = sorted(path.name for path in local.iterdir() if not path.name.startswith("."))
    assert len([name for name in names if name.endswith(".maps")]) == CLIPS
    assert sorted(path.name for path in remote.iterdir() if not path.name.startswith(".")) == names
    assert not list(remote.glob(".*partial"))
    assert all((remote / name).read_bytes() == (local / name).read_bytes() for name in names)
    assert len(open_features(remote).annotations.examples) == CLIPS


def test_training_on_two_nodes(
    nodes: small_cluster.TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is killed, another one takes its place, and the run is resumed: it is that of one process."""
    nodes.add_second()
    monkeypatch.chdir(tmp_path)
    changes = {"optimiser": {"name": "sgd", "lr": 0.02, "lookahead": False}}
    trainer = {"nodes": 2, "epochs": 8, "checkpoint_minutes": 0.0}
    two = small_runs.plain(tmp_path / "made", **changes, batches={"size": 2}, trainer=trainer)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(two))
    run = tmp_path / "run"

    def due() -> bool:
        return (run / "metrics.csv").is_file() and len(small_runs.metrics(run)) >= 2

    with nodes.killed_when(due, replace=True):
        assert main(["train", "run.yaml", "--folder", str(run), "--ray", nodes.address]) == 0
    told = capsys.readouterr().out
    assert "tried again (attempt 2 of 4)" in told
    assert "continues" in told
    torch.set_num_threads(1)
    one = small_runs.config(tmp_path / "made", **changes, batches={"size": 4}, trainer={"epochs": 8})
    alone = train(one, tmp_path / "alone", console=small_runs.silent())
    found, expected = small_runs.weights(run / "last"), small_runs.weights(alone.last)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)
