"""BN-Inception as in TSN and RULSTM, up to and including inception_5b: the paper's backbone for EPIC-Kitchens.

The paper uses "the feature maps before the global average pooling" of a frozen network, with frames of 256x454. The
parameters have the names of the public TSN checkpoints.

Shapes: N frames, H x W pixels, C channels. 256x454 gives maps of 1024 x 8 x 14.
"""

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from horst.backbones.base import Backbone, Normalise, register_backbone
from horst.errors import CheckpointError
from horst.weights import load_checked

_BGR_MEAN = (104.0, 117.0, 128.0)
_SCALAR: Any = np.float64(0).__reduce__()[0]
# How NumPy's numbers are saved, such as the accuracy in a checkpoint; the scalar has another name before NumPy 2.
_NUMBERS = [_SCALAR, (_SCALAR, "numpy.core.multiarray.scalar"), np.dtype]
_NUMBERS += [type(np.dtype(kind)) for kind in (np.float32, np.float64, np.int64)]


class _InceptionBlock(NamedTuple):
    """Channels of one inception block; pairs are (reduce, output)."""

    single: int  # the 1x1 branch; 0 for the two blocks that halve the map
    three: tuple[int, int]
    double: tuple[int, int]
    proj: int  # the 1x1 convolution after the pool; 0: none
    max_pool: bool = False  # max pooling before `proj`, not average pooling

    def branches(self) -> list[list[tuple[str, int, int, int]]]:
        """Name, output channels, kernel and stride of each layer, in the published order. The last branch is pooled."""
        stride = 1 if self.single else 2
        (reduced, three), (double_reduced, double) = self.three, self.double
        doubled = [("double_3x3_1", double, 3, 1), ("double_3x3_2", double, 3, stride)]
        return [
            *([[("1x1", self.single, 1, 1)]] if self.single else []),
            [("3x3_reduce", reduced, 1, 1), ("3x3", three, 3, stride)],
            [("double_3x3_reduce", double_reduced, 1, 1), *doubled],
            [("pool_proj", self.proj, 1, 1)] if self.proj else [],
        ]


_BLOCKS = {
    "3a": _InceptionBlock(64, (64, 64), (64, 96), 32),
    "3b": _InceptionBlock(64, (64, 96), (64, 96), 64),
    "3c": _InceptionBlock(0, (128, 160), (64, 96), 0),
    "4a": _InceptionBlock(224, (64, 96), (96, 128), 128),
    "4b": _InceptionBlock(192, (96, 128), (96, 128), 128),
    "4c": _InceptionBlock(160, (128, 160), (128, 160), 128),
    "4d": _InceptionBlock(96, (128, 192), (160, 192), 128),
    "4e": _InceptionBlock(0, (128, 192), (192, 256), 0),
    "5a": _InceptionBlock(352, (192, 320), (160, 224), 128),
    "5b": _InceptionBlock(352, (192, 320), (192, 224), 128, max_pool=True),
}


@register_backbone("bn_inception")
class BNInception(Backbone):
    """The network without its classifier. The caller resizes frames to `native_size`.

    The published network fails where a halving block gets an odd map, because its pool and its convolutions give
    different sizes. Here that pool has one more window at the far edge, so every size from 7x7 works.
    """

    native_size = (256, 454)  # height and width of the frames that RULSTM's weights were trained with
    smallest = 7

    def __init__(self, *, frozen: bool = True) -> None:
        super().__init__(frozen=frozen)
        self.normalise = Normalise(_BGR_MEAN, (1.0, 1.0, 1.0))
        self._add("conv1_7x7_s2", 3, 64, kernel=7, stride=2)
        self._add("conv2_3x3_reduce", 64, 64)
        self._add("conv2_3x3", 64, 192, kernel=3)
        self.channels = 192
        for name, block in _BLOCKS.items():
            c_in, self.channels = self.channels, 0
            for branch in block.branches():
                channels = c_in
                for layer, c_out, kernel, stride in branch:
                    self._add(f"inception_{name}_{layer}", channels, c_out, kernel=kernel, stride=stride)
                    channels = c_out
                self.channels += channels
        self._freeze()

    def preprocess(self, frames: Tensor) -> Tensor:
        """RGB to BGR, minus the mean of the Caffe original; the range stays 0..255."""
        return self.normalise(frames.flip(1))

    def features(self, x: Tensor) -> Tensor:
        x = _halving_pool(self._unit("conv1_7x7_s2", x))  # (N, 64, H/4, W/4)
        x = _halving_pool(self._unit("conv2_3x3", self._unit("conv2_3x3_reduce", x)))  # (N, 192, H/8, W/8)
        for name, block in _BLOCKS.items():  # H/8, then H/16 after 3c and H/32 after 4e
            x = self._inception(f"inception_{name}", x, block)
        return x  # (N, 1024, h, w)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return _map_length(height), _map_length(width)

    def _add(self, name: str, c_in: int, c_out: int, *, kernel: int = 1, stride: int = 1) -> None:
        self.add_module(name, nn.Conv2d(c_in, c_out, kernel, stride=stride, padding=kernel // 2))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(c_out))

    def _unit(self, name: str, x: Tensor) -> Tensor:
        """Convolution, BatchNorm, ReLU."""
        return F.relu(self.get_submodule(f"{name}_bn")(self.get_submodule(name)(x)), inplace=True)

    def _inception(self, name: str, x: Tensor, block: _InceptionBlock) -> Tensor:
        """The concatenated branches, in the published order."""
        if not block.single:
            # zeros below and to the right of an odd map: x is the output of a ReLU, so they are never the maximum
            pooled = _halving_pool(F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2)))
        else:
            pooled = (F.max_pool2d if block.max_pool else F.avg_pool2d)(x, 3, stride=1, padding=1)
        *others, last = block.branches()
        outputs = []
        for branch, y in (*((branch, x) for branch in others), (last, pooled)):
            for layer, *_ in branch:
                y = self._unit(f"{name}_{layer}", y)
            outputs.append(y)
        return torch.cat(outputs, dim=1)


def load_tsn(model: BNInception, state_dict: Mapping[str, Tensor]) -> None:
    """Load the state dict of RULSTM's TSN checkpoint, with or without the prefix `module.base_model.`.

    As in RULSTM's code, unknown keys are ignored: the classifier (`new_fc` or `last_linear`), and others with a
    warning.
    """
    stripped = {key.removeprefix("module.").removeprefix("base_model."): value for key, value in state_dict.items()}
    own = model.state_dict()
    load_checked(model, {key: value for key, value in stripped.items() if key in own}, source="TSN checkpoint")
    unused = [key for key in stripped if key not in own and not key.startswith(("new_fc.", "last_linear."))]
    if unused:
        shown = ", ".join(unused[:5]) + (f" and {len(unused) - 5} more" if len(unused) > 5 else "")
        warnings.warn(f"TSN checkpoint: ignored unknown parameters {shown}", stacklevel=2)


def _halving_pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, stride=2, ceil_mode=True)


def _map_length(length: int) -> int:
    """One side of the map: convolutions of stride 2 round up, the two pools between them round down."""
    length = (length + 1) // 2 // 2 // 2
    return ((length + 1) // 2 + 1) // 2


def read_tsn(path: Path) -> dict[str, Any]:
    """The tensors of a .pth.tar file. Nothing in it is executed."""
    try:
        with torch.serialization.safe_globals(_NUMBERS):
            data = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: there is no such file; RULSTM's FEATEXT scripts fetch it") from error
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} holds objects other than tensors and numbers, which could run code. If you "
            "trust the file, save the part that is needed: torch.save({'state_dict': torch.load(path, "
            "weights_only=False)['state_dict']}, other_path)"
        ) from error
    except Exception as error:  # torch's unpickler can raise anything for a file of another kind
        raise CheckpointError(f"{path} cannot be read as a checkpoint: it is damaged or not one") from error
    state = data.get("state_dict", data) if isinstance(data, dict) else None
    if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
        raise CheckpointError(f"{path} holds no state dict: parameters by name are needed, under 'state_dict' or alone")
    return state
