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

Shapes: D frames of the window, S cells of the history, P = D H W positions. The frames of a window are groups of
channels, (B, D C, H, W).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.layers import CoreStep, Memory, register_core
from horst.models.methods.repeated import Convolve, repeated
from horst.models.methods.stack import StackConfig, StackedCore, layers, pooled
from horst.models.predictor import PredictorConfig
from horst.models.registry import recognition, register_method
from horst.ops.backend import by_kernels

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
    """The parameters of a 3-D convolution that keeps the size, and of the norm after it. `folded` says how it runs."""

    def __init__(self, inputs: int, outputs: int, depth: int, kernel: int, *, norm: bool = True) -> None:
        conv = nn.Conv3d(inputs, outputs, (depth, kernel, kernel))
        # The first part was padding: without it, saved weights would have other names.
        super().__init__(nn.Identity(), conv, *([nn.GroupNorm(1, outputs)] if norm else []))


def folded(weight: Tensor, window: int, gates: int = 1) -> Tensor:
    """The weight (G C, C_in, depth, k, k) of a 3-D convolution for a 2-D one over all frames of a window at once.

    The frames are groups of channels: maps are (B, D C, H, W). Output frame d reads input frame e with the slice
    e - d + depth // 2 of the kernel, so that a frame outside of the window needs no zeros. The result is the same.
    Libraries are faster at 2-D convolutions, and nothing changes its memory layout. Outputs are in the order gate,
    frame, channel: (G D C, D C_in, k, k).
    """
    depth = weight.shape[2]
    slices = weight.unflatten(0, (gates, -1)).unbind(3)  # (G, C, C_in, k, k)
    nothing = torch.zeros_like(slices[0])
    rows = []
    for d in range(window):
        read = [e - d + depth // 2 for e in range(window)]
        rows.append(torch.stack([slices[i] if 0 <= i < depth else nothing for i in read], 2))
    return torch.stack(rows, 1).flatten(3, 4).flatten(0, 2)


def by_frame(values: Tensor, window: int, gates: int = 1) -> Tensor:
    """The value of each channel (G C) for all frames of a window: (G D C)."""
    return values.unflatten(0, (gates, 1, -1)).expand(-1, window, -1).flatten()


class Operations(NamedTuple):
    """The convolutions and norms of a layer, with weights that were arranged once for a clip."""

    from_x: Convolve
    from_h: Convolve
    from_m: Convolve
    norm: Convolve
    gate: Convolve  # W_co * C + W_mo * M', of [C; M']
    merge: Convolve


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

    def operations(self, *, fused: bool) -> Operations:
        """`fused`: norms by kernels."""
        window, channels = self.config.window, self.norm.num_channels

        def norm(given: Any, gates: int = 1) -> Convolve:
            weight, bias = (by_frame(p, window, gates) for p in (given.weight, given.bias))
            if not fused:
                return lambda x: F.group_norm(x, 1, weight, bias)
            from horst.ops.fused.norm_act import norm_act

            return lambda x: norm_act(x, weight, bias, groups=1)

        def normed(part: Any) -> Convolve:
            gates = len(part[1].weight) // channels
            convolve = repeated(folded(part[1].weight, window, gates), by_frame(part[1].bias, window, gates))
            after = norm(part[2], gates)
            return lambda x: after(convolve(x))

        def of_both(weights: Sequence[Tensor], bias: Tensor) -> Convolve:
            return repeated(torch.cat([folded(w, window) for w in weights], 1), by_frame(bias, window))

        of_c, of_m = cast(tuple[nn.Conv3d, nn.Conv3d], (self.gate_c[1], self.gate_m[1]))
        assert of_c.bias is not None
        assert of_m.bias is not None
        assert self.merge.bias is not None
        return Operations(
            normed(self.from_x),
            normed(self.from_h),
            normed(self.from_m),
            norm(self.norm),
            of_both((of_c.weight, of_m.weight), of_c.bias + of_m.bias),
            of_both(self.merge.weight.chunk(2, 1), self.merge.bias),
        )

    def forward(
        self, do: Operations, x: Tensor, h: Tensor, cells: Sequence[Tensor], m: Tensor, there: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, 7 D C, H, W) after `from_x`; h, m and the past cells (B, D C, H, W): the next h, c and m."""
        width, dtype = h.shape[1], h.dtype  # autocast changes the dtype in places; a state has one
        upper, lower = x.split((4 * width, 3 * width), 1)
        i, g, r, o = (upper + do.from_h(h)).chunk(4, 1)
        recalled = recall(r.sigmoid(), cells, there, self.config.recall, self.config.window)
        c = (do.norm(cells[-1] + recalled) + i.sigmoid() * g.tanh()).to(dtype)
        given = do.from_m(m)
        i, g, f = (lower + given[:, : 3 * width]).chunk(3, 1)
        kept = given[:, 3 * width :].tanh() if self.config.carry == "convolved" else m
        m = ((f + 1).sigmoid() * kept + i.sigmoid() * g.tanh()).to(dtype)
        both = torch.cat([c, m], 1)
        o = o + do.gate(both)
        if self.config.output_gate == "tanh-sigmoid":
            o = o.tanh()
        return (o.sigmoid() * do.merge(both).tanh()).to(dtype), c, m


@register_core(E3DLSTMConfig)
class E3DLSTM(StackedCore):
    """The stack. It remembers the earlier frames of the window, M, and of each layer H and the last cells."""

    config: E3DLSTMConfig

    def __init__(self, config: E3DLSTMConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(E3DLSTMCell(config, *w) for w in self.widths)

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        config, sizes = self.config, self.sizes(height, width)
        inner = [(config.window * self.channels, *size) for size in sizes]
        shapes: dict[str, tuple[int, ...]] = {"m": inner[-1]}
        if config.window > 1:
            shapes["x"] = (config.window - 1, config.in_channels, *sizes[0])
        for i, shape in enumerate(inner):
            shapes |= {f"h{i}": shape, f"c{i}": (config.history, *shape)}
        return shapes

    def unfold(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        return self._run(x, memory, count)

    def unfold_first(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        return self._run(x, memory, None)

    def _run(self, x: Tensor, memory: Memory, count: Tensor | None) -> tuple[CoreStep, Memory]:
        """Frame by frame: the first layer needs the memory of the last layer at the frame before. Without `count` there
        are no frames before the clip, so only the cells that exist are recalled."""
        config, fused = self.config, by_kernels(self, x)
        cells: list[Any] = list(self.layers)
        do = [cell.operations(fused=fused) for cell in cells]
        frames, t = pooled(x, config.stride[0]), x.shape[1]
        frames = torch.cat([memory["x"], frames], 1) if "x" in memory else frames
        windows = torch.cat([frames[:, d : d + t] for d in range(config.window)], 2)
        observed = do[0].from_x(windows.flatten(0, 1)).unflatten(0, (-1, t)).unbind(1)
        depth = range(len(self.layers))
        hidden, m = [memory[f"h{i}"] for i in depth], memory["m"]
        past = [list(memory[f"c{i}"].unbind(1)) for i in depth]
        outputs = []
        for n, given in enumerate(observed):
            there = None if count is None else existing(count + n, config.history)
            recalled = config.history if count is not None else max(1, min(n, config.history))
            m = F.interpolate(m, size=given.shape[2:]) if m.shape[2:] != given.shape[2:] else m
            for i, (cell, stride) in enumerate(zip(cells, config.stride, strict=True)):
                if i > 0:
                    below = hidden[i - 1]
                    if stride > 1:
                        below, m = (F.max_pool2d(maps, stride) for maps in (below, m))
                    given = do[i].from_x(below)
                hidden[i], c, m = cell(do[i], given, hidden[i], past[i][-recalled:], m, there)
                past[i].append(c)
            outputs.append(hidden[-1][:, -self.channels :])
        after = {"m": m, "x": frames[:, t:]}
        for i in depth:
            after |= {f"h{i}": hidden[i], f"c{i}": torch.stack(past[i][-config.history :], 1)}
        return CoreStep({"y": torch.stack(outputs, 1)}), {name: after[name] for name in memory}


def existing(count: Tensor, slots: int) -> Tensor:
    """(B, S): which of the last S cells exist after `count` (B,) frames. Without any all are read: all are zero."""
    seen = count.unsqueeze(1)
    return (torch.arange(slots, device=count.device) >= slots - seen) | (seen == 0)


def recall(query: Tensor, cells: Sequence[Tensor], there: Tensor | None, mode: Recall, window: int) -> Tensor:
    """What a query (B, D C, H, W) finds in S past cells (B, D C, H, W); `there` (B, S): which exist, None for all."""
    if mode == "position":
        look = query.unflatten(1, (window, -1))  # (B, D, C, H, W)
        keys = [cell.unflatten(1, (window, -1)) for cell in cells]
        logits = torch.stack([(look * key).sum(2) for key in keys], 1)  # (B, S, D, H, W)
        if there is not None:
            logits = logits.masked_fill(~there[:, :, None, None, None], float("-inf"))
        weights = logits.softmax(1).unsqueeze(3).unbind(1)  # (B, D, 1, H, W)
        found = weights[0] * keys[0]
        for weight, key in zip(weights[1:], keys[1:], strict=True):
            found = torch.addcmul(found, weight, key)
        return found.flatten(1, 2)
    (height, width), channels = query.shape[2:], query.shape[1] // window

    def positions(maps: Tensor) -> Tensor:
        """(B, 1, P, C); nothing is copied if channels come last in memory."""
        return maps.permute(0, 2, 3, 1).reshape(len(maps), 1, -1, channels)

    q, k = positions(query), torch.cat([positions(cell) for cell in cells], 2)
    mask = None if there is None else there.repeat_interleave(q.shape[2], 1)[:, None, None]  # (B, 1, 1, S P)
    found = F.scaled_dot_product_attention(q, k, k, mask, scale=1.0)
    return found.reshape(len(q), height, width, -1).permute(0, 3, 1, 2)


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
