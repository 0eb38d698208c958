"""The paper's SSv2 stem: its sizes, its layers and its normalisation."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from horst.backbones import ConvStem
from horst.errors import ConfigError


def test_the_stem_of_the_paper() -> None:
    stem = ConvStem()
    assert stem.channels == 128
    assert stem.output_size(224, 224) == (56, 56)
    convolutions = [module for module in stem.modules() if isinstance(module, nn.Conv2d)]
    assert [tuple(conv.weight.shape) for conv in convolutions] == [(128, 3, 3, 3), (128, 128, 3, 3)]
    assert all(conv.stride == (2, 2) and conv.bias is None for conv in convolutions)


def test_preprocess_is_imagenets() -> None:
    stem = ConvStem(widths=(4,))
    frames = torch.tensor([0, 128, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    expected = torch.tensor([(0 - 0.485) / 0.229, (128 / 255 - 0.456) / 0.224, (1 - 0.406) / 0.225])
    torch.testing.assert_close(stem.preprocess(frames).flatten(), expected)


def test_activation_is_applied() -> None:
    frames = torch.randint(0, 256, (1, 3, 16, 16), generator=torch.Generator().manual_seed(0))
    assert ConvStem(widths=(8,), activation="relu")(frames).min() == 0
    assert ConvStem(widths=(8,), activation="silu")(frames).min() < 0


def test_impossible_options_raise() -> None:
    with pytest.raises(ConfigError, match="relu"):
        ConvStem(activation="rellu")  # type: ignore[arg-type]


def test_meta_models_do_not_import_the_compiler() -> None:
    """Models are made on the meta device before they are loaded: to import torch's compiler for that takes seconds."""
    code = (
        "import sys, torch; from horst.backbones import ConvStem\n"
        "with torch.device('meta'): stem = ConvStem(widths=(4,))\n"
        "assert all(tensor.is_meta for tensor in (*stem.parameters(), *stem.buffers()))\n"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
