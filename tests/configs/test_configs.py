"""Packaged configs: found by name, copied for editing, and resolved to what they were as complete files."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from horst.configs import FOLDER, config_name, copy_configs, described, find_config, list_configs
from horst.errors import ConfigError
from horst.studies.config import Study
from horst.studies.plan import plan
from horst.training.config import RunConfig, TrainerOptions

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "goldens/configs.json").read_text())
RUNS = [name for name in list_configs() if not name.startswith("studies/")]
RENAMED: dict[str, tuple[str, dict[Any, Any]]] = {
    "batches.preload": ("batches.resident", {None: False, "device": True}),
}
"""Entries that have another name in the golden: {name: (name there, {value: value there})}."""
ADDED = (
    *("loss.options", "optimiser.options", "model.init_backbone"),
    *("augment.speed", "loss.balance", "loss.near", "trainer.window", "data.clip.sequence"),
    *("trainer.loggers", "trainer.logger_options", "trainer.log_every", "trainer.threads"),
    *("augment.excerpt", "optimiser.backbone_lr"),
    *("augment.choose", "augment.zoom", "trainer.deterministic"),
)
"""Entries that the golden has only where they are not empty, or not what they are by default."""


def flat(data: Any, where: str = "") -> dict[str, Any]:
    """Entries by dotted keys, as they were named when the golden was made; paths relative to the current directory."""
    if isinstance(data, dict) and data:
        return {k: v for key, value in data.items() for k, v in flat(value, f"{where}.{key}".lstrip(".")).items()}
    if isinstance(data, str) and data.startswith("/"):
        data = os.path.relpath(data)
    if where in ADDED and (not data or data == getattr(TrainerOptions(), where.removeprefix("trainer."), None)):
        return {}
    if where in RENAMED:
        before, values = RENAMED[where]
        return {before: values.get(data, data)}
    return {where: data}


@pytest.mark.parametrize("name", GOLDEN["runs"])
def test_runs_resolve_to_the_same_config(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert flat(RunConfig.from_file(name).to_dict()) == {**GOLDEN["common"], **GOLDEN["runs"][name]}


def test_all_runs_and_studies_are_there() -> None:
    assert set(GOLDEN["runs"]) <= set(RUNS)
    assert set(list_configs("studies/*")) >= {f"studies/{name}" for name in GOLDEN["studies"]}


@pytest.mark.parametrize("name", GOLDEN["studies"])
def test_studies_have_the_same_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {}
    for job in plan(Study.from_file(name), tmp_path):
        text = json.dumps(flat(job.config.to_dict()), sort_keys=True)
        found[job.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert found == GOLDEN["studies"][name]


def test_patterns() -> None:
    assert list_configs("*/cpu") == ["kitchen/cpu", "somethings/cpu"]
    assert list_configs("ssv2/ablations/order_1_*") == [
        "ssv2/ablations/order_1_paper",
        "ssv2/ablations/order_1_released",
    ]
    assert not list_configs("bases/*")
    assert list_configs("nothing") == []


@pytest.mark.parametrize("name", ["somethings/cpu", "somethings/cpu.yaml", "configs/somethings/cpu.yaml"])
def test_names(name: str) -> None:
    assert find_config(name) == FOLDER / "somethings/cpu.yaml"
    assert config_name(find_config(name)) == "somethings/cpu"


def test_files_win_over_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = Path("somethings/cpu.yaml")
    own.parent.mkdir()
    own.touch()
    assert find_config("somethings/cpu.yaml") == own
    assert config_name(own) == str(own)
    assert find_config("somethings/cpu") == FOLDER / "somethings/cpu.yaml"
    assert find_config("table1", "studies") == find_config("studies/table1") == FOLDER / "studies/table1.yaml"
    for name, folder, close in (
        ("somethings/cup", "", "'somethings/cpu'"),
        ("tabel1", "studies", "'table1'"),
        ("../configs/somethings/cpu", "", "'somethings/cpu'"),
    ):
        with pytest.raises(ConfigError, match=rf"{name}: there is no such file.*, did you mean {close}"):
            find_config(name, folder)


@pytest.mark.parametrize("pattern", ["somethings/cnn3d", "ek55/horst_paper", "ssv2/ablations/order_1_paper"])
def test_copies_resolve_to_the_same_run(pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    copies = copy_configs(pattern, "mine")
    assert all(Path("mine") in copy.parents for copy in copies)
    copy = RunConfig.from_file(f"mine/{pattern}.yaml")
    assert flat(copy.to_dict()) == flat(RunConfig.from_file(pattern).to_dict())
    (base,) = (copy for copy in copies if copy.name in ("gpu.yaml", "paper.yaml"))
    base.write_text(base.read_text().replace("decay: 0.", "decay: 0.1"))
    assert RunConfig.from_file(f"mine/{pattern}.yaml").schedule.decay < 0.2  # the copy of the base is read


def test_copies_of_studies_have_the_same_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    copy_configs("studies/table1", "mine")
    jobs = [plan(Study.from_file(file), "x") for file in ("mine/studies/table1.yaml", "table1")]
    assert [flat(job.config.to_dict()) for job in jobs[0]] == [flat(job.config.to_dict()) for job in jobs[1]]


def test_copies_replace_nothing(tmp_path: Path) -> None:
    copies = copy_configs("*/cpu", tmp_path)
    assert sorted(copies) == sorted(copy_configs("*/cpu", tmp_path))  # the same contents
    copies[0].write_text("mine")
    copies[1].unlink()
    with pytest.raises(ConfigError, match=r"cpu.yaml exists: delete it or choose another folder"):
        copy_configs("*/cpu", tmp_path)
    assert copies[0].read_text() == "mine"
    assert not copies[1].exists()
    with pytest.raises(ConfigError, match="no packaged config matches 'somethings/cup', did you mean 'somethings/cpu'"):
        copy_configs("somethings/cup", tmp_path)


def test_torch_is_not_needed() -> None:
    code = "import sys, horst.configs; horst.configs.list_configs(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_own_files_on_packaged_bases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mine = write(
        tmp_path / "mine.yaml", "{base: somethings/gpu, name: mine, data: {folder: clips}, trainer: {epochs: 3}}"
    )
    found, base = RunConfig.from_file(mine), RunConfig.from_file("somethings/gpu")
    assert found.data.options == {**base.data.options, "folder": str(tmp_path / "clips")}
    assert (found.name, found.trainer.epochs, found.trainer.graphs) == ("mine", 3, True)
    inner = tmp_path / "inner"
    inner.mkdir()
    other = write(inner / "other.yaml", "{base: ../mine.yaml, name: other, model: {name: conv_lstm_tiny}}")
    found = RunConfig.from_file(other, ["trainer.epochs=4"])
    assert found.model.options == {}  # those of the base are of another model
    assert Path(found.data.options["folder"]).resolve() == tmp_path / "clips"
    assert found.trainer.epochs == 4
    write(inner / "third.yaml", "{base: other.yaml, name: third, data: {source: folder, root: here}}")
    assert RunConfig.from_file(inner / "third.yaml").data.options == {"root": str(inner / "here")}


def test_what_is_wrong_with_a_base_is_said(tmp_path: Path) -> None:
    for text, says in (
        ("{base: somethings/gpu}", "a.yaml: the config needs the entry 'name'"),
        (
            "{base: somethings/gup, name: a}",
            "a.yaml: somethings/gup: there is no such file.*did you mean 'somethings/gpu'",
        ),
        ("{base: 3, name: a}", "a.yaml: base is 3; it takes text"),
        ("{base: a.yaml, name: a}", "a.yaml: base is a.yaml, which is based on this file"),
        ("[]", r"a.yaml holds \[\]; a run is a mapping"),
    ):
        with pytest.raises(ConfigError, match=says):
            RunConfig.from_file(write(tmp_path / "a.yaml", text))


def test_every_config_says_what_it_is_for() -> None:
    assert described("kitchen/gpu") == "Anticipation on one GPU"
    assert [name for name in list_configs() if not described(name)] == []
