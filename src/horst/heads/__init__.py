"""Heads turn the output of a core into predictions: `head(y=..., e=..., statt=...)` returns `Logits`."""

from horst.heads.base import HEADS, TASKS, Head, Logits, check_maps, create_head, head_options, register_head
from horst.heads.linear import ActionHead, RecognitionHead, VerbNounActionHead
from horst.heads.open_set import OpenRecognitionHead
from horst.heads.unrolling import Unroll, Unroller, UnrollingHead

__all__ = [
    "HEADS",
    "TASKS",
    "ActionHead",
    "Head",
    "Logits",
    "OpenRecognitionHead",
    "RecognitionHead",
    "Unroll",
    "Unroller",
    "UnrollingHead",
    "VerbNounActionHead",
    "check_maps",
    "create_head",
    "head_options",
    "register_head",
]
