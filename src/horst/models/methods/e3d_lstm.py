"""E3D-LSTM: 3-D convolutions inside a recurrent cell that recalls its past cells by attention.

A layer reads the last `window` frames at once. It has a hidden state H and a cell C; one memory M goes up through all
layers and on to the first layer of the next frame. Before the first frame all are zero, and so are the frames:

    [i, g, r, o] = LN(W_h * H_{t-1}) + the first four of LN(W_x * X_t)
    RECALL = softmax(s(r) K^T) K,   K = the past cells of the layer
    C_t = LN(C_{t-1} + RECALL) + s(i) tanh(g)
    [i', g', f', m'] = LN(W_m * M), with i', g', f' + the last three of LN(W_x * X_t)
    M' = s(f' + 1) tanh(m') + s(i') tanh(g')
    O = s(o + W_co * C_t + W_mo * M')
    H_t = O tanh(W_1 * [C_t; M'])

`*` is a convolution of depth x kernel x kernel (W_1: 1 x 1 x 1), s the sigmoid, LN normalises channels, window and map
together. y is H of the last layer at the newest frame. The zero that an even depth needs comes before the window, so
that this frame reads all of it.

The last `history` cells are recalled, so that the memory of a stream is constant. `output_gate` and `carry` choose
between paper and release. With `stride`, which the method does not have, M is pooled as the layer's input is, and
returns to the first layer by nearest neighbours.

Shapes: D frames of the window, S cells of the history, P = D H W positions.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.layers import CoreStep, Memory, register_core
from horst.models.methods.stack import StackConfig, StackedCore, layers, pooled
from horst.models.predictor import PredictorConfig
from horst.models.registry import recognition, register_method

Recall = Literal["all", "position"]
OutputGate = Literal["sigmoid", "tanh-sigmoid"]
Carry = Literal["convolved", "plain"]


@dataclass(frozen=True, kw_only=True, slots=True)
class E3DLSTMConfig(StackConfig):
    """A stack of E3D-LSTM layers, all of the same width."""

    name, title = "e3d_lstm", "E3D-LSTM"
    kernel: int = 5
    depth: int = 2  # frames that a convolution covers, at most the window
    window: int = 2  # frames that a layer reads at once
    history: int = 8  # how many past cells are recalled
    recall: Recall = "all"
    """From every position of the past cells, as published, at a cost of (H W)^2; or from the same position only."""
    output_gate: OutputGate = "sigmoid"  # s(.) of the paper, or s(tanh(.)) of the release
    carry: Carry = "convolved"  # M' keeps s(f' + 1) tanh(m') of the release, or s(f' + 1) M of the paper, without m'

    def __post_init__(self) -> None:
        StackConfig.__post_init__(self)
        if self.depth > self.window:
            raise ConfigError(f"depth is {self.depth} and the window has {self.window} frames: it is at most that")
        if len(set(self.hidden)) > 1:
            raise ConfigError(f"hidden is {self.hidden}; all layers share one memory: give them the same width")


class SameConv3d(nn.Sequential):
    """A 3-D convolution that keeps the size, and the norm after it."""

    def __init__(self, inputs: int, outputs: int, depth: int, kernel: int, *, norm: bool = True) -> None:
        side = kernel // 2
        pad = nn.ZeroPad3d((side, side, side, side, depth // 2, (depth - 1) // 2))
        conv = nn.Conv3d(inputs, outputs, (depth, kernel, kernel))
        super().__init__(pad, conv, *([nn.GroupNorm(1, outputs)] if norm else []))


class E3DLSTMCell(nn.Module):
    """One layer, one frame."""

    def __init__(self, config: E3DLSTMConfig, in_channels: int, channels: int) -> None:
        super().__init__()
        self.config = config
        shape = config.depth, config.kernel
        self.from_x = SameConv3d(in_channels, 7 * channels, *shape)
        self.from_h = SameConv3d(channels, 4 * channels, *shape)
        self.from_m = SameConv3d(channels, (4 if config.carry == "convolved" else 3) * channels, *shape)
        self.norm = nn.GroupNorm(1, channels)
        self.gate_c, self.gate_m = (SameConv3d(channels, channels, *shape, norm=False) for _ in range(2))
        self.merge = nn.Conv3d(2 * channels, channels, 1)

    def forward(self, x: Tensor, h: Tensor, history: Tensor, m: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, C_in, D, H, W); h and m (B, C, D, H, W); past cells (B, S, C, D, H, W): the next h, c and m."""
        channels = h.shape[1]
        upper, lower = self.from_x(x).split((4 * channels, 3 * channels), 1)
        i, g, r, o = (upper + self.from_h(h)).chunk(4, 1)
        recalled = recall(r.sigmoid(), history, count, self.config.recall)
        c = self.norm(history[:, -1] + recalled) + i.sigmoid() * g.tanh()
        given = self.from_m(m)
        i, g, f = (lower + given[:, : 3 * channels]).chunk(3, 1)
        kept = given[:, 3 * channels :].tanh() if self.config.carry == "convolved" else m
        m = (f + 1).sigmoid() * kept + i.sigmoid() * g.tanh()
        o = o + self.gate_c(c) + self.gate_m(m)
        if self.config.output_gate == "tanh-sigmoid":
            o = o.tanh()
        h = o.sigmoid() * self.merge(torch.cat([c, m], 1)).tanh()
        dtype = history.dtype  # autocast changes it in places; a state has one
        return h.to(dtype), c.to(dtype), m.to(dtype)


@register_core(E3DLSTMConfig)
class E3DLSTM(StackedCore):
    """The stack. It remembers the earlier frames of the window, M, and of each layer H and the last cells."""

    config: E3DLSTMConfig
    unknown = E3DLSTMConfig.title

    def __init__(self, config: E3DLSTMConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(E3DLSTMCell(config, *w) for w in self.widths)

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        config, sizes = self.config, self.sizes(height, width)
        inner = [(self.channels, config.window, *size) for size in sizes]
        shapes: dict[str, tuple[int, ...]] = {"m": inner[-1]}
        if config.window > 1:
            shapes["x"] = (config.window - 1, config.in_channels, *sizes[0])
        for i, shape in enumerate(inner):
            shapes |= {f"h{i}": shape, f"c{i}": (config.history, *shape)}
        return shapes

    def advance(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """A clip cannot be faster: the first layer needs the memory of the last layer at the frame before."""
        newest, m = pooled(x.unsqueeze(1), self.config.stride[0]), memory["m"]
        frames = torch.cat([memory["x"], newest], 1) if "x" in memory else newest
        after, x = {"x": frames[:, 1:]}, frames.transpose(1, 2)  # (B, C, D, H, W)
        m = F.interpolate(m, size=x.shape[2:]) if m.shape[2:] != x.shape[2:] else m
        for i, (cell, stride) in enumerate(zip(self.layers, self.config.stride, strict=True)):
            if i > 0 and stride > 1:
                x, m = (F.max_pool3d(maps, (1, stride, stride)) for maps in (x, m))
            x, c, m = cell(x, memory[f"h{i}"], memory[f"c{i}"], m, count)
            after[f"h{i}"], after[f"c{i}"] = x, torch.cat([memory[f"c{i}"][:, 1:], c.unsqueeze(1)], 1)
        after["m"] = m
        return CoreStep({"y": x[:, :, -1]}), {name: after[name] for name in memory}


def recall(query: Tensor, history: Tensor, count: Tensor, mode: Recall) -> Tensor:
    """What a query (B, C, D, H, W) finds in the past cells (B, S, C, D, H, W), of which the last `count` exist.

    Without any the result is zero: it reads all, and all are zero.
    """
    slots, seen = history.shape[1], count.unsqueeze(1)
    there = (torch.arange(slots, device=count.device) >= slots - seen) | (seen == 0)  # (B, S)
    if mode == "position":
        logits = (query.unsqueeze(1) * history).sum(2)  # (B, S, D, H, W)
        weights = logits.masked_fill(~there[:, :, None, None, None], float("-inf")).softmax(1)
        return (weights.unsqueeze(2) * history).sum(1)
    q = query.flatten(2).mT.unsqueeze(1)  # (B, 1, P, C)
    k = history.flatten(3).mT.flatten(1, 2).unsqueeze(1)  # (B, 1, S P, C)
    mask = there.repeat_interleave(q.shape[2], 1)[:, None, None]  # (B, 1, 1, S P)
    found = F.scaled_dot_product_attention(q, k, k, mask, scale=1.0)
    return found.squeeze(1).mT.unflatten(2, query.shape[2:])


@register_method(
    "e3d_lstm",
    title="E3D-LSTM",
    task="recognition",
    reference="Wang et al. 2019, Eidetic 3D LSTM: A Model for Video Prediction and Beyond",
    idea="recall past cells by attention",
    parameters="12,898,832 for video prediction, counted from the authors' code",
    rows={"early-recognition": "E3D-LSTM"},
)
def e3d_lstm(size: str) -> PredictorConfig:
    if size == "tiny":
        return recognition(size, E3DLSTMConfig(**layers(size, (32,) * 3), kernel=3, recall="position"))
    return recognition(size, E3DLSTMConfig(in_channels=128, hidden=(128,) * 4, stride=(2, 2, 1, 1), kernel=3))
