"""Heads read predictions off a core's output: `head(y=..., e=..., statt=...)` returns `Logits`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from horst.heads.logits import Logits
from horst.heads.recognition import RecognitionHead
from horst.heads.unrolling import Unroll, UnrollingHead
from horst.heads.verb_noun_action import VerbNounActionHead
from horst.registry import Part, build

__all__ = ["HEADS", "Head", "Logits", "RecognitionHead", "Unroll", "UnrollingHead", "VerbNounActionHead", "create_head"]

Head = RecognitionHead | VerbNounActionHead | UnrollingHead
HEADS: dict[str, Callable[..., Head]] = {
    "recognition": RecognitionHead,
    "verb_noun_action": VerbNounActionHead,
    "unrolling": UnrollingHead,
}


def create_head(name: str, channels: int, **options: Any) -> Head:
    """A head by name for a core of `channels`, e.g. `create_head("recognition", 512, num_classes=41)`."""
    head = build("head", HEADS, name, channels, **options)
    head.made_from = Part(name=name, options=options)
    return head
