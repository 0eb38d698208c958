"""A saved folder is a repository of the Hugging Face Hub, and one there is loaded by its address."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import huggingface_hub
import pytest
import torch
import yaml
from small_hub import hub

import horst
from horst.errors import CheckpointError, MissingExtraError
from horst.models import Predictor, create_model


def small() -> Predictor:
    torch.manual_seed(0)
    options: dict[str, Any] = {"hidden": (4,), "stride": (1,), "backbone": {"name": "stem", "widths": [4]}}
    return create_model("horst_tiny", num_classes=2, labels={"action": ["up", "down"]}, **options).eval()


def test_a_model_is_loaded_from_the_hub(tmp_path: Path) -> None:
    """By huggingface_hub itself, from a server that answers as the Hub does."""
    folder = horst.save(small(), tmp_path / "model")
    (folder / "pytorch_model.bin").write_bytes(b"never fetched")
    with hub({"some-one/a.model": folder}, tmp_path / "cache") as asked:
        for address in ("hf://some-one/a.model", "hf://some-one/a.model@v1.0"):
            model = horst.load(address)
            assert model.labels == {"action": ["up", "down"]}
            assert all(torch.equal(a, b) for a, b in zip(model.parameters(), small().parameters(), strict=True))
        fetched = {path.rpartition("/")[2] for path in asked if "/resolve/" in path}
        assert fetched == {"config.json", "model.safetensors", "labels.json"}
        assert {path.rpartition("/")[2] for path in asked if "/revision/" in path} == {"main", "v1.0"}
        with pytest.raises(CheckpointError, match=r"hf://some-one/none cannot be fetched: .*; check the name"):
            horst.load("hf://some-one/none")


def test_what_can_go_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("hf://", "hf://name", "hf://a/b/c", "hf://a/b@", "hf://a b/c"):
        with pytest.raises(CheckpointError, match="it is written hf://user/name"):
            horst.load(address)

    for error, remedy in (
        (
            huggingface_hub.errors.LocalEntryNotFoundError,
            "; the Hub is not reached and no copy is kept here: go online",
        ),
        (huggingface_hub.errors.OfflineModeIsEnabled, "; the Hub is not reached"),
        (partial(huggingface_hub.errors.RepositoryNotFoundError, response=Mock()), "; check the name, or log in"),
        (partial(huggingface_hub.errors.RevisionNotFoundError, response=Mock()), "; look for its branches and tags"),
        (OSError, "$"),
    ):
        failing = Mock(side_effect=error("it failed\nand a long story"))
        monkeypatch.setattr(huggingface_hub, "snapshot_download", failing)
        with pytest.raises(CheckpointError, match=f"hf://a/b cannot be fetched: it failed{remedy}"):
            horst.load("hf://a/b")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'horst\[hub\]'"):
        horst.load("hf://a/b")


def test_the_card_is_written_and_a_written_one_is_kept(tmp_path: Path) -> None:
    folder = horst.save(small(), tmp_path / "model")
    _, front, text = (folder / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(front)["library_name"] == "horst"
    assert "license" not in front
    assert "frames of 112x112, 12 a second; 2 classes of action" in text
    assert "\n# model\n" in text
    assert "\n# mine\n" in (horst.save(small(), tmp_path / "best", name="mine") / "README.md").read_text()
    other = create_model("horst_tiny", num_classes=3, size=(32, 48), hidden=(4,), stride=(1,))
    assert "32x48" in (horst.save(other, folder, overwrite=True) / "README.md").read_text()
    (folder / "README.md").write_text("# Mine\n")
    horst.save(small(), folder, overwrite=True)
    assert (folder / "README.md").read_text() == "# Mine\n"
