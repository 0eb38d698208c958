"""The networks of the paper as the GPU benchmark times them: inputs, steps, parity and floors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.gpu_timing import exact
from horst.layers import HORST, HORSTConfig


@dataclass(frozen=True)
class Net:
    name: str
    variant: str
    batch: int
    frames: int
    in_channels: int
    hidden: tuple[int, ...]
    stride: tuple[int, ...]
    size: tuple[int, int]
    order: int = 8

    def core(self) -> HORST:
        torch.manual_seed(0)
        shape = {"in_channels": self.in_channels, "hidden": self.hidden, "stride": self.stride}
        return HORST(HORSTConfig.from_dict({**shape, "variant": self.variant, "order": self.order})).cuda()

    def input(self) -> Tensor:
        return channels_last(self.batch, self.frames, self.in_channels, *self.size)


SSV2 = {
    "batch": 8,
    "frames": 24,
    "in_channels": 128,
    "hidden": (128, 256, 512, 512),
    "stride": (1, 1, 2, 2),
    "size": (56, 56),
}
EK55 = {"batch": 32, "frames": 14, "in_channels": 1024, "hidden": (1024, 1024), "stride": (1, 1), "size": (8, 14)}
NETWORKS = (
    Net("SSv2 network, released", "released", **SSV2),  # type: ignore[arg-type]
    Net("SSv2 network, paper", "paper", **SSV2),  # type: ignore[arg-type]
    Net("EK55 network, released", "released", **EK55),  # type: ignore[arg-type]
)


def channels_last(batch: int, frames: int, channels: int, height: int, width: int) -> Tensor:
    """Random maps (B, T, C, H, W) in bf16, in the memory layout that a convolutional backbone leaves."""
    x = torch.randn(frames, batch, height, width, channels, device="cuda", dtype=torch.bfloat16)
    return x.permute(1, 0, 4, 2, 3)


class Step:
    """Forward and backward of a core in bf16, the loss on the last frame, as training runs them."""

    def __init__(self, core: nn.Module, x: Tensor) -> None:
        self.core, self.x = core, x

    def __call__(self) -> tuple[Tensor | None, ...]:
        with torch.autocast("cuda", torch.bfloat16):
            y = self.core.encode(self.x).y if isinstance(self.core, HORST) else self.core(self.x)
        loss = y[:, -1].float().square().mean()
        return torch.autograd.grad(loss, tuple(self.core.parameters()), allow_unused=True)


def parity(variant: str) -> dict[str, Any]:
    """Errors of the kernels against plain PyTorch in fp32, and of both in bf16: of y, and of all gradients together."""
    torch.manual_seed(0)
    core = HORST(in_channels=64, hidden=(64, 96), stride=(1, 2), order=4, variant=variant).cuda()
    x = torch.randn(2, 7, 64, 14, 14, device="cuda")
    with exact():
        wanted = _outcome(core, x, "reference", torch.float32)
        full, half = (_outcome(core, x, "triton", dtype) for dtype in (torch.float32, torch.bfloat16))
        plain = _outcome(core, x, "reference", torch.bfloat16)
    errors = {name: relative([full[name]], [wanted[name]]) for name in wanted}
    worst = max(errors, key=lambda name: errors[name])
    found: dict[str, Any] = {"exact": errors[worst], "worst": worst}
    for prefix, given in (("", half), ("plain_", plain)):
        found[f"{prefix}y"] = relative([given["y"]], [wanted["y"]])
        names = [name for name in wanted if name not in ("y", "e", "statt")]
        scale = {name: wanted[name].norm().clamp_min(1e-12) for name in names}  # each tensor counts alike
        found[f"{prefix}gradient"] = relative(
            [given[name] / scale[name] for name in names], [wanted[name] / scale[name] for name in names]
        )
    return found


def relative(found: list[Tensor], wanted: list[Tensor]) -> float:
    a, b = (torch.cat([t.flatten().double() for t in tensors]) for tensors in (found, wanted))
    error = float((a - b).norm() / b.norm())
    return error if error == error else float("inf")  # `max` over errors drops NaN


def _outcome(core: HORST, x: Tensor, backend: Any, dtype: torch.dtype) -> dict[str, Tensor]:
    core.use_backend(backend)
    core.zero_grad()
    x = x.clone().requires_grad_()
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        out, _ = core(x)
    results = {"y": out.y, "e": out.e[-1], "statt": out.statt[-1]}
    generator = torch.Generator("cuda").manual_seed(1)
    probes = (torch.randn(m.shape, generator=generator, device="cuda") for m in results.values())
    sum((m.float() * probe).sum() for m, probe in zip(results.values(), probes, strict=True)).backward()
    # A filter's bias is one number, the small rest of a large sum: it is judged with its weights.
    grads = {name: p.grad for name, p in core.named_parameters() if p.grad is not None}
    for name in [n for n in grads if "filter" in n and n.endswith("bias")]:
        weight = name.replace("bias", "weight")
        grads[weight] = torch.cat([grads[weight].flatten(), grads.pop(name)])
    assert x.grad is not None
    return {**{name: m.detach() for name, m in results.items()}, "x": x.grad, **grads}


def floor_ms(net: Net, limits: dict[str, float]) -> float:
    """What a training step must cost: its matrix work at the rate of a large product, and its bytes at that of a copy.

    Matrix work: the 3x3 convolutions, forward once and backward twice. Bytes in bf16: STATT reads the window's keys
    and values in each direction and, for their gradients, the queries and gradients of the window's readers; a norm
    reads and writes its map forward, and reads map and gradient and writes one backward.
    """
    (height, width), inputs = net.size, net.in_channels
    flops = moved = 0.0
    for c, stride in zip(net.hidden, net.stride, strict=True):
        height, width = height // stride, width // stride
        pixels = height * width
        output = inputs + c if net.variant == "released" else c
        memory = 0 if net.variant == "released" else c  # FF_h of the paper
        project = inputs / 9 if net.variant == "paper" and inputs != c else 0
        flops += 2 * 9 * pixels * c * (inputs + c + 4 * c + memory + output + project)
        norms = 5 if net.variant == "released" else 6
        moved += 2 * pixels * c * (6 * net.order + 5 * norms)
        inputs = c
    clips = net.batch * net.frames
    return clips * (3 * flops / limits["matmul"] + moved / limits["copy"]) / 1e9
