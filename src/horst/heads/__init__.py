"""Heads read predictions off a core's output: `head(y=..., e=..., statt=...)` returns `Logits`."""

from __future__ import annotations

import inspect
from typing import Any

from horst.heads.action import ActionHead
from horst.heads.base import Head, Unroll, Unroller
from horst.heads.logits import Logits
from horst.heads.recognition import RecognitionHead
from horst.heads.unrolling import UnrollingHead
from horst.heads.verb_noun_action import VerbNounActionHead
from horst.registry import Part, Registry

__all__ = [
    "HEADS",
    "ActionHead",
    "Head",
    "Logits",
    "RecognitionHead",
    "Unroll",
    "Unroller",
    "UnrollingHead",
    "VerbNounActionHead",
    "create_head",
]

HEADS: Registry[type[Head]] = Registry(
    "head",
    {
        "recognition": RecognitionHead,
        "verb_noun_action": VerbNounActionHead,
        "unrolling": UnrollingHead,
        "action": ActionHead,
    },
)
"""By name. The methods of `horst.models.methods` add theirs."""


def create_head(name: str, channels: int, *, features: int | None = None, **options: Any) -> Head:
    """A head by name for a core of `channels`, e.g. `create_head("recognition", 512, num_classes=41)`.

    `features`: the channels that the core reads, for heads that go on from its input.
    """
    needed = {"features": features} if "features" in head_options(name) and features is not None else {}
    head: Head = HEADS.create(name, channels, **options, **needed)
    head.made_from = Part(name=name, options=options)
    return head


def head_options(name: str) -> list[str]:
    """What a head takes besides channels; none where there is no such head."""
    return [] if name not in HEADS else list(inspect.signature(HEADS[name]).parameters)[1:]
