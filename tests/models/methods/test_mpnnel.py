"""MPNNEL: it computes what the authors' code computes, and the past of a position reaches all others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from horst.errors import ConfigError
from horst.models.methods.mpnnel import MPNNEL, MPNNELConfig

GOLDEN = Path(__file__).parents[2] / "goldens" / "mpnnel.safetensors"
LAYERS = {
    "encoder": "encode_frame",
    "add_h": "join",
    "spatial_filter": "filter",
    "agg.0": "aggregate",
    "scale": "scale",
}
BLOCKS = {"m": ("message", "m_norm1"), "u": ("update", "u_norm"), "r": ("readout", "r_norm")}


def ours(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The authors' weights by our names. m_norm2 is for their forms with learnt edges."""
    found: dict[str, Tensor] = {}
    for theirs, mine in LAYERS.items():
        found |= {k.replace(theirs, mine, 1): v for k, v in weights.items() if k.startswith(f"{theirs}.")}
    for letter, (block, norm) in BLOCKS.items():
        for kind in ("weight", "bias"):
            found[f"{block}.norm.{kind}"] = weights[f"{norm}.{kind}"]
            parts = weights[f"{letter}_f.in_proj_{kind}"].chunk(3)
            found |= {
                f"{block}.attention.{name}.{kind}": part
                for name, part in zip(("query", "key", "value"), parts, strict=True)
            }
            found[f"{block}.attention.out.{kind}"] = weights[f"{letter}_f.out_proj.{kind}"]
        prefix = f"{letter}_ffn."
        found |= {k.replace(prefix, f"{block}.mlp.", 1): v for k, v in weights.items() if k.startswith(prefix)}
    return found


def small(heads: int = 8) -> MPNNEL:
    torch.manual_seed(0)
    return MPNNEL(MPNNELConfig(in_channels=3, hidden=8, heads=heads)).eval()


def test_the_authors_code_gives_the_same() -> None:
    golden = load_file(GOLDEN)
    core = small()
    core.load_state_dict(ours({k.removeprefix("weights."): v for k, v in golden.items() if k.startswith("weights.")}))
    with torch.inference_mode():
        out, _ = core(golden["x"])
    torch.testing.assert_close(out.y.mean((-2, -1)), golden["y"], rtol=1e-4, atol=1e-5)


def test_any_size_and_order_of_positions() -> None:
    """Vertices have no places: a mirrored clip gives the mirrored output."""
    core = small(heads=2)
    with torch.inference_mode():
        for size in ((1, 1), (2, 5)):
            x = torch.randn(1, 3, 3, *size)
            torch.testing.assert_close(core(x.flip(-1))[0].y, core(x)[0].y.flip(-1), rtol=1e-4, atol=1e-5)


def test_the_past_of_one_position_reaches_all_others() -> None:
    core, x = small(), torch.randn(1, 2, 3, 2, 3, requires_grad=True)
    y = core(x)[0].y[0, 1, :, 1, 2].square().sum()
    (gradient,) = torch.autograd.grad(y, x)
    assert (gradient[0, 0].abs().sum(0) > 0).all()


def test_widths_that_heads_do_not_divide() -> None:
    with pytest.raises(ConfigError, match="hidden is 20; it must be divisible by 8 heads and by 8"):
        MPNNELConfig(in_channels=3, hidden=20)
