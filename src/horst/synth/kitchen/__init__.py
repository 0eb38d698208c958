"""`kitchen`: long synthetic videos for action anticipation, in the style of EPIC-Kitchens."""

from horst.synth.kitchen.participants import SEEN, UNSEEN
from horst.synth.kitchen.render import render
from horst.synth.kitchen.videos import ACTIONS, EPIC_FPS, FPS, Segment, VideoSpec, action_id, epic_rows, plan
from horst.synth.kitchen.world import NOUNS, VERBS

__all__ = [
    "ACTIONS", "EPIC_FPS", "FPS", "NOUNS", "SEEN", "UNSEEN", "VERBS",
    "Segment", "VideoSpec", "action_id", "epic_rows", "plan", "render",
]  # fmt: skip
