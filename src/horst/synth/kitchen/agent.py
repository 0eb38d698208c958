"""The cook: an agent with the basic moves of which every recipe consists.

A recipe is a generator of steps and `PAUSE`s. Between two steps it sees the current world, so two recipes can
alternate; they do so only at a `PAUSE` with empty hands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from horst.synth.kitchen.participants import Habits
from horst.synth.kitchen.world import DISHES, DOORS, HOME, ActionStep, Location, World, noun_of

Moves = Iterator[ActionStep]
PAUSE = ActionStep("pause", "")  # no action: the cook may continue with something else here

WAITS = 0.18  # probability that an object is first put down on the counter after it was taken


@dataclass(slots=True)
class Agent:
    """The mutable state of the planner: the current world, the random numbers, and the objects reserved by recipes."""

    world: World
    rng: np.random.Generator
    habits: Habits
    reserved: set[str] = field(default_factory=set)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, options: Sequence[str], weights: Sequence[float] | None = None) -> str:
        p = None if weights is None else np.asarray(weights) / np.sum(weights)
        return options[int(self.rng.choice(len(options), p=p))]

    def shuffled(self, items: Sequence[str]) -> list[str]:
        return [items[int(i)] for i in self.rng.permutation(len(items))]

    def stock(self, noun: str) -> list[str]:
        """The objects of a noun that a recipe can claim: clean, empty, not used up, not held and not reserved."""
        world = self.world
        return [
            item
            for item, spot in world.where.items()
            if noun_of(item) == noun and spot.place not in ("gone", "hand") and item not in self.reserved
            and item not in world.dirty and not world.contents(item)
        ]  # fmt: skip

    def claim(self, noun: str) -> str | None:
        """An object of a noun, reserved until the recipe ends; preferably one that is not behind a door."""
        options = sorted(self.stock(noun), key=lambda item: (self.world.place(item) in DOORS, item))
        if not options:
            return None
        self.reserved.add(options[0])
        return options[0]

    def room(self, item: str, *places: str) -> str:
        """The first of the places with room for the object, otherwise its home."""
        return next((place for place in places if self.world.free_slot(place, item) is not None), HOME[item].place)


def fetch(cook: Agent, item: str) -> Moves:
    """Take an object, opening the door before it; the habits decide whether it is closed at once."""
    place = cook.world.place(item)
    if place == "hand":
        return
    if not cook.world.reachable(place):
        yield ActionStep("open", place)
    yield ActionStep("take", item, place)
    if place in DOORS and cook.chance(cook.habits.closes):
        yield ActionStep("close", place)
    yield PAUSE
    if cook.chance(WAITS) and cook.world.free_slot("counter", item) is not None:
        yield ActionStep("put", item, "counter")
        yield PAUSE
        yield from fetch(cook, item)


def put(cook: Agent, item: str, *places: str) -> Moves:
    """Put a held object to the first place with room, otherwise to its home."""
    place = cook.room(item, *places)
    if not cook.world.reachable(place):
        yield ActionStep("open", place)
    yield ActionStep("put", item, place)
    if place in DOORS and cook.chance(cook.habits.closes):
        yield ActionStep("close", place)


def put_down(cook: Agent, item: str) -> Moves:
    """Put down a held object: dirty dishes into the sink, home for tidy cooks, otherwise onto the counter."""
    if item in cook.world.dirty and noun_of(item) in DISHES and cook.chance(0.6):
        yield from put(cook, item, "sink", "counter")
    elif cook.chance(cook.habits.tidy):
        yield from put(cook, item)
    else:
        yield from put(cook, item, "counter")


def switch(cook: Agent, fixture: str, on: bool) -> Moves:
    """Turn the tap or the hob on or off, unless it is already."""
    if (fixture in cook.world.on) != on:
        yield ActionStep("turn-on" if on else "turn-off", fixture)


def initial_world(seed: int) -> World:
    """A video's kitchen before the first action: some objects are not at home, some are dirty."""
    rng = np.random.default_rng([seed, 1])
    where = dict(HOME)
    dirty: set[str] = set()
    for slot, item in enumerate(_sample(rng, ("plate.0", "cup.0", "spoon.0", "plate.1", "knife.0", "cup.1"), (0, 5))):
        where[item] = Location("sink", slot)
        dirty.add(item)
    strays = ("milk.0", "onion.0", "tomato.0", "egg.0", "pasta.0", "oil.0", "carrot.0", "cup.1", "plate.2")
    for slot, item in enumerate(_sample(rng, [item for item in strays if item not in dirty], (0, 4))):
        where[item] = Location("counter", slot)
    on = frozenset({"cupboard"} if rng.random() < 0.15 else ())
    return World(where=where, dirty=frozenset(dirty), on=on)


def _sample(rng: np.random.Generator, items: Sequence[str], count: tuple[int, int]) -> list[str]:
    number = min(int(rng.integers(*count)), len(items))
    return [items[int(i)] for i in rng.permutation(len(items))[:number]]
