"""The cook: what every recipe of `kitchen_recipes` is written with.

A recipe is a generator of steps and `PAUSE`s. Its code between two steps sees the world as it is by then, so recipes
may take turns; they do so only at a `PAUSE` with empty hands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from horst.synth.kitchen.world import DISHES, DOORS, HOME, Spot, Step, World, noun_of


@dataclass(frozen=True, slots=True)
class Pause:
    """The cook may turn to something else here."""


PAUSE = Pause()
Moves = Iterator[Step | Pause]

WAITS = 0.18
"""How often something just taken is first put down on the counter."""


@dataclass(frozen=True, slots=True)
class Habits:
    """What tells one participant's way of working from another's, all in [0, 1]."""

    basin: float
    """Washes up in a filled sink, and then dries each dish at once; otherwise under the running tap."""
    one_by_one: float
    """Finishes one vegetable or dish before the next one."""
    closes: float
    """Closes a door right after taking something out."""
    tidy: float
    """Puts things back where they belong rather than down."""
    rinses: float
    """Washes vegetables."""
    switches: float
    """Turns to another recipe where there is a choice."""


@dataclass(slots=True)
class Cook:
    """The only mutable thing of the planner: the world so far, the dice, and the objects a recipe counts on."""

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
        """The objects of a noun that a recipe may still claim: clean, not used up and not held."""
        world = self.world
        return [
            item
            for item, spot in world.where.items()
            if noun_of(item) == noun and spot.place not in ("gone", "hand") and item not in self.reserved
            and item not in world.dirty and not world.contents(item)
        ]  # fmt: skip

    def claim(self, noun: str) -> str | None:
        """An object of a noun, reserved until the recipe ends; one that is at hand rather than behind a door."""
        options = sorted(self.stock(noun), key=lambda item: (self.world.place(item) in DOORS, item))
        if not options:
            return None
        self.reserved.add(options[0])
        return options[0]

    def room(self, item: str, *places: str) -> str:
        """The first of the places with room for the object, else its home."""
        return next((place for place in places if self.world.free_slot(place, item) is not None), HOME[item].place)


def fetch(cook: Cook, item: str) -> Moves:
    """Take an object from wherever it is, opening its door, and closing it again as the habit is."""
    place = cook.world.place(item)
    if place == "hand":
        return
    if not cook.world.reachable(place):
        yield Step("open", place)
    yield Step("take", item, place)
    if place in DOORS and cook.chance(cook.habits.closes):
        yield Step("close", place)
    yield PAUSE
    if cook.chance(WAITS) and cook.world.free_slot("counter", item) is not None:
        yield Step("put", item, "counter")
        yield PAUSE
        yield from fetch(cook, item)


def put(cook: Cook, item: str, *places: str) -> Moves:
    """Put a held object to the first place with room; without places, or without room, back home."""
    place = cook.room(item, *places)
    if not cook.world.reachable(place):
        yield Step("open", place)
    yield Step("put", item, place)
    if place in DOORS and cook.chance(cook.habits.closes):
        yield Step("close", place)


def put_down(cook: Cook, item: str) -> Moves:
    """Get rid of a held object: home for the tidy, dirty dishes into the sink, the rest onto the counter."""
    if item in cook.world.dirty and noun_of(item) in DISHES and cook.chance(0.6):
        yield from put(cook, item, "sink", "counter")
    elif cook.chance(cook.habits.tidy):
        yield from put(cook, item)
    else:
        yield from put(cook, item, "counter")


def run_tap(cook: Cook, running: bool) -> Moves:
    if ("tap" in cook.world.on) != running:
        yield Step("turn-on" if running else "turn-off", "tap")


def light_hob(cook: Cook, lit: bool) -> Moves:
    if ("hob" in cook.world.on) != lit:
        yield Step("turn-on" if lit else "turn-off", "hob")


def initial_world(seed: int) -> World:
    """How a video's kitchen looks before the first action: some things not at home, some of them dirty."""
    rng = np.random.default_rng([seed, 1])
    where = dict(HOME)
    dirty: set[str] = set()
    for slot, item in enumerate(_sample(rng, ("plate.0", "cup.0", "spoon.0", "plate.1", "knife.0", "cup.1"), (0, 5))):
        where[item] = Spot("sink", slot)
        dirty.add(item)
    strays = ("milk.0", "onion.0", "tomato.0", "egg.0", "pasta.0", "oil.0", "carrot.0", "cup.1", "plate.2")
    for slot, item in enumerate(_sample(rng, [item for item in strays if item not in dirty], (0, 4))):
        where[item] = Spot("counter", slot)
    on = frozenset({"cupboard"} if rng.random() < 0.15 else ())
    return World(where=where, dirty=frozenset(dirty), on=on)


def _sample(rng: np.random.Generator, items: Sequence[str], count: tuple[int, int]) -> list[str]:
    number = min(int(rng.integers(*count)), len(items))
    return [items[int(i)] for i in rng.permutation(len(items))[:number]]
