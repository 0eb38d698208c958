"""`kitchen`: long synthetic videos for action anticipation, in the style of EPIC-Kitchens."""

from horst.synth.kitchen.participants import SEEN, UNSEEN
from horst.synth.kitchen.scene import render
from horst.synth.kitchen.spec import ACTIONS, FPS, Action, Segment, VideoSpec, action_id
from horst.synth.kitchen.videos import EPIC_FPS, EpicRows, epic_rows, plan
from horst.synth.kitchen.world import NOUNS, VERBS

__all__ = [
    "ACTIONS", "EPIC_FPS", "FPS", "NOUNS", "SEEN", "UNSEEN", "VERBS",
    "Action", "EpicRows", "Segment", "VideoSpec", "action_id", "epic_rows", "plan", "render",
]  # fmt: skip
