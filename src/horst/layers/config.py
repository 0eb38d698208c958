"""The options of HORST: the choices of the paper and of its release by name, and the ablations of the paper.

Where the paper and its official release differ, an option that is None takes the choice of `variant`.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from horst.config import check_type
from horst.errors import ConfigError
from horst.layers.core import LayersConfig
from horst.ops.reference import Mode, PooledPair, SpatialWeight

Variant = Literal["paper", "released"]
Activation = Literal["relu", "silu"]

# The two published variants: what they share, and where they differ.
BOTH = {"key_value": "encoding+h", "temporal_scale": "chw"}
VARIANTS: dict[str, dict[str, str]] = {
    "paper": {**BOTH, "queue": "h", "output": "residual", "activation": "relu", "pooled_pair": "max,avg"},
    "released": {**BOTH, "queue": "statt", "output": "concat+se", "activation": "silu", "pooled_pair": "avg,max"},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class HORSTConfig(LayersConfig):
    """A stack of HORST layers. Immutable; after construction no option is None."""

    name: ClassVar[str] = "horst"
    title: ClassVar[str] = "HORST"

    order: int = 8
    """S, the number of past states that a layer attends to (Table 3)."""
    variant: Variant = "paper"
    """Which published variant sets the options that are None."""
    attention: Mode = "spatial-temporal"
    """Eq. (7), or its ablations (Table 2)."""
    key_value: Literal["query+h", "encoding+h", "split"] | None = None
    """The input of keys and values: [Q; h] of Eq. (10)-(11), [e; h] of Table 4, or K from e and V from h."""
    queue: Literal["h", "statt"] | None = None
    """What the queue keeps as h: `h` = act(FF_h(e + STATT)) of Eq. (8), or the raw `statt` of the release."""
    output: Literal["residual", "residual+e", "concat+se"] | None = None
    """y = act(FF_y(h + x)) of Eq. (8); with the shortcut of e mentioned in the text; or the release's SE block."""
    activation: Activation | None = None
    """ReLU in the paper, SiLU in the release."""
    temporal_scale: Literal["chw", "c"] | None = None
    """Divide the temporal logits by sqrt(CHW) (the paper's listing and the release) or by sqrt(C) (Eq. (6))."""
    pooled_pair: PooledPair | None = None
    """Order of the pooled maps that Eq. (4) convolves: as printed, or as in the listing and the release."""
    spatial_weight: SpatialWeight = "present"
    """Weight of a state in spatial-only attention: 1 / (states present) or 1 / S."""
    heads: int = 1
    """Attention heads; each has its share of the channels, all share the spatial filters."""
    position: Literal["none", "sinusoidal"] = "none"
    """Encoding of the frame number, added to the input of Q, K and V."""

    def __post_init__(self) -> None:
        check_type("variant", self.variant, Variant)
        for name, choice in VARIANTS[self.variant].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, choice)  # frozen for everyone else
        LayersConfig.__post_init__(self)
        for channels in self.hidden:
            if channels % self.heads:
                raise ConfigError(f"hidden has {channels} channels, which is not a multiple of {self.heads} heads")

    @property
    def about(self) -> str:
        widths = ", ".join(map(str, self.hidden))
        return f"{len(self.hidden)} HORST layers of {widths} channels, {self.variant} variant, S = {self.order}"
