"""What a kitchen video is: its classes, its segments, and all that is needed to render it."""

from __future__ import annotations

from dataclasses import dataclass

from horst.synth.kitchen.world import NOUNS, VERBS, Step

FPS = 10
"""Frames per second of the rendered video."""

_PAIRS = {
    "close": "cupboard fridge",
    "crack": "egg",
    "cut": "carrot onion tomato",
    "dry": "cup knife pan plate spoon",
    "open": "cupboard fridge",
    "peel": "carrot onion",
    "pour": "kettle milk oil pan pasta",
    "put": "carrot cloth cup egg kettle knife milk oil onion pan pasta plate sponge spoon tea tomato",
    "stir": "carrot egg onion pasta tea tomato",
    "take": "carrot cloth cup egg kettle knife milk oil onion pan pasta plate sponge spoon tea tomato",
    "throw": "carrot egg onion tea",
    "turn-off": "hob tap",
    "turn-on": "hob kettle tap",
    "wash": "carrot cup knife onion pan plate spoon tomato",
}


@dataclass(frozen=True, slots=True)
class Action:
    """A verb-noun pair with its class ids."""

    id: int
    verb: str
    noun: str

    @property
    def verb_id(self) -> int:
        return VERBS.index(self.verb)

    @property
    def noun_id(self) -> int:
        return NOUNS.index(self.noun)

    @property
    def name(self) -> str:
        return f"{self.verb} {self.noun}"


ACTIONS: tuple[Action, ...] = tuple(
    Action(index, verb, noun)
    for index, (verb, noun) in enumerate((verb, noun) for verb in VERBS for noun in _PAIRS[verb].split())
)
"""Every pair the recipes can produce, sorted by verb, then noun."""

_ACTION_IDS = {(action.verb, action.noun): action.id for action in ACTIONS}


def action_id(verb: str, noun: str) -> int:
    return _ACTION_IDS[verb, noun]


@dataclass(frozen=True, slots=True)
class Segment:
    """One annotated action, and the step of the state machine that it is."""

    start: float
    stop: float
    verb: str
    noun: str
    step: Step

    @property
    def narration(self) -> str:
        return f"{self.verb} {self.noun}"


@dataclass(frozen=True, slots=True)
class VideoSpec:
    """All that is needed to annotate and to render one video."""

    id: str
    participant: str
    split: str
    seed: int
    duration: float
    segments: tuple[Segment, ...]
