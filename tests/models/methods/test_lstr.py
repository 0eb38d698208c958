"""LSTR: its layer is torch's, and each frame's output is that of its own two memories, without masks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.models.methods.lstr import LSTR, Decoder, LSTRConfig, MemoryLayer

FEATURES, HIDDEN, HEADS = 5, 8, 2
SMALL: dict[str, Any] = {"in_channels": FEATURES, "hidden": HIDDEN, "heads": HEADS, "context": 3, "tokens": [2, 3]}


def lstr(**options: Any) -> LSTR:
    torch.manual_seed(0)
    return awake(LSTR(LSTRConfig.from_dict({**SMALL, "long": 4, **options})))


def awake(module: Any) -> Any:
    """In double precision, with weights so large that every part of it counts."""
    for parameter in module.double().eval().parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def clip(frames: int) -> Tensor:
    return torch.randn(2, frames, FEATURES, 2, 3, dtype=torch.float64)


def torchs(layer: MemoryLayer) -> nn.TransformerDecoderLayer:
    """Torch's own layer with the weights of ours."""
    made = nn.TransformerDecoderLayer(
        HIDDEN, HEADS, 4 * HIDDEN, activation="gelu", batch_first=True, norm_first=True, dtype=torch.float64
    ).eval()
    ours = layer.state_dict()
    weights = {f"norm{i}.{end}": ours[f"norm{i}.{end}"] for i in (1, 2, 3) for end in ("weight", "bias")}
    for end in ("weight", "bias"):
        for to, of in (("self_attn", "own"), ("multihead_attn", "cross")):
            weights[f"{to}.in_proj_{end}"] = torch.cat([ours[f"{of}.{p}.{end}"] for p in ("query", "key", "value")])
            weights[f"{to}.out_proj.{end}"] = ours[f"{of}.out.{end}"]
        weights |= {f"linear1.{end}": ours[f"mlp.0.{end}"], f"linear2.{end}": ours[f"mlp.2.{end}"]}
    made.load_state_dict(weights)
    return made


def decode(decoder: Decoder, tokens: Tensor, short: Tensor) -> Tensor:
    """y (B, d) of the tokens (B, n_0, d) of stage 1 and those frames (B, n, d) of the short memory that exist."""
    tokens, frames = decoder.norm1(tokens), short.shape[1]
    memory = decoder.queries.expand(len(tokens), -1, -1)
    for layer in decoder.stage2:
        memory = torchs(layer)(memory, tokens)
    u, memory = short + decoder.places[-frames:], decoder.norm2(memory)
    mask = torch.full((frames, frames), -torch.inf, dtype=u.dtype).triu(1)
    for layer in decoder.layers:
        u = torchs(layer)(u, memory, tgt_mask=mask)
    return decoder.norm(u[:, -1])


def test_a_layer_is_torchs() -> None:
    layer = awake(MemoryLayer(LSTRConfig.from_dict(SMALL)))
    q, memory = torch.randn(2, 3, HIDDEN, dtype=torch.float64), torch.randn(2, 4, HIDDEN, dtype=torch.float64)
    wanted = torchs(layer)(q, memory)
    torch.testing.assert_close(layer(q, memory), wanted)
    torch.testing.assert_close(layer(q, memory, last=True), wanted[:, -1:])


def test_each_frame_reads_its_own_memories() -> None:
    core, x = lstr(), clip(10)
    y = core(x)[0].y[..., 0, 0]
    u = core.embed(x.mean((-2, -1)))
    stage1, queries = torchs(core.stage1), core.queries.expand(2, -1, -1)
    for t in (3, 4, 6, 9):
        long = u[:, max(0, t - 6) : t - 2]
        tokens = stage1(queries, long + core.places[-long.shape[1] :])
        torch.testing.assert_close(y[:, t], decode(core.decoder, tokens, u[:, t - 2 : t + 1]))


def test_an_empty_long_memory_finds_zeros() -> None:
    core, x = lstr(), clip(2)
    y = core(x)[0].y[..., 0, 0]
    q = core.stage1.before(core.queries)
    tokens = core.stage1.after(q, core.stage1.cross.out.bias).expand(2, -1, -1)
    for t in range(2):
        wanted = decode(core.decoder, tokens, core.embed(x.mean((-2, -1)))[:, : t + 1])
        torch.testing.assert_close(y[:, t], wanted)


def test_a_frame_counts_until_it_leaves_the_long_memory() -> None:
    core, x = lstr(), clip(9)
    other = x.clone()
    other[:, 0] += 1
    a, b = core(x)[0].y, core(other)[0].y
    assert not torch.allclose(a[:, 6], b[:, 6])
    assert torch.equal(a[:, 7:], b[:, 7:])


@pytest.mark.parametrize(
    "wrong", [{"heads": 3}, {"tokens": [2]}, {"tokens": [2, 0]}, {"long": 0}, {"context": 0}, {"dropout": 1.0}]
)
def test_bad_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        lstr(**wrong)
