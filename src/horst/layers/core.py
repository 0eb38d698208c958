"""The interface of every temporal core: HORST and the methods that it is compared with.

    state = core.init_state(batch_size, height, width)
    out, state = core.step(x_t, state)            # one frame
    out, state = core(x, state, lengths)          # a clip, equal to folding `step` over it

State is passed in and returned, never kept on a module, so one model serves any number of streams.

Shapes: B batch, T frames, C channels, H x W map.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from horst.config import check_dropout, check_positive, check_type, from_dict
from horst.errors import ConfigError, InputError, StateError
from horst.masks import Lengths, length_mask
from horst.ops.backend import BackendChoice, Wanted
from horst.registry import Registry

Device = torch.device | str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreConfig:
    """The options of a core: a frozen dataclass. It is plain data and is saved with the weights.

    Whole numbers, and lists of them, must be positive, unless the metadata of a field says {"zero": True}. `dropout` is
    a number from 0 to below 1.
    """

    name: ClassVar[str]
    """Its name in configs and saved models."""
    title: ClassVar[str]
    """Its name in the paper."""
    in_channels: int
    """Channels of the maps that it reads."""

    def __post_init__(self) -> None:
        hints = _hints(type(self))  # type: ignore[arg-type]
        for option in fields(self):
            name, value, hint = option.name, getattr(self, option.name), hints[option.name]
            if name == "dropout":
                check_dropout(value)
            elif hint is int or (hint == int | None and value is not None):
                if not (option.metadata.get("zero") and value == 0 and type(value) is int):
                    check_positive(**{name: value})
            elif get_origin(hint) is tuple:
                if not isinstance(value, list | tuple) or not (value or option.default == ()):
                    raise ConfigError(f"{name} is {value!r}; it takes whole numbers, at least one")
                for number in value:
                    check_positive(**{f"an entry of {name}": number})
                object.__setattr__(self, name, tuple(value))  # the class is frozen for everybody else
            elif hint is bool or get_args(hint):
                check_type(name, value, hint)

    @classmethod
    def from_dict(cls, options: dict[str, Any]) -> Self:
        """From plain data (JSON). The error for an unknown option names close matches."""
        return from_dict(cls, options, cls.name)

    @classmethod
    def from_entry(cls, data: Any, where: str) -> CoreConfig:
        """An entry of a config: {"name": ..., **options}. Without a name it is HORST."""
        if isinstance(data, CoreConfig):
            return data
        if not isinstance(data, dict):
            raise ConfigError(f"{where} is {data!r}; it takes a mapping of options")
        return core_config(data)

    @property
    def about(self) -> str:
        """A short description."""
        return self.title


@dataclass(frozen=True, kw_only=True, slots=True)
class LayersConfig(CoreConfig):
    """The options of a stack of layers over maps."""

    hidden: tuple[int, ...]
    """Channels of each layer."""
    stride: tuple[int, ...] = ()
    """Max pooling of each layer's input; all 1 by default."""

    def __post_init__(self) -> None:
        CoreConfig.__post_init__(self)
        if not self.stride:
            object.__setattr__(self, "stride", (1,) * len(self.hidden))
        if len(self.stride) != len(self.hidden):
            raise ConfigError(
                f"stride has {len(self.stride)} entries and hidden {len(self.hidden)}: pass one per layer"
            )

    @property
    def about(self) -> str:
        return f"{len(self.hidden)} {self.title} layers of {', '.join(map(str, self.hidden))} channels"


class State:
    """The memory of a core: tensors whose first axis is the batch, in a frozen dataclass."""

    __slots__ = ()
    count: Tensor  # (B,) int64: how many frames each stream has seen

    @abstractmethod
    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """All of them by name, always in the same order."""

    @abstractmethod
    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The state with `function` applied to each of its tensors."""

    def detach(self) -> Self:
        """Detached from its autograd graph, for truncated backpropagation."""
        return self.map(Tensor.detach)

    @property
    def nbytes(self) -> int:
        """Bytes of the state; constant over time."""
        return sum(tensor.nbytes for _, tensor in self.tensors())


@dataclass(frozen=True, slots=True)
class CoreOutput:
    """What heads and figures read. Leading axes are (B, T) for a clip and (B,) for a step.

    `spatial` and `temporal` are there on request. Entry j of their S belongs to frame t - S + j; frame -1 is the
    all-zero state of the start.
    """

    y: Tensor  # (B, T, C, H, W), the output of the last layer
    e: tuple[Tensor, ...] = ()  # HORST: the encoded input of each layer, (B, T, C, H, W)
    statt: tuple[Tensor, ...] = ()  # HORST: what each layer's attention returned, (B, T, C, H, W)
    spatial: tuple[Tensor, ...] | None = None  # S(Q, K) of each layer, (B, T, S, H, W)
    temporal: tuple[Tensor, ...] | None = None  # T(Q, K) of each layer, (B, T, S)
    more: Mapping[str, Tensor] = field(default_factory=dict)  # other outputs, for heads made for this core, by name
    future: Tensor | None = None  # the next K pooled inputs, predicted: (B, T, K, C), or (B, T, M, K, C) for M guesses

    def named(self, name: str) -> Tensor:
        """What a head reads by that name: y, the last layer's e or statt, or one of `more`."""
        if name == "y":
            return self.y
        return self.more[name] if name in self.more else getattr(self, name)[-1]


class Core(nn.Module):
    """A temporal core: it turns the feature maps of frames, one after another, into what a head reads."""

    config_class: ClassVar[type[CoreConfig]]  # set by `register_core`
    config: Any  # a `CoreConfig`
    state_class: ClassVar[type[Any]]
    gives: ClassVar[tuple[str, ...]] = ("y",)  # what heads can read; see `CoreOutput.named`
    channels: int  # of y
    predicts_features: bool = False  # whether it predicts its future pooled input, in `CoreOutput.future`
    streaming: bool = True  # whether it takes one frame at a time; if not, whole clips only

    @property
    def like(self) -> Tensor:
        """A tensor on the device and in the precision of the core."""
        return next(itertools.chain(self.parameters(), self.buffers()))

    @property
    def order(self) -> int:
        """How many past frames it returns attention weights for; 0: none."""
        return 0

    @abstractmethod
    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The size of y for maps of height x width."""

    def init_state(
        self, batch_size: int, height: int, width: int, *, device: Device = None, dtype: torch.dtype | None = None
    ) -> Any:
        """The state before the first frame, for maps of height x width (the size of the core's input)."""
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}; it must be at least 1")
        self.check_size(height, width)
        state = self.first_state(batch_size, height, width)
        if device is None and dtype is None:
            return state
        return state.map(lambda x: x.to(device=device, dtype=dtype if x.is_floating_point() else None))

    @abstractmethod
    def first_state(self, batch_size: int, height: int, width: int) -> Any:
        """`init_state` on the device and in the precision of the core."""

    @abstractmethod
    def forward(
        self, x: Tensor, state: Any = None, lengths: Lengths = None, *, attention: bool = False
    ) -> tuple[CoreOutput, Any]:
        """A clip x (B, T, C, H, W), continuing from `state` or from the first frame on.

        With `lengths` (frames of each sample, 1..T) what comes after a sample's end is ignored: its outputs there are
        zero and its state is that of its own last frame. `attention` adds the weights to the output.
        """

    def encode(self, x: Tensor) -> CoreOutput:
        """`forward` of whole clips x (B, T, C, H, W) for training, where the state after them is not needed."""
        return self(x)[0]

    @abstractmethod
    def step(self, x: Tensor, state: Any, *, attention: bool = False) -> tuple[CoreOutput, Any]:
        """One frame x (B, C, H, W) of every stream. The state passed in is not changed."""

    @abstractmethod
    def state_shapes(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the state's tensors without the batch, for maps of height x width."""

    def check_state(self, state: Any, batch_size: int, height: int, width: int) -> None:
        """StateError for the state of another core, batch or map size."""
        if not isinstance(state, self.state_class):
            raise StateError(f"the state is a {type(state).__name__}; pass what init_state or an earlier call returned")
        if state.config != self.config:
            raise StateError("the state is of another model: its layers have other sizes or options")
        weight, shapes = self.like, self.state_shapes(height, width)
        for name, found in state.tensors():
            wanted = (batch_size, *shapes[name])
            if tuple(found.shape) != wanted:
                raise StateError(
                    f"the state has {name} of shape {tuple(found.shape)}, expected {wanted}: "
                    f"it is of another batch or frame size; start a new one with init_state"
                )
            if found.device != weight.device:
                raise StateError(f"the state is on {found.device} and the model on {weight.device}: move one of them")
            if found.is_floating_point() and found.dtype != weight.dtype:
                raise StateError(f"the state is {found.dtype} and the model {weight.dtype}: cast one of them")

    def use_backend(self, name: Wanted) -> None:
        """Choose the implementation that runs clips, see `horst.ops.backend`; by default only plain PyTorch exists."""
        if name not in ("auto", "reference"):
            raise ConfigError(f"the backend {name} is for HORST; {self.config.title} runs in plain PyTorch: use auto")

    def backend(self, device: torch.device) -> BackendChoice:
        """The implementation that runs clips on a device, and why."""
        return BackendChoice("reference", f"{self.config.title} has no kernels")

    def check_input(self, x: Tensor, rank: int, shape: str) -> None:
        """InputError for an input that an operation would reject less clearly."""
        if not isinstance(x, Tensor):
            raise InputError(f"the input is a {type(x).__name__}, not a tensor: use torch.from_numpy")
        if x.ndim != rank:
            raise InputError(f"the input has shape {tuple(x.shape)}; it must be {shape}")
        if 0 in x.shape:
            raise InputError(f"the input has shape {tuple(x.shape)}: it is empty; pass at least one frame")
        if x.shape[-3] != self.config.in_channels:
            raise InputError(f"the input has {x.shape[-3]} channels; this core takes {self.config.in_channels}")
        self.check_size(*x.shape[-2:])
        weight = self.like
        if x.device != weight.device:
            raise InputError(f"the input is on {x.device} and the model on {weight.device}: move one of them")
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
            raise InputError(f"the input is {x.dtype} and the model {weight.dtype}: cast one, or use torch.autocast")

    def check_size(self, height: int, width: int) -> None:
        if min(self.output_size(height, width)) < 1:
            stride = getattr(self.config, "stride", "of this core")
            raise InputError(f"a map of {height}x{width} vanishes under the strides {stride}: use a larger one")


CORES: Registry[type[Core]] = Registry("core")  # the cores by name


def register_core(config: type[CoreConfig]) -> Callable[[type[Core]], type[Core]]:
    """A decorator that adds a core, built from `config`, under the name of that config."""

    def add(core: type[Core]) -> type[Core]:
        core.config_class = config
        return CORES.register(config.name)(core)

    return add


def core_config(data: dict[str, Any]) -> CoreConfig:
    """From plain data: {"name": ..., **options}. Without a name it is HORST."""
    options = dict(data)
    return CORES[options.pop("name", "horst")].config_class.from_dict(options)


def create_core(config: CoreConfig) -> Core:
    """The core of a config, with new weights."""
    return CORES[config.name](config)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def ended_frames(frames: Sequence[int], x: Tensor) -> Tensor:
    """(B, T) bool: which frames of a clip x (B, T, ...) come after the ends of samples of so many frames."""
    return ~length_mask(torch.tensor(frames, device=x.device), x.shape[1])


def zero_where(x: Tensor, ended: Tensor) -> Tensor:
    """x (B, T, ...) with zeros where a sample has ended, even if there was NaN."""
    return x.masked_fill(ended.view(*ended.shape, *(1,) * (x.ndim - 2)), 0.0)
