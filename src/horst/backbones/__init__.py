"""The backbones by name: a configuration says `bn_inception`, `create_backbone` builds it or says what is wrong.

Packages that only one backbone needs (timm, the EfficientNet weights) are imported when that one is built.
"""

from __future__ import annotations

from typing import Any

from horst.backbones.base import Backbone
from horst.backbones.bn_inception import BNInception, load_tsn, read_tsn
from horst.backbones.efficientnet_lite import EfficientNetLite0, imagenet_classifier, load_imagenet
from horst.backbones.maps import PrecomputedMaps
from horst.backbones.stem import ConvStem
from horst.backbones.timm_adapter import TimmBackbone
from horst.registry import Part, Registry

__all__ = [
    "BACKBONES",
    "BNInception",
    "Backbone",
    "ConvStem",
    "EfficientNetLite0",
    "PrecomputedMaps",
    "TimmBackbone",
    "create_backbone",
    "imagenet_classifier",
    "load_imagenet",
    "load_tsn",
    "read_tsn",
]

BACKBONES: Registry[type[Backbone]] = Registry(
    "backbone",
    {
        "stem": ConvStem,
        "bn_inception": BNInception,
        "efficientnet_lite0": EfficientNetLite0,
        "maps": PrecomputedMaps,
        "timm": TimmBackbone,
    },
)


def create_backbone(name: str, **options: Any) -> Backbone:
    """The backbone `name` with the keyword options of its class; ConfigError for a name or option it does not know."""
    backbone: Backbone = BACKBONES.create(name, **options)
    backbone.made_from = Part(name=name, options=options)
    return backbone
