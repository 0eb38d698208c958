"""The parts of a HORST layer: FF, the spatial filter, keys and values, the output blocks, position encoding.

Shapes: N maps (batch and time folded together, or one frame of a batch), C channels, H x W map.
"""

import math

import torch
from torch import Tensor, nn

from horst.layers.config import Activation, HORSTConfig
from horst.ops import reference
from horst.ops.reference import PooledPair


def activation(name: Activation) -> nn.Module:
    return nn.ReLU() if name == "relu" else nn.SiLU()


def conv3x3(in_channels: int, out_channels: int) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)


class FF(nn.Sequential):
    """The paper's "Conv-LayerNorm": a 3x3 convolution without bias, and a norm over (C, H, W) as in the release."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(conv3x3(in_channels, out_channels), nn.GroupNorm(1, out_channels))

    @property
    def conv(self) -> nn.Conv2d:
        conv = self[0]
        assert isinstance(conv, nn.Conv2d)
        return conv


class SpatialFilter(nn.Module):
    """Eq. (4): a learned map of where to look, (N, C, H, W) -> (N, H, W) in 0..1."""

    def __init__(self, pooled_pair: PooledPair) -> None:
        super().__init__()
        self.pooled_pair = pooled_pair
        self.conv = nn.Conv2d(2, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        assert self.conv.bias is not None
        return reference.spatial_filter(x, self.conv.weight, self.conv.bias, self.pooled_pair)


class KeyValue(nn.Module):
    """FF_K and FF_V of Eq. (10)-(11) side by side: the first C output channels are the key's.

    The convolution of a concatenation is the sum of two convolutions. The one over the observation (e or Q) does not
    depend on the recurrence and runs over a whole clip at once; only the one over h runs in every step.
    """

    def __init__(self, channels: int, *, split: bool) -> None:
        super().__init__()
        self.split = split
        width = channels if split else 2 * channels
        self.observed = conv3x3(channels, width)
        self.recurrent = conv3x3(channels, width)
        self.norm = nn.GroupNorm(2, 2 * channels)  # one group each: keys and values are normalised separately
        if not split:  # the default initialisation of one convolution over 2C channels
            bound = (2 * channels * 9) ** -0.5
            for conv in (self.observed, self.recurrent):
                nn.init.uniform_(conv.weight, -bound, bound)

    def forward(self, observed: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Key and value (N, C, H, W) of a state, from `self.observed(...)` of its observation and its h."""
        recurrent = self.recurrent(h)
        key, value = self.norm(torch.cat([observed, recurrent], 1) if self.split else observed + recurrent).chunk(2, 1)
        return key, value

    def of_zero(self, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Key and value (1, C, H, W) of the all-zero state: only the norm has a bias."""
        key, value = self.norm.bias.view(1, -1, 1, 1).expand(-1, -1, height, width).chunk(2, 1)
        return key, value


class SqueezeExcite(nn.Module):
    """SE of the release: z + z * sigmoid(MLP(avgpool z))."""

    def __init__(self, channels: int, reduction: int = 4) -> None:
        super().__init__()
        inner = max(1, channels // reduction)
        self.squeeze = nn.Conv2d(channels, inner, 1)
        self.excite = nn.Conv2d(inner, channels, 1)

    def forward(self, z: Tensor) -> Tensor:
        gate = self.excite(torch.relu(self.squeeze(z.mean((2, 3), keepdim=True))))
        return z + z * torch.sigmoid(gate)


class ResidualOutput(nn.Module):
    """y of Eq. (8): act(FF_y(h + x)), optionally with e; x is projected if its channels differ."""

    def __init__(self, in_channels: int, channels: int, name: Activation, *, with_e: bool) -> None:
        super().__init__()
        self.with_e = with_e
        same = in_channels == channels
        self.project = nn.Identity() if same else nn.Conv2d(in_channels, channels, 1, bias=False)
        self.ff = FF(channels, channels)
        self.act = activation(name)

    def forward(self, x: Tensor, e: Tensor, m: Tensor) -> Tensor:
        m = m + self.project(x)
        return self.act(self.ff(m + e if self.with_e else m))


class ConcatOutput(nn.Module):
    """y of the release: SE(act(FF_y([x; m])))."""

    def __init__(self, in_channels: int, channels: int, name: Activation) -> None:
        super().__init__()
        self.ff = FF(in_channels + channels, channels)
        self.act = activation(name)
        self.se = SqueezeExcite(channels)

    def forward(self, x: Tensor, e: Tensor, m: Tensor) -> Tensor:
        return self.se(self.act(self.ff(torch.cat([x, m], 1))))


def output_block(config: HORSTConfig, in_channels: int, channels: int) -> ResidualOutput | ConcatOutput:
    assert config.activation is not None
    if config.output == "concat+se":
        return ConcatOutput(in_channels, channels, config.activation)
    return ResidualOutput(in_channels, channels, config.activation, with_e=config.output == "residual+e")


def sinusoidal(frame: Tensor, channels: int) -> Tensor:
    """The position encoding of Vaswani et al. for frame numbers of any shape: (...) -> (..., channels)."""
    half = torch.arange(0, channels, 2, device=frame.device, dtype=torch.float64)
    angle = frame.to(torch.float64).unsqueeze(-1) * torch.exp(half * (-math.log(10_000.0) / channels))
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., :channels]
