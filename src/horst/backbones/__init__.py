"""Backbones turn frames into feature maps. `create_backbone` builds one by name.

Packages that only one backbone needs (timm, transformers, the EfficientNet weights) are imported when it is built.
"""

from horst.backbones.base import BACKBONES, Backbone, PrecomputedMaps, create_backbone, register_backbone
from horst.backbones.bn_inception import BNInception, load_tsn, read_tsn
from horst.backbones.cells import CellsBackbone
from horst.backbones.efficientnet_lite import EfficientNetLite0, load_imagenet
from horst.backbones.stem import ConvStem
from horst.backbones.timm_adapter import TimmBackbone
from horst.backbones.video_encoders import VJEPA2, VideoMAE
from horst.backbones.window import WindowBackbone, WindowMemory

__all__ = [
    "BACKBONES",
    "VJEPA2",
    "BNInception",
    "Backbone",
    "CellsBackbone",
    "ConvStem",
    "EfficientNetLite0",
    "PrecomputedMaps",
    "TimmBackbone",
    "VideoMAE",
    "WindowBackbone",
    "WindowMemory",
    "create_backbone",
    "load_imagenet",
    "load_tsn",
    "read_tsn",
    "register_backbone",
]
