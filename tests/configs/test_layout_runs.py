"""Runs on the feature layouts of others: each fits data of the public widths in its layout, and takes a step."""

from __future__ import annotations

from pathlib import Path

import layouts
import pytest
import torch
import yaml

from horst.cli import main
from horst.configs import described, list_configs
from horst.training.config import RunConfig
from horst.training.fit import prepare

THUMOS = ("rgb_kinetics_resnet50", "flow_kinetics_bninception")
SALADS = ("cut_tomato", "action_start", "action_end")
NAMES = [name for group in ("thumos14", "50salads", "egtea") for name in list_configs(f"{group}/*")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data/ as docs/guides/data.md lists it."""
    root = tmp_path_factory.mktemp("layouts")
    layouts.write_lstr(root / "data", name="THUMOS", features=THUMOS, channels=(2048, 1024))
    several = {"train_1": [1] * 40 + [0] * 80 + [2] * 20, "test_1": [1, 0] * 30}
    layouts.write_ms_tcn(root / "data", several, name="50salads", labels=SALADS, channels=2048)
    vectors = root / "data/egtea/TSN-C_3_egtea_action_CE_s1_rgb_model_best_fcfull_hd"
    layouts.write_egtea(root / "data/egtea/annotations", vectors, split=1, channels=1024)
    return root


@pytest.mark.parametrize("name", NAMES)
def test_a_dry_run_fits_the_public_features(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    assert main(["train", name, "--dry-run", "--batches.workers", "0"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["name"] == name.replace("/", "-")
    assert described(name)


def test_every_layout_has_a_run() -> None:
    sources = {RunConfig.from_file(name).data.source for name in NAMES}
    assert sources == {"lstr", "ms_tcn", "rulstm_lmdb"}


@pytest.mark.parametrize("name", ["thumos14/horst", "50salads/horst"])
def test_its_model_reads_the_features(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In training mode, with gradients everywhere: in windows, as the run trains."""
    monkeypatch.chdir(place)
    data, module = prepare(RunConfig.from_file(name, ["batches.workers=0", "batches.size=1"]))
    batch = next(iter(data.evaluation_loader("train")))
    for _, found in module.network.train().windows(batch.frames, batch.valid, 50):
        torch.stack([one.float().square().mean() for one in found]).sum().backward()
    silent = [key for key, p in module.network.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert not silent
    assert found[0].shape[-1] == len(data.annotations.classes["action"])


def test_other_widths_are_named(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    layouts.write_lstr(tmp_path, name="THUMOS", features=THUMOS, channels=(2048, 2048))
    assert main(["train", "thumos14/gru", "--dry-run", "--data.folder", str(tmp_path / "THUMOS")]) == 2
    assert "channels of the backbone to 4096" in " ".join(capsys.readouterr().err.split())
