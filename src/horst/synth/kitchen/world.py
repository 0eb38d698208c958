"""The kitchen's state machine: what is where, what is on, and what an action needs and changes.

Both the planner (`kitchen_plan`) and the renderer (`kitchen_scene`) move a world forward with `apply`, so a video can
only show what its labels say: a step that takes an object from where it is not raises `ImpossibleStepError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

VERBS = (
    "close", "crack", "cut", "dry", "open", "peel", "pour",
    "put", "stir", "take", "throw", "turn-off", "turn-on", "wash",
)  # fmt: skip
NOUNS = (
    "carrot", "cloth", "cup", "cupboard", "egg", "fridge", "hob", "kettle", "knife", "milk",
    "oil", "onion", "pan", "pasta", "plate", "sponge", "spoon", "tap", "tea", "tomato",
)  # fmt: skip

VEGETABLES = ("onion", "tomato", "carrot")
DISHES = ("plate", "cup", "spoon", "knife", "pan")
DOORS = ("fridge", "cupboard")
SWITCHES = ("tap", "hob", "kettle")
VESSELS = ("pan", "cup", "plate")
HANDS = 2

CAPACITY = {"counter": 6, "sink": 5, "rack": 5, "board": 3}
"""Places with numbered slots that any object may take; everywhere else an object has its own slot, its home."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A slot of a place. `hand` is the place of what is held, `gone` of what was eaten or thrown away."""

    place: str
    slot: int = 0


def _homes() -> dict[str, Spot]:
    shelves = {
        "fridge": ("milk", "onion", "carrot", "tomato", "egg", "onion", "tomato", "egg", "egg"),
        "cupboard": ("plate", "cup", "pasta", "plate", "cup", "plate"),
        "shelf": ("oil", "tea"),
        "rail": ("knife", "spoon", "spoon"),
        "hob": ("pan",),
        "base": ("kettle",),
        "edge": ("sponge",),
        "hook": ("cloth",),
    }
    homes: dict[str, Spot] = {}
    for place, nouns in shelves.items():
        for slot, noun in enumerate(nouns):
            homes[f"{noun}.{nouns[:slot].count(noun)}"] = Spot(place, slot)
    return homes


HOME: Mapping[str, Spot] = _homes()
"""Where each object belongs. Objects are named noun.number: several plates share the noun `plate`."""


class ImpossibleStepError(ValueError):
    """A step that the world does not allow: a fault of the planner, never of the user."""


@dataclass(frozen=True, slots=True)
class Step:
    """One action on one object (`plate.1`) or fixture (`tap`), and the place or vessel it goes to or happens at."""

    verb: str
    item: str
    place: str = ""

    @property
    def noun(self) -> str:
        return noun_of(self.item)


@dataclass(frozen=True, slots=True)
class World:
    """Everything that persists between two actions."""

    where: Mapping[str, Spot]
    on: frozenset[str] = frozenset()
    """Open doors and running switches."""
    dirty: frozenset[str] = frozenset()
    wet: frozenset[str] = frozenset()
    form: Mapping[str, str] = field(default_factory=dict)
    """`peeled` or `cut` for vegetables that no longer are whole."""
    inside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Nouns inside a vessel, in the order they came."""
    waste: tuple[str, ...] = ()
    """Peel, shells and tea bags that still lie about, by noun."""
    basin: bool = False
    """The sink holds soapy water, so that washing needs no running tap."""

    def place(self, item: str) -> str:
        return self.where[item].place

    def held(self) -> tuple[str, ...]:
        """What the hands hold, right hand (slot 0) first."""
        return tuple(sorted((i for i, s in self.where.items() if s.place == "hand"), key=lambda i: self.where[i].slot))

    def at(self, place: str) -> tuple[str, ...]:
        return tuple(item for item, spot in self.where.items() if spot.place == place)

    def contents(self, vessel: str) -> tuple[str, ...]:
        return self.inside.get(vessel, ())

    def free_slot(self, place: str, item: str) -> int | None:
        """The slot that `item` would get at `place`, None where there is no room."""
        if place == "hand":
            slots: range | tuple[int, ...] = range(HANDS)
        elif place in CAPACITY:
            slots = range(CAPACITY[place])
        else:
            slots = (HOME[item].slot,) if HOME[item].place == place else ()
        taken = {spot.slot for spot in self.where.values() if spot.place == place}
        return next((slot for slot in slots if slot not in taken), None)

    def reachable(self, place: str) -> bool:
        return place not in DOORS or place in self.on


def noun_of(item: str) -> str:
    return item.partition(".")[0]


def _need(condition: bool, step: Step, why: str) -> None:
    if not condition:
        raise ImpossibleStepError(f"{step.verb} {step.item} ({step.place or 'in place'}): {why}")


def _moved(world: World, item: str, place: str, step: Step) -> World:
    slot = 0 if place == "gone" else world.free_slot(place, item)
    _need(slot is not None, step, f"no room at {place}")
    return replace(world, where={**world.where, item: Spot(place, slot or 0)})


def _need_vessel(world: World, step: Step) -> None:
    _need(step.place in HOME and noun_of(step.place) in VESSELS, step, "into what?")
    _need(world.place(step.place) in ("counter", "hob"), step, f"{step.place} is at {world.place(step.place)}")


def _filled(world: World, vessel: str, nouns: tuple[str, ...]) -> World:
    return replace(world, inside={**world.inside, vessel: nouns})


def _take(world: World, step: Step) -> World:
    _need(world.place(step.item) == step.place, step, f"it is at {world.place(step.item)}")
    _need(step.place != "hand" and world.reachable(step.place), step, "out of reach")
    if step.noun == "kettle":
        world = replace(world, on=world.on - {"kettle"})  # lifted off its base it switches itself off
    return _moved(world, step.item, "hand", step)


def _put(world: World, step: Step) -> World:
    _need(step.item in world.held(), step, "not in a hand")
    if step.place in HOME:
        _need_vessel(world, step)
        world = _filled(world, step.place, (*world.contents(step.place), step.noun))
        if step.noun == "tea":
            # the bag comes out again later; the next one waits in the box, so the object is back at its home
            return _moved(replace(world, waste=(*world.waste, "tea")), step.item, HOME[step.item].place, step)
        return _moved(world, step.item, "gone", step)
    _need(world.reachable(step.place), step, "the door is closed")
    return _moved(world, step.item, step.place, step)


def _switch(world: World, step: Step) -> World:
    turn_on = step.verb in ("open", "turn-on")
    _need((step.item in world.on) != turn_on, step, "already so")
    if step.item == "tap":
        # turned off with the plug in, the sink stays full; the next water from the tap rinses the foam away
        world = replace(world, basin=not turn_on and step.place == "basin")
    return replace(world, on=world.on | {step.item} if turn_on else world.on - {step.item})


def _wash(world: World, step: Step) -> World:
    _need(step.item in world.held(), step, "not in a hand")
    _need("tap" in world.on or world.basin, step, "no water")
    if step.noun in DISHES:
        _need("sponge.0" in world.held(), step, "no sponge in the other hand")
    world = _filled(world, step.item, ())
    return replace(world, dirty=world.dirty - {step.item}, wet=world.wet | {step.item})


def _dry(world: World, step: Step) -> World:
    _need({step.item, "cloth.0"} <= set(world.held()), step, "needs it and the cloth in the hands")
    _need(step.item in world.wet, step, "it is dry")
    return replace(world, wet=world.wet - {step.item})


def _cut(world: World, step: Step) -> World:
    _need("knife.0" in world.held(), step, "no knife in a hand")
    _need(world.place(step.item) == "board", step, "not on the board")
    done = world.form.get(step.item, "whole")
    _need(done == "whole" or (step.verb == "cut" and done == "peeled"), step, f"already {done}")
    waste = (*world.waste, step.noun) if step.verb == "peel" else world.waste
    form = {**world.form, step.item: "peeled" if step.verb == "peel" else "cut"}
    return replace(world, form=form, waste=waste, dirty=world.dirty | {"knife.0"})


def _crack(world: World, step: Step) -> World:
    _need(step.item in world.held(), step, "not in a hand")
    _need_vessel(world, step)
    world = _filled(world, step.place, (*world.contents(step.place), step.noun))
    return replace(_moved(world, step.item, "gone", step), waste=(*world.waste, step.noun))


def _pour(world: World, step: Step) -> World:
    _need(step.item in world.held(), step, "not in a hand")
    if step.place != "sink":
        _need_vessel(world, step)
    if step.noun == "pan":
        food = world.contents(step.item)
        _need(bool(food), step, "the pan is empty")
        world = replace(_filled(world, step.item, ()), dirty=world.dirty | {step.item})
    else:
        food = ("water" if step.noun == "kettle" else step.noun,)
    if step.place == "sink":
        return world
    world = _filled(world, step.place, (*world.contents(step.place), *food))
    return replace(world, dirty=world.dirty | {step.place})


def _stir(world: World, step: Step) -> World:
    _need(any(noun_of(item) == "spoon" for item in world.held()), step, "no spoon in a hand")
    _need_vessel(world, step)
    _need(step.noun in world.contents(step.place), step, f"not in {step.place}")
    return replace(world, dirty=world.dirty | {i for i in world.held() if noun_of(i) == "spoon"})


def _throw(world: World, step: Step) -> World:
    _need(step.noun in world.waste, step, "nothing to throw away")
    _need(len(world.held()) < HANDS, step, "no free hand")
    waste = list(world.waste)
    waste.remove(step.noun)
    return replace(world, waste=tuple(waste))


_RULES = {
    "take": _take, "put": _put, "open": _switch, "close": _switch, "turn-on": _switch, "turn-off": _switch,
    "wash": _wash, "dry": _dry, "cut": _cut, "peel": _cut, "crack": _crack, "pour": _pour, "stir": _stir,
    "throw": _throw,
}  # fmt: skip


def apply(world: World, step: Step) -> World:
    """The world after `step`; raises `ImpossibleStepError` where the step does not fit the world."""
    return _RULES[step.verb](world, step)
