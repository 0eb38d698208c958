"""timm's networks as backbones; without timm, an error that names what to install."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from horst.backbones import TimmBackbone
from horst.errors import ConfigError, MissingExtraError


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
