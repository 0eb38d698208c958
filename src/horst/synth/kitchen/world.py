"""The kitchen as a state machine: where objects are, what is on, and what an action needs and changes.

Both the planner (`videos`) and the renderer move a world forward with `apply`, so a video can only show what its labels
say: a step that takes an object from where it is not raises `ImpossibleStepError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self


class Verb(NamedTuple):
    """What all actions of a verb have in common."""

    seconds: float  # typical length
    effect: float  # the fraction of a segment after which the world changes
    nouns: str  # the nouns that it occurs with
    motions: tuple[str, ...] = ()  # how each hand oscillates at its target (see `render`), the leading hand first


_ITEMS = "carrot cloth cup egg kettle knife milk oil onion pan pasta plate sponge spoon tea tomato"
VERB_TABLE = {
    "close": Verb(1.2, 0.6, "cupboard fridge"),
    "crack": Verb(1.8, 0.6, "egg", ("tap",)),
    "cut": Verb(3.2, 0.7, "carrot onion tomato", ("chop",)),
    "dry": Verb(2.4, 0.85, "cup knife pan plate spoon", ("rub", "hold")),
    "open": Verb(1.3, 0.6, "cupboard fridge"),
    "peel": Verb(2.8, 0.75, "carrot onion", ("scrape",)),
    "pour": Verb(2.2, 0.7, "kettle milk oil pan pasta", ("tilt",)),
    "put": Verb(1.3, 0.62, _ITEMS),
    "stir": Verb(2.8, 0.8, "carrot egg onion pasta tea tomato", ("stir",)),
    "take": Verb(1.3, 0.42, _ITEMS),
    "throw": Verb(1.6, 0.8, "carrot egg onion tea"),
    "turn-off": Verb(1.1, 0.5, "hob tap"),
    "turn-on": Verb(1.2, 0.5, "hob kettle tap"),
    "wash": Verb(2.8, 0.8, "carrot cup knife onion pan plate spoon tomato", ("rub", "hold")),
}
VERBS = tuple(VERB_TABLE)
NOUNS = tuple(sorted({noun for verb in VERB_TABLE.values() for noun in verb.nouns.split()}))

VEGETABLES = ("onion", "tomato", "carrot")
DISHES = ("plate", "cup", "spoon", "knife", "pan")
DOORS = ("fridge", "cupboard")
SWITCHES = ("tap", "hob", "kettle")
VESSELS = ("pan", "cup", "plate")
HANDS = 2
# places with numbered slots for any object; everywhere else an object has its own slot, its home
CAPACITY = {"hand": HANDS, "counter": 6, "sink": 5, "rack": 5, "board": 3}


class Location(NamedTuple):
    """A slot of a place. The place `hand` is for held objects, `gone` for what was used up."""

    place: str
    slot: int = 0


_HOMES = {  # the nouns of the objects in each slot
    "fridge": "milk onion carrot tomato egg onion tomato egg egg", "cupboard": "plate cup pasta plate cup plate",
    "shelf": "oil tea", "rail": "knife spoon spoon", "hob": "pan", "base": "kettle", "edge": "sponge", "hook": "cloth",
}  # fmt: skip
# where each object belongs; objects are named noun.number: several plates share the noun `plate`
HOME: Mapping[str, Location] = {
    f"{noun}.{nouns.split()[:slot].count(noun)}": Location(place, slot)
    for place, nouns in _HOMES.items()
    for slot, noun in enumerate(nouns.split())
}


class ImpossibleStepError(ValueError):
    """A step that the world does not allow: a bug in the planner."""


class ActionStep(NamedTuple):
    """One action on an object (`plate.1`) or fixture (`tap`), and the place or vessel of the action."""

    verb: str
    item: str
    place: str = ""

    @property
    def noun(self) -> str:
        return noun_of(self.item)


@dataclass(frozen=True, slots=True)
class World:
    """The state between two actions."""

    where: Mapping[str, Location]
    on: frozenset[str] = frozenset()  # open doors and running switches
    dirty: frozenset[str] = frozenset()
    wet: frozenset[str] = frozenset()
    form: Mapping[str, str] = field(default_factory=dict)  # `peeled` or `cut` for vegetables that are no longer whole
    inside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # nouns in a vessel, in the order added
    waste: tuple[str, ...] = ()  # peel, shells and tea bags that are not yet thrown away, by noun
    basin: bool = False  # the sink holds soapy water: washing needs no running tap

    def place(self, item: str) -> str:
        return self.where[item].place

    def held(self) -> tuple[str, ...]:
        """The held objects, right hand (slot 0) first."""
        return tuple(sorted(self.at("hand"), key=lambda item: self.where[item].slot))

    def at(self, place: str) -> tuple[str, ...]:
        return tuple(item for item, at in self.where.items() if at.place == place)

    def contents(self, vessel: str) -> tuple[str, ...]:
        return self.inside.get(vessel, ())

    def free_slot(self, place: str, item: str = "") -> int | None:
        """The slot that `item` would get at `place`; None if there is no room."""
        own = (HOME[item].slot,) if item and HOME[item].place == place else ()
        slots = range(CAPACITY[place]) if place in CAPACITY else own
        taken = {at.slot for at in self.where.values() if at.place == place}
        return next((slot for slot in slots if slot not in taken), None)

    def reachable(self, place: str) -> bool:
        return place not in DOORS or place in self.on

    def moved(self, step: ActionStep, place: str) -> Self:
        """The world with the object of a step at a place."""
        slot = 0 if place == "gone" else self.free_slot(place, step.item)
        _need(slot is not None, step, f"no room at {place}")
        return replace(self, where={**self.where, step.item: Location(place, slot or 0)})

    def filled(self, step: ActionStep, *nouns: str) -> Self:
        """The world with more in the vessel at which a step takes place."""
        self.need_vessel(step)
        return replace(self, inside={**self.inside, step.place: (*self.contents(step.place), *nouns)})

    def emptied(self, vessel: str) -> Self:
        return replace(self, inside={**self.inside, vessel: ()})

    def need_vessel(self, step: ActionStep) -> None:
        _need(step.place in HOME and noun_of(step.place) in VESSELS, step, "into what?")
        _need(self.place(step.place) in ("counter", "hob"), step, f"{step.place} is at {self.place(step.place)}")


def noun_of(item: str) -> str:
    return item.partition(".")[0]


def _need(condition: bool, step: ActionStep, why: str) -> None:
    if not condition:
        raise ImpossibleStepError(f"{step.verb} {step.item} ({step.place or 'in place'}): {why}")


def apply(world: World, step: ActionStep) -> World:
    """The world after `step`. Raises `ImpossibleStepError` if the world does not allow it."""
    held, noun = world.held(), step.noun
    if step.verb in ("put", "wash", "crack", "pour"):
        _need(step.item in held, step, "not in a hand")
    match step.verb:
        case "take":
            _need(world.place(step.item) == step.place, step, f"it is at {world.place(step.item)}")
            _need(step.place != "hand" and world.reachable(step.place), step, "out of reach")
            # the kettle switches off when lifted
            return replace(world, on=world.on - {noun} if noun == "kettle" else world.on).moved(step, "hand")
        case "put" if step.place not in HOME:
            _need(world.reachable(step.place), step, "the door is closed")
            return world.moved(step, step.place)
        case "put" | "crack":
            world = world.filled(step, noun)
            if step.verb == "crack" or noun == "tea":
                world = replace(world, waste=(*world.waste, noun))
            # the next tea bag is in the box, so the object is back at its home
            return world.moved(step, HOME[step.item].place if noun == "tea" else "gone")
        case "open" | "close" | "turn-on" | "turn-off":
            turn_on = step.verb in ("open", "turn-on")
            _need((step.item in world.on) != turn_on, step, "already so")
            # with the plug in, the sink stays full; the next water from the tap removes the foam
            basin = not turn_on and step.place == "basin" if step.item == "tap" else world.basin
            return replace(world, basin=basin, on=world.on | {step.item} if turn_on else world.on - {step.item})
        case "wash":
            _need("tap" in world.on or world.basin, step, "no water")
            _need(noun not in DISHES or "sponge.0" in held, step, "no sponge in the other hand")
            return replace(world.emptied(step.item), dirty=world.dirty - {step.item}, wet=world.wet | {step.item})
        case "dry":
            _need({step.item, "cloth.0"} <= set(held), step, "needs it and the cloth in the hands")
            _need(step.item in world.wet, step, "it is dry")
            return replace(world, wet=world.wet - {step.item})
        case "cut" | "peel":
            _need("knife.0" in held, step, "no knife in a hand")
            _need(world.place(step.item) == "board", step, "not on the board")
            done = world.form.get(step.item, "whole")
            _need(done == "whole" or (step.verb == "cut" and done == "peeled"), step, f"already {done}")
            waste = (*world.waste, noun) if step.verb == "peel" else world.waste
            form = {**world.form, step.item: "peeled" if step.verb == "peel" else "cut"}
            return replace(world, form=form, waste=waste, dirty=world.dirty | {"knife.0"})
        case "pour":
            if step.place != "sink":
                world.need_vessel(step)
            food = world.contents(step.item) if noun == "pan" else ("water" if noun == "kettle" else noun,)
            _need(bool(food), step, "the pan is empty")
            if noun == "pan":
                world = replace(world.emptied(step.item), dirty=world.dirty | {step.item})
            if step.place == "sink":
                return world
            return replace(world.filled(step, *food), dirty=world.dirty | {step.place})
        case "stir":
            spoons = {item for item in held if noun_of(item) == "spoon"}
            _need(bool(spoons), step, "no spoon in a hand")
            world.need_vessel(step)
            _need(noun in world.contents(step.place), step, f"not in {step.place}")
            return replace(world, dirty=world.dirty | spoons)
        case "throw":
            _need(noun in world.waste, step, "nothing to throw away")
            _need(len(held) < HANDS, step, "no free hand")
            first = world.waste.index(noun)
            return replace(world, waste=world.waste[:first] + world.waste[first + 1 :])
    raise ImpossibleStepError(f"{step.verb} is not one of {', '.join(VERBS)}")
