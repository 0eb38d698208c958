"""Saved models: what is saved comes back, what is damaged is refused by name, a kill leaves nothing half-written."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import signal
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import horst
from horst.backbones import BACKBONES, PrecomputedMaps, create_backbone
from horst.backbones.stem import ConvStem
from horst.compat.parity import recorded_release
from horst.errors import CheckpointError, ConfigError
from horst.heads import create_head
from horst.models import MODELS, Predictor, create_model, load, model_config, save
from horst.models import checkpoint as checkpoint_module
from horst.models.checkpoint import checksum

SMALL: dict[str, Any] = {
    "hidden": (4, 4, 4),
    "num_classes": 2,
    "backbone": {"name": "stem", "widths": [4, 4]},
    "order": 2,
}
LABELS = {"action": ["moving something up", "moving something down"]}


def small(seed: int = 0, **options: Any) -> Predictor:
    torch.manual_seed(seed)
    return create_model("horst_tiny", **{**SMALL, "labels": LABELS, **options}).eval()


def logits(model: Predictor) -> torch.Tensor:
    x = torch.arange(2 * 3 * 16 * 16, dtype=torch.float32).view(1, 2, 3, 16, 16) % 256
    with torch.no_grad():
        return model(x)[0].logits.action


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save(small(), tmp_path / "model")


@pytest.mark.parametrize("options", [{}, {"variant": "released"}, {"attention": "joint", "heads": 2}, {"labels": None}])
def test_a_saved_model_is_loaded_again(tmp_path: Path, options: dict[str, Any]) -> None:
    model = small(**options)
    again = horst.open_model(model.save_pretrained(tmp_path / "deep" / "model"))
    assert torch.equal(logits(again), logits(model))
    assert again.labels == model.labels
    assert again.config == model.config
    assert not again.training
    assert sorted(os.listdir(tmp_path / "deep")) == ["model"]


def test_unrolling_models_with_batch_norm_are_loaded_again(tmp_path: Path) -> None:
    options = {
        "hidden": (4, 4),
        "backbone": {"name": "maps", "channels": 5},
        "num_classes": 6,
        "num_verbs": 2,
        "num_nouns": 3,
    }
    model = create_model("horst_ek55_unroll", variant="released", **options)
    x = torch.randn(2, 3, 5, 4, 4)
    model(x)  # moves the running statistics
    again = load(save(model.eval(), tmp_path / "model"))
    torch.testing.assert_close(again(x)[0].logits.noun, model(x)[0].logits.noun)


def test_half_precision_weights_load(saved: Path) -> None:
    whole = (saved / "model.safetensors").stat().st_size
    save(small(), saved, overwrite=True, half=True)
    assert (saved / "model.safetensors").stat().st_size < 0.7 * whole
    torch.testing.assert_close(logits(load(saved)), logits(small()), rtol=1e-2, atol=1e-2)


def test_all_files_have_the_same_permissions(saved: Path) -> None:
    assert len({file.stat().st_mode for file in saved.iterdir()}) == 1


def test_folder_is_plain_data(saved: Path) -> None:
    assert sorted(os.listdir(saved)) == ["README.md", "config.json", "labels.json", "model.safetensors"]
    assert json.loads((saved / "config.json").read_text())["core"]["key_value"] == "encoding+h"
    assert json.loads((saved / "labels.json").read_text()) == LABELS


def test_nothing_is_overwritten_unless_asked(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="exists; pass overwrite=True"):
        save(small(1), saved)
    assert torch.equal(logits(load(saved)), logits(small()))
    save(small(1), saved, overwrite=True)
    assert torch.equal(logits(load(saved)), logits(small(1)))
    other = tmp_path / "holiday"
    other.mkdir()
    (other / "photo.jpg").write_text("dear")
    with pytest.raises(CheckpointError, match="not a saved model, so it is not replaced"):
        save(small(), other, overwrite=True)
    assert (other / "photo.jpg").read_text() == "dear"


def change_weights(path: Path, **changes: Any) -> None:
    weights = load_file(path / "model.safetensors")
    for name, change in changes.items():
        weights = change(weights) if name == "all" else weights
    save_file(weights, path / "model.safetensors")


def rename(old: str, new: str) -> Any:
    return lambda w: {new if k == old else k: v for k, v in w.items()}


def with_(name: str, value: torch.Tensor) -> Any:
    return lambda w: {**w, name: value}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (rename("head.fc.weight", "head.fcc.weight"), r"unknown key 'head.fcc.weight', did you mean 'head.fc.weight'"),
        (lambda w: {k: v for k, v in w.items() if k != "head.fc.bias"}, "missing key 'head.fc.bias'"),
        (
            with_("core.layers.9.ff_x.0.weight", torch.zeros(1)),
            "unknown key 'core.layers.9.ff_x.0.weight', did you mean",
        ),
        (with_("head.fc.bias", torch.zeros(3)), r"'head.fc.bias' has shape \(3,\), expected \(2,\)"),
        (with_("head.fc.bias", torch.tensor([1.0, float("nan")])), "'head.fc.bias' holds NaN"),
        (with_("head.fc.bias", torch.tensor([1.0, float("inf")])), "'head.fc.bias' holds NaN or infinity"),
        (with_("head.fc.bias", torch.tensor([1, 2])), "'head.fc.bias' is torch.int64"),
    ],
)
def test_weights_that_do_not_fit_are_named(saved: Path, change: Any, message: str) -> None:
    change_weights(saved, all=change)
    with pytest.raises(CheckpointError, match=message) as error:
        load(saved)
    assert str(saved / "model.safetensors") in str(error.value)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_truncated_weights(saved: Path, share: float) -> None:
    file = saved / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError, match="damaged or no safetensors file"):
        load(saved)


def test_missing_parts(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a folder"):
        load(tmp_path / "nowhere")
    (saved / "model.safetensors").rename(saved / "weights.bin")
    with pytest.raises(CheckpointError, match=r"model\.safetensors is missing"):
        load(saved)
    (saved / "config.json").unlink()
    with pytest.raises(CheckpointError, match="is not a saved model"):
        load(saved)


def test_nothing_in_a_folder_is_executed(saved: Path, tmp_path: Path) -> None:
    trap = tmp_path / "sprung"

    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (trap,)

    (saved / "model.safetensors").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(CheckpointError, match="no safetensors file"):
        load(saved)
    torch.save(Trap(), saved / "model.safetensors")
    with pytest.raises(CheckpointError, match="no safetensors file"):
        load(saved)
    config = json.loads((saved / "config.json").read_text())
    for name in ("os.system", "builtins.eval", "__import__('os')", "horst.models.load"):
        (saved / "config.json").write_text(json.dumps({**config, "backbone": {"name": name, "options": {}}}))
        with pytest.raises(CheckpointError, match="no backbone"):
            load(saved)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "not of format 1"),
        ({"bacbone": 1}, "no entry 'bacbone', did you mean 'backbone'"),
        ({"core": 3}, "core is 3; it takes a mapping"),
        ({"core": {"in_channels": 4}}, "needs the entry 'hidden'"),
        ({"head": {"name": "recognition", "options": {"num_classes": "two"}}}, "takes a whole number"),
        ({"head": {"nam": "recognition"}}, "head has no entry 'nam', did you mean 'name'"),
        ({"size": [112]}, r"size is \[112\]; it takes a list of"),
        ({"fps": -1}, "fps is -1"),
    ],
)
def test_configs_that_do_not_fit_are_named(saved: Path, change: dict[str, Any], message: str) -> None:
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(CheckpointError, match=message) as error:
        load(saved)
    assert str(saved) in str(error.value)


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", "\x00", "[" * 100_000], ids=["empty", "open", "list", "nul", "deep"]
)
def test_invalid_json(saved: Path, content: str) -> None:
    for file in ("config.json", "labels.json"):
        before = (saved / file).read_text()
        (saved / file).write_text(content)
        with pytest.raises(CheckpointError, match=file):
            load(saved)
        (saved / file).write_text(before)


def test_labels_that_do_not_fit(saved: Path) -> None:
    for labels, message in (
        ({"action": ["one"]}, "1 labels"),
        ({"action": 3}, "a list of names"),
        ({"action": [1, 2]}, "strings"),
    ):
        (saved / "labels.json").write_text(json.dumps(labels))
        with pytest.raises(CheckpointError, match=message):
            load(saved)


def test_a_failing_rename_keeps_a_complete_model(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace
    for fails_at in (1, 2):
        calls = []

        def dies(source: Any, target: Any, calls: list[Any] = calls, fails_at: int = fails_at) -> None:
            calls.append(source)
            if len(calls) == fails_at:
                raise KeyboardInterrupt
            replace(source, target)

        monkeypatch.setattr(checkpoint_module.os, "replace", dies)
        with pytest.raises(KeyboardInterrupt):
            save(small(1), saved, overwrite=True)
        monkeypatch.setattr(checkpoint_module.os, "replace", replace)
        assert torch.equal(logits(load(saved)), logits(small()))


def test_a_kill_at_any_time_leaves_a_complete_model(tmp_path: Path) -> None:
    """A process that saves in a loop is killed; what it leaves can be loaded, and its temporary files are removed."""
    model = create_model("horst_tiny", num_classes=2)
    for delay in (0.05, 0.083, 0.131, 0.2):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            while True:
                save(model, tmp_path / "model", overwrite=True)
                os.write(writer, b".")
        os.close(writer)  # so that a child that ends is noticed
        assert os.read(reader, 1) == b"."  # saved once
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        load(tmp_path / "model")
        save(small(), tmp_path / "model", overwrite=True)
        assert os.listdir(tmp_path) == ["model"]


def test_models_of_parts_are_saved(tmp_path: Path) -> None:
    """An official checkpoint, loaded, put together and saved."""
    core, _, _ = recorded_release()
    head = create_head("recognition", core.channels, num_classes=3)
    model = Predictor(create_backbone("maps", channels=6), core, head, size=(8, 10), fps=4.0).eval()
    again = load(save(model, tmp_path / "model"))
    x = torch.randn(1, 3, 6, 8, 10)
    assert torch.equal(again(x)[0].logits.action, model(x)[0].logits.action)
    assert (again.size, again.fps) == ((8, 10), 4.0)
    by_hand = Predictor(PrecomputedMaps(channels=6), core, head)
    with pytest.raises(CheckpointError, match="this PrecomputedMaps has no config: build it with create_backbone"):
        save(by_hand, tmp_path / "other")


def test_a_model_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    changed, renamed, diverged = small(), small(), small()
    changed.head.fc = torch.nn.Linear(4, 5)
    changed.labels = None
    renamed.labels = {"action": ["one"]}
    with torch.no_grad():
        diverged.head.fc.bias[0] = float("nan")
    for model, message in ((changed, r"shape \(5, 4\)"), (renamed, "1 labels"), (diverged, "NaN")):
        with pytest.raises(CheckpointError, match=message):
            save(model, tmp_path / "model")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot be written"):
        save(small(), tmp_path / "file" / "model")
    assert os.listdir(tmp_path) == ["file"]


def test_pretrained_backbones_are_saved_with_their_weights(tmp_path: Path) -> None:
    options = {**SMALL, "hidden": (4,), "stride": (1,), "backbone": {"name": "efficientnet_lite0", "pretrained": True}}
    path = save(create_model("horst_tiny", **options), tmp_path / "model")
    config = json.loads((path / "config.json").read_text())
    assert config["backbone"] == {"name": "efficientnet_lite0", "options": {}}
    load(path)
    config["backbone"]["options"]["pretrained"] = True
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="'pretrained' is not for it"):
        load(path)


def test_parts_of_a_backbone_are_saved_without_pretrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Around(ConvStem):
        def __init__(self, encoder: dict[str, Any]) -> None:
            super().__init__(widths=encoder["widths"])

    monkeypatch.setitem(BACKBONES._entries, "around", Around)
    backbone = {"name": "around", "encoder": {"widths": [4, 4], "pretrained": False}}
    path = save(create_model("horst_tiny", **{**SMALL, "backbone": backbone}), tmp_path / "model")
    assert json.loads((path / "config.json").read_text())["backbone"]["options"] == {"encoder": {"widths": [4, 4]}}
    load(path)


@pytest.mark.parametrize("stage", ["read_config", "read_labels", "_read", "read_card"])
@pytest.mark.parametrize("after", [False, True])
def test_a_model_that_is_replaced_while_it_is_read(
    saved: Path, monkeypatch: pytest.MonkeyPatch, stage: str, after: bool
) -> None:
    """Labels and weights are those of one model, whenever it is replaced."""
    read, names = getattr(checkpoint_module, stage), {"action": ["up", "down"]}
    other = small(seed=1, labels=names)
    left = 1

    def replaces(place: Path) -> Any:
        nonlocal left
        found = read(place) if after else None
        if left:
            left -= 1
            save(other, saved, overwrite=True)
        return found if after else read(place)

    monkeypatch.setattr(checkpoint_module, stage, replaces)
    model = load(saved)
    monkeypatch.undo()
    assert not left
    assert model.labels == load(saved).labels == names
    assert torch.equal(logits(model), logits(other))


def test_a_model_that_is_replaced_all_the_time(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = checkpoint_module._read

    def replaces(file: Path) -> Any:
        save(small(), saved, overwrite=True)
        return read(file)

    monkeypatch.setattr(checkpoint_module, "_read", replaces)
    with pytest.raises(CheckpointError, match="was replaced 20 times while it was read: try again later"):
        load(saved)


def test_files_of_a_killed_save_are_ignored(saved: Path) -> None:
    """Killed after the second rename: the old folder still lies aside."""
    aside = saved.with_name(".model.old")
    shutil.copytree(saved, aside)
    save(small(1), saved, overwrite=True)
    assert torch.equal(logits(load(saved)), logits(small(1)))
    assert os.listdir(saved.parent) == ["model"]
    saved.rename(aside)  # killed between the renames
    assert torch.equal(logits(load(saved)), logits(small(1)))
    save(small(2), saved)
    assert torch.equal(logits(load(saved)), logits(small(2)))


@pytest.mark.parametrize("change", [{"hidden": [4_000_000, 4, 4]}, {"hidden": [10**30, 4, 4]}])
def test_huge_sizes_allocate_no_memory(saved: Path, change: dict[str, Any]) -> None:
    config = json.loads((saved / "config.json").read_text())
    config["core"] |= change
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError):
        load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fps": 1e308}, r"fps is 1e\+308; it takes a number from 0.001 to 1000"),
        ({"fps": 1e-9}, "fps is 1e-09; it takes a number from 0.001"),
        ({"size": [30_000, 30_000]}, r"size is \(30000, 30000\); height and width are at most 4096 pixels"),
        ({"core": {"order": 10**9}}, "order of HORST is 1000000000; it takes at most 1024"),
        ({"core": {"hidden": [70_000, 4, 4]}}, "hidden of HORST is 70000; it takes at most 65536"),
    ],
)
def test_configs_that_would_fill_the_memory_raise(saved: Path, change: dict[str, Any], message: str) -> None:
    config = json.loads((saved / "config.json").read_text())
    config = {**config, **change, "core": {**config["core"], **change.get("core", {})}}
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=message):
        load(saved)


def test_the_limits_themselves_are_allowed(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    for change in ({"fps": 1000}, {"fps": 0.001}, {"size": [4096, 1]}, {"core": {**config["core"], "order": 1024}}):
        (saved / "config.json").write_text(json.dumps({**config, **change}))
        load(saved)


def test_every_core_has_limits() -> None:
    """Of each method's model, whatever its options are called: no whole number of it may be endless."""
    for name in MODELS:
        config = model_config(name)
        for key, value in asdict(config.core).items():
            if type(value) is int:
                with pytest.raises(ConfigError, match="70000"):
                    replace(config, core=replace(config.core, **{key: 70_000}))


@pytest.mark.parametrize("half", [False, True])
def test_flipped_bits_of_weights_are_named(tmp_path: Path, half: bool) -> None:
    file = save(small(), tmp_path / "model", half=half) / "model.safetensors"
    content = file.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    draw = random.Random(0)
    for _ in range(20 if half else 5):
        flipped = bytearray(content)
        flipped[draw.randrange(start, len(content))] ^= 1 << draw.randrange(8)
        file.write_bytes(bytes(flipped))
        with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged: .*do not match their checksum"):
            load(file.parent)
    for place in range(8, start, start // 20):  # in the header: it is named, or nothing has changed
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            found = load(file.parent)
        except CheckpointError:
            continue
        file.write_bytes(content)
        assert torch.equal(logits(found), logits(load(file.parent)))


def test_weights_without_a_checksum_are_read(saved: Path) -> None:
    """Of earlier versions, and of other programs."""
    change_weights(saved)
    assert "crc32" not in (safe_open(saved / "model.safetensors", "pt").metadata() or {})
    assert torch.equal(logits(load(saved)), logits(small()))


def test_shipped_models_have_a_checksum(root: Path) -> None:
    for folder in (root / "src/horst/assets/models").iterdir():
        weights = load_file(folder / "model.safetensors")
        assert safe_open(folder / "model.safetensors", "pt").metadata()["crc32"] == checksum(weights)


def test_a_checksum_costs_little(root: Path) -> None:
    """About 2% of the time to load a shipped model; the limit leaves room for other processes."""
    folder = root / "src/horst/assets/models/somethings"
    load(folder)
    times = []
    for _ in range(5):
        start = time.process_time()
        load(folder)
        times.append(time.process_time() - start)
    weights = load_file(folder / "model.safetensors")
    sums = []
    for _ in range(5):
        start = time.process_time()
        checksum(weights)
        sums.append(time.process_time() - start)
    assert min(sums) < 0.15 * min(times)


def test_a_model_is_saved_through_a_link(tmp_path: Path) -> None:
    """Over and over: the link stays and what it leads to is replaced."""
    save(small(), tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "new").symlink_to(tmp_path / "made" / "later")
    for seed in (1, 2, 3):
        save(small(seed), tmp_path / "link", overwrite=True)
        save(small(seed), tmp_path / "new", overwrite=True)
        for name in ("link", "real", "new"):
            assert torch.equal(logits(load(tmp_path / name)), logits(small(seed)))
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link", "made", "new", "real"]
    (tmp_path / ".real.old").symlink_to("nowhere")  # what an earlier version left behind
    save(small(4), tmp_path / "real", overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["link", "made", "new", "real"]
