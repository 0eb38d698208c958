"""timm's networks as backbones; without timm, an error that names what to install."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from near import assert_near

from horst.backbones import TimmBackbone, create_backbone
from horst.errors import CheckpointError, ConfigError, InputError, MissingExtraError
from horst.models import Predictor, create_model

# DINOv2 with and without registers, DINOv3, SigLIP 2, which is SigLIP's network: patches, and tokens before theirs.
TRANSFORMERS = {
    "vit_small_patch14_dinov2": (14, 1),
    "vit_small_patch14_reg4_dinov2": (14, 5),
    "vit_small_patch16_dinov3": (16, 5),
    "vit_base_patch16_siglip_224.v2_webli": (16, 0),
}


@pytest.mark.parametrize("model", TRANSFORMERS)
def test_maps_of_transformers_are_timms_tokens(timm: ModuleType, model: str) -> None:
    """`forward_features` of timm's own class with the same weights, without its prefix, as a grid of 2 x 3."""
    patch, prefix = TRANSFORMERS[model]
    backbone = TimmBackbone(model=model)
    frames = torch.randint(0, 256, (2, 3, 2 * patch, 3 * patch), dtype=torch.uint8)
    with torch.device("meta"):
        config = timm.data.resolve_model_data_config(timm.create_model(model))
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    net = backbone.net.model
    with torch.no_grad():
        tokens = net.forward_features((frames / 255 - mean) / std)
    assert tokens.shape[1] == prefix + 6
    wanted = tokens[:, prefix:].transpose(1, 2).unflatten(2, (2, 3))
    assert_near(backbone(frames), wanted)
    assert backbone.output_size(2 * patch, 3 * patch) == (2, 3)
    assert backbone.channels == wanted.shape[1]


def test_a_size_that_patches_do_not_divide_is_named(timm: ModuleType) -> None:
    backbone = TimmBackbone(model="vit_small_patch14_dinov2")
    for refused in (lambda: backbone(torch.zeros(1, 3, 224, 256)), lambda: backbone.output_size(224, 256)):
        with pytest.raises(InputError, match=r"14 x 14 pixels, which do not divide 224 x 256: use frames of 224 x 252"):
            refused()
    with pytest.raises(InputError, match="does not take 64x64"):  # a family without other sizes
        TimmBackbone(model="beit_base_patch16_224")(torch.zeros(1, 3, 64, 64))


def test_out_index_of_a_transformer_is_a_block(timm: ModuleType) -> None:
    torch.manual_seed(0)
    early, late = (TimmBackbone(model="test_vit", out_index=i) for i in (0, -1))
    assert sum(p.numel() for p in early.parameters()) < sum(p.numel() for p in late.parameters())
    assert early.output_size(32, 48) == late.output_size(32, 48) == (2, 3)


@pytest.mark.parametrize("model", ["test_vit", "test_resnet"])
def test_weights_of_a_file(timm: ModuleType, model: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = timm.create_model(model)
    frames = torch.randint(0, 256, (1, 3, 160, 160), dtype=torch.uint8)
    torch.save(net.state_dict(), tmp_path / "net.pth")
    backbone = create_backbone("timm", model=model, pretrained=str(tmp_path / "net.pth"))
    with torch.no_grad():
        (wanted,) = net.eval().forward_intermediates(
            backbone.preprocess(frames), indices=1, norm=True, intermediates_only=True
        )[-1:]
    assert_near(backbone(frames), wanted)
    chosen = {"name": "timm", "model": model, "pretrained": str(tmp_path / "net.pth")}
    sizes = {"hidden": [4], "stride": [1], "num_classes": 2, "size": (32, 32)}
    create_model("horst_tiny", backbone=chosen, **sizes).save_pretrained(tmp_path / "saved")
    (tmp_path / "net.pth").unlink()
    opened = Predictor.from_pretrained(tmp_path / "saved")
    torch.testing.assert_close(opened.backbone(frames), wanted, rtol=1e-4, atol=1e-5)


def test_files_that_are_not_of_the_model(timm: ModuleType, tmp_path: Path) -> None:
    state = timm.create_model("test_vit").state_dict()
    other = {**state, "blocks.0.attn.qkv.weight": torch.zeros(3, 3)}
    for name, saved, message in (
        ("less", {k: v for k, v in state.items() if "blocks.0" not in k}, "weights are missing, such as blocks.0"),
        ("other", other, r"blocks.0.attn.qkv.weight has the shape \(3, 3\)"),
    ):
        torch.save(saved, tmp_path / name)
        with pytest.raises(CheckpointError, match=message):
            TimmBackbone(model="test_vit", pretrained=str(tmp_path / name))
    (tmp_path / "text").write_text("no weights")
    for name, message in (("text", "damaged or has no weights"), ("nowhere", "is not a file")):
        with pytest.raises(CheckpointError, match=message):
            TimmBackbone(model="test_vit", pretrained=str(tmp_path / name))


class Code:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.usefixtures("timm")
def test_code_in_a_file_of_weights_is_not_executed(tmp_path: Path) -> None:
    torch.save({"state_dict": {"weight": Code(tmp_path / "executed")}}, tmp_path / "weights")
    with pytest.raises(CheckpointError, match="damaged or has no weights"):
        TimmBackbone(model="test_vit", pretrained=str(tmp_path / "weights"))
    assert not (tmp_path / "executed").exists()
    torch.load(tmp_path / "weights", weights_only=False)
    assert (tmp_path / "executed").exists()


def test_a_map_is_timms_map_of_normalised_frames(timm: ModuleType) -> None:
    backbone = TimmBackbone(model="test_resnet", out_index=2)
    frames = torch.randint(0, 256, (2, 3, 65, 70), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    config = timm.data.resolve_model_data_config(backbone.net)
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    with torch.no_grad():
        expected = backbone.net((frames / 255 - mean) / std)[0]
    torch.testing.assert_close(backbone(frames), expected, rtol=1e-4, atol=1e-5)
    assert backbone.channels == expected.shape[1]


def test_normalisation_is_the_models_own(timm: ModuleType) -> None:
    frames = torch.full((1, 3, 1, 1), 255.0)
    # ViTs are trained on -1..1, ResNets on ImageNet's statistics.
    assert TimmBackbone(model="test_vit").preprocess(frames).flatten().tolist() == [1.0, 1.0, 1.0]
    assert TimmBackbone(model="resnet10t").preprocess(frames).max() > 2


def test_out_index_drops_later_layers(timm: ModuleType) -> None:
    early, late = TimmBackbone(model="test_resnet", out_index=1), TimmBackbone(model="test_resnet")
    assert sum(p.numel() for p in early.parameters()) < sum(p.numel() for p in late.parameters())
    assert early.output_size(64, 64) > late.output_size(64, 64)


def test_channels_last_networks_give_channels_first(timm: ModuleType) -> None:
    backbone = TimmBackbone(model="swin_tiny_patch4_window7_224")
    assert backbone.channels == 768
    assert backbone.output_size(224, 224) == (7, 7)


def test_output_size_uses_shapes_only_and_is_cached(timm: ModuleType) -> None:
    backbone = TimmBackbone(model="test_resnet", frozen=False)
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    assert backbone.output_size(1, 1) == (1, 1)
    assert backbone.output_size(10**5, 10**5) == backbone.output_size(10**5, 10**5)
    assert all(torch.equal(value, before[key]) for key, value in backbone.state_dict().items())
    assert all(parameter.device.type == "cpu" for parameter in backbone.parameters())


def test_unknown_model_and_map(timm: ModuleType) -> None:
    with pytest.raises(ConfigError, match=r"resnet17.*did you mean.*resnet1"):
        TimmBackbone(model="resnet17")
    for elsewhere in ("hf-hub:somebody/something", "local-dir:/somewhere"):
        with pytest.raises(ConfigError, match="unknown timm model"):
            TimmBackbone(model=elsewhere)
    with pytest.raises(ConfigError, match="no map 9 of 'test_resnet'"):
        TimmBackbone(model="test_resnet", out_index=9)


def test_missing_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'horst-video\[timm\]'"):
        TimmBackbone(model="resnet18")


def test_an_incompatible_torchvision_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> ModuleType:
        raise RuntimeError("undefined symbol in torchvision/_C.so")

    monkeypatch.setattr("importlib.import_module", fail)
    with pytest.raises(MissingExtraError, match=r"undefined symbol.*torchvision that matches"):
        TimmBackbone(model="resnet18")
