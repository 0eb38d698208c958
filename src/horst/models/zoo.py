"""The models of the methods that HORST is compared with: a core and a head on a backbone, at the size of a data set.

conv_lstm_ssv2, rulstm_ek55, rulstm_tiny: the last are for the videos that the package draws. What of its sizes a paper
does not say is chosen like HORST's: layers as wide, or about as many parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from horst.layers import CoreConfig
from horst.models.method_table import SIZES
from horst.models.methods import (
    ActionBanksConfig,
    AVTConfig,
    CNN3DConfig,
    ConvLSTMConfig,
    ConvTTLSTMConfig,
    DMRConfig,
    E3DLSTMConfig,
    FeedbackConfig,
    LSTMConfig,
    TSNConfig,
)
from horst.models.predictor import PredictorConfig
from horst.registry import Part

TINY_STEM = {"widths": [24, 48, 64], "norm": "channel"}
"""Of the small models that read maps: 112 x 112 pixels become 14 x 14 places."""
TINY_FRAMES = {"widths": [24, 48, 64, 96, 128], "norm": "batch"}
"""Of the small models that read the mean of a map: what is averaged must have seen a hand and a thing together."""
ACTIONS = {"ek55": 2513, "ek100": 3806, "tiny": 75}
"""Verbs and nouns of them, which the heads "marginal" and "verb_noun" take too, are known to the data alone."""


def _recognition(size: str, core: CoreConfig) -> PredictorConfig:
    """On HORST's backbone, with HORST's head."""
    if size == "ssv2":
        head = Part(name="recognition", options={"num_classes": 41})
        return PredictorConfig(backbone=Part(name="stem"), core=core, head=head, size=(224, 224), fps=12.0)
    head = Part(name="recognition", options={"num_classes": 16, "norm": "batch"})
    backbone = Part(name="stem", options=TINY_STEM)
    return PredictorConfig(backbone=backbone, core=core, head=head, size=(112, 112), fps=12.0)


def _anticipation(size: str, core: CoreConfig, head: str, **options: Any) -> PredictorConfig:
    """On the vectors of RULSTM's TSN, or on a small backbone of its own."""
    part = Part(name=head, options={"num_classes": ACTIONS[size], **options})
    if size == "tiny":
        backbone = Part(name="stem", options=TINY_FRAMES)
        return PredictorConfig(backbone=backbone, core=core, head=part, size=(96, 168), fps=4.0)
    backbone = Part(name="maps", options={"channels": 1024})
    return PredictorConfig(backbone=backbone, core=core, head=part, size=(1, 1), fps=4.0)


def _zoo() -> Iterator[tuple[str, Callable[[], PredictorConfig]]]:
    """All models but HORST, by name."""
    wide: dict[str, Any] = {"in_channels": 128, "hidden": (128, 256, 512, 512), "stride": (1, 1, 2, 2)}
    small: dict[str, Any] = {"in_channels": 64, "stride": (1, 2, 1)}
    stacks: dict[str, tuple[CoreConfig, CoreConfig]] = {
        "cnn3d": (CNN3DConfig(**wide), CNN3DConfig(**small, hidden=(96, 128, 160))),
        "conv_lstm": (ConvLSTMConfig(**wide), ConvLSTMConfig(**small, hidden=(64, 64, 96))),
        "conv_tt_lstm": (ConvTTLSTMConfig(**wide), ConvTTLSTMConfig(**small, hidden=(96, 96, 128))),
        "e3d_lstm": (
            # Its recall compares every place with every other: 28 x 28 places are what fits a GPU.
            E3DLSTMConfig(in_channels=128, hidden=(128,) * 4, stride=(2, 2, 1, 1), kernel=3),
            E3DLSTMConfig(**small, hidden=(32,) * 3, kernel=3, recall="position"),
        ),
    }
    for name, pair in stacks.items():
        for size, core in zip(SIZES["recognition"], pair, strict=True):
            yield f"{name}_{size}", partial(_recognition, size, core)
    for size in SIZES["anticipation"]:
        tiny = size == "tiny"
        read: dict[str, Any] = {"in_channels": 128 if tiny else 1024}
        units, dropout = (256, 0.2) if tiny else (1024, 0.8)
        banks: dict[str, Any] = {"hidden": 64, "spanning": (2, 3), "recent": (2, 5)} if tiny else {}
        lstm = LSTMConfig(**read, hidden=units, dropout=dropout)
        tsn = TSNConfig(**read, hidden=256 if tiny else None)
        made: dict[str, tuple[CoreConfig, str]] = {
            "lstm": (lstm, "action"),
            "rulstm": (lstm, "rolling_unrolling"),
            "encoder_decoder": (lstm, "encoder_decoder"),
            "imagine_rnn": (lstm, "imagine"),
            "feedback": (FeedbackConfig(**read, hidden=units, dropout=dropout), "action"),
            "tsn": (tsn, "action"),
            "mce": (tsn, "marginal"),
            "atsn": (tsn, "verb_noun"),
            "dmr": (DMRConfig(**read, hidden=units, mlp=units, dropout=dropout), "action"),
            "action_banks": (ActionBanksConfig(**read, **banks), "action"),
            "avt": (
                AVTConfig(**read, hidden=128, layers=3, context=14)
                if tiny
                else AVTConfig(**read, layers=12 if size == "ek55" else 6, heads=8 if size == "ek55" else 4),
                "action",
            ),
        }
        for name, (core, head) in made.items():
            # Of the classifier's input, where the authors have it: AVT's code has 0.2 for EPIC-Kitchens 100.
            drop = {"dmr": 0.0, "action_banks": 0.0, "avt": 0.2 if size == "ek100" else dropout}.get(name, dropout)
            yield f"{name}_{size}", partial(_anticipation, size, core, head, dropout=drop)


ZOO: dict[str, Callable[[], PredictorConfig]] = dict(_zoo())
