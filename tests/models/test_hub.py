"""A saved folder is a repository of the Hugging Face Hub, and one there is loaded by its address."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import huggingface_hub
import huggingface_hub.errors
import pytest
import torch
import yaml
from small_hub import COMMIT, hub

import horst
from horst.errors import CheckpointError, MissingExtraError
from horst.models import Predictor, create_model


def small() -> Predictor:
    torch.manual_seed(0)
    options: dict[str, Any] = {"hidden": (4,), "stride": (1,), "backbone": {"name": "stem", "widths": [4]}}
    return create_model("horst_tiny", num_classes=2, labels={"action": ["up", "down"]}, **options).eval()


def test_a_model_is_loaded_from_the_hub(tmp_path: Path) -> None:
    """By huggingface_hub itself, from a server that answers as the Hub does."""
    folder = small().save_pretrained(tmp_path / "model")
    (folder / "pytorch_model.bin").write_bytes(b"never fetched")
    with hub({"some-one/a.model": folder}, tmp_path / "cache") as asked:
        for address in ("hf://some-one/a.model", "hf://some-one/a.model@v1.0"):
            model = horst.open_model(address)
            assert model.labels == {"action": ["up", "down"]}
            assert all(torch.equal(a, b) for a, b in zip(model.parameters(), small().parameters(), strict=True))
        fetched = {path.rpartition("/")[2] for path in asked if "/resolve/" in path}
        assert fetched == {"config.json", "model.safetensors", "labels.json"}
        assert {path.rpartition("/")[2] for path in asked if "/revision/" in path} == {"main", "v1.0"}
        with pytest.raises(CheckpointError, match=r"hf://some-one/none cannot be fetched: .*; check the name"):
            horst.open_model("hf://some-one/none")


def test_errors_name_the_address_and_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("hf://", "hf://name", "hf://a/b/c", "hf://a/b@", "hf://a b/c"):
        with pytest.raises(CheckpointError, match="write hf://user/name"):
            horst.open_model(address)

    for error, remedy in (
        (
            huggingface_hub.errors.LocalEntryNotFoundError,
            "; the Hub cannot be reached and there is no cached copy: go online",
        ),
        (huggingface_hub.errors.OfflineModeIsEnabled, "; the Hub cannot be reached"),
        (partial(huggingface_hub.errors.RepositoryNotFoundError, response=Mock()), "; check the name, or log in"),
        (partial(huggingface_hub.errors.RevisionNotFoundError, response=Mock()), "; check its branches and tags"),
        (OSError, "$"),
    ):
        failing = Mock(side_effect=error("it failed\nand a long story"))
        monkeypatch.setattr(huggingface_hub, "snapshot_download", failing)
        with pytest.raises(CheckpointError, match=f"hf://a/b cannot be fetched: it failed{remedy}"):
            horst.open_model("hf://a/b")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'horst-video\[hub\]'"):
        horst.open_model("hf://a/b")


def test_cards_are_written_and_those_of_users_kept(tmp_path: Path) -> None:
    folder = small().save_pretrained(tmp_path / "model")
    _, front, text = (folder / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(front)["library_name"] == "horst"
    assert "license" not in front
    assert "frames of 112x112, 12 frames per second; 2 classes of action" in text
    assert "\n# model\n" in text
    assert "\n# mine\n" in (small().save_pretrained(tmp_path / "best", name="mine") / "README.md").read_text()
    other = create_model("horst_tiny", num_classes=3, size=(32, 48), hidden=(4,), stride=(1,))
    assert "32x48" in (other.save_pretrained(folder, overwrite=True) / "README.md").read_text()
    (folder / "README.md").write_text("# Mine\n")
    small().save_pretrained(folder, overwrite=True)
    assert (folder / "README.md").read_text() == "# Mine\n"


def test_a_model_is_uploaded_and_opened_again(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    model = small()
    with hub({"some-one/new": tmp_path / "repo"}, tmp_path / "cache"):
        url = model.push_to_hub("some-one/new", message="First version")
        assert url.endswith("/some-one/new/commit/" + COMMIT)
        names = {file.name for file in (tmp_path / "repo").iterdir()}
        assert names == {"config.json", "model.safetensors", "labels.json", "README.md"}
        assert "\n# new\n" in (tmp_path / "repo" / "README.md").read_text()
        again = Predictor.from_pretrained("hf://some-one/new")
        assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))
        with pytest.raises(CheckpointError, match="some-one/none cannot be uploaded"):
            model.push_to_hub("some-one/none")
    with pytest.raises(CheckpointError, match="write user/name"):
        model.push_to_hub("mine")
