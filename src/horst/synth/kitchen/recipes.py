"""Stochastic recipes and chores: what the cook may do next, given the actions so far.

A recipe is a generator of steps and `PAUSE`s over an `Agent`, the cook. Order, optional steps and ingredients are
random; the rest follows from the world (an open door is not opened again, what was cut goes into the pan), and this is
what a model can learn. Between two steps a recipe sees the current world, so two recipes can alternate; they do so only
at a `PAUSE` with empty hands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from horst.synth.kitchen.participants import Habits
from horst.synth.kitchen.world import DISHES, DOORS, HOME, VEGETABLES, ActionStep, Location, World, noun_of

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


VEGETABLE_WEIGHTS = (0.5, 0.35, 0.15)


def make_tea(cook: Agent) -> Moves:
    """Fill and boil the kettle and put a bag into the cup, in either order; then water, perhaps milk."""
    cup = cook.claim("cup")
    if cup is None:
        return
    halves = [_boil_water(cook), _ready_cup(cook, cup)]
    for half in halves if cook.chance(0.5) else halves[::-1]:
        yield from half
        yield PAUSE
    if cook.world.place(cup) != "counter":
        return
    yield from fetch(cook, "kettle.0")
    yield ActionStep("pour", "kettle.0", cup)
    yield from put(cook, "kettle.0")
    yield PAUSE
    if cook.chance(0.55):
        yield from _pour(cook, "milk.0", cup)
        yield PAUSE
    if cook.chance(0.6):
        yield from stir(cook, "tea", cup)
    if cook.chance(0.5) and "tea" in cook.world.waste:
        yield ActionStep("throw", "tea")


def _boil_water(cook: Agent) -> Moves:
    yield from fetch(cook, "kettle.0")
    if cook.chance(0.7) and cook.room("kettle.0", "sink") == "sink":
        yield from put(cook, "kettle.0", "sink")
        yield from switch(cook, "tap", True)
        yield from switch(cook, "tap", False)
        yield from fetch(cook, "kettle.0")
    yield from put(cook, "kettle.0")
    yield ActionStep("turn-on", "kettle")


def _ready_cup(cook: Agent, cup: str) -> Moves:
    yield from _set(cook, cup)
    yield PAUSE
    if cook.world.place(cup) == "counter":
        yield from fetch(cook, "tea.0")
        yield ActionStep("put", "tea.0", cup)


def stir(cook: Agent, noun: str, vessel: str) -> Moves:
    spoon = next(iter(cook.stock("spoon")), "spoon.0")
    yield from fetch(cook, spoon)
    yield ActionStep("stir", noun, vessel)
    if cook.chance(0.25) and noun_of(vessel) == "pan":
        yield ActionStep("stir", noun, vessel)
    yield from put_down(cook, spoon)


def _pour(cook: Agent, item: str, vessel: str) -> Moves:
    yield from fetch(cook, item)
    yield ActionStep("pour", item, vessel)
    yield from put_down(cook, item)


def _choose_vegetables(cook: Agent, most: int) -> list[str]:
    chosen: list[str] = []
    for _ in range(1 + int(cook.rng.integers(most))):
        item = cook.claim(cook.pick(VEGETABLES, VEGETABLE_WEIGHTS))
        if item is not None:
            chosen.append(item)
    return chosen


def _bring(cook: Agent, item: str) -> Moves:
    """Put a vegetable onto the board, perhaps washed first."""
    if cook.world.place(item) == "board":
        return
    yield from fetch(cook, item)
    if cook.chance(cook.habits.rinses * (0.3 if noun_of(item) == "onion" else 1.0)):
        yield from switch(cook, "tap", True)
        yield ActionStep("wash", item)
        if cook.chance(0.75):
            yield from switch(cook, "tap", False)
    yield from put(cook, item, "board", "counter")


def _chop(cook: Agent, items: list[str]) -> Moves:
    for item in items:
        if cook.world.place(item) != "board":
            continue
        yield from fetch(cook, "knife.0")
        if noun_of(item) != "tomato" and cook.chance(0.65):
            yield ActionStep("peel", item)
            if cook.chance(0.35):
                yield ActionStep("throw", item)
        yield ActionStep("cut", item)
        if cook.chance(cook.habits.one_by_one):
            yield from put(cook, "knife.0", "counter")
            yield PAUSE
    if "knife.0" in cook.world.held():
        yield from put_down(cook, "knife.0")


def _prepare(cook: Agent, items: list[str]) -> Moves:
    groups = [[item] for item in items] if cook.chance(cook.habits.one_by_one) else [items]
    for group in groups:
        for item in group:
            yield from _bring(cook, item)
            yield PAUSE
        yield from _chop(cook, group)
        yield PAUSE


def _into(cook: Agent, items: list[str], vessel: str) -> Moves:
    """Put cut vegetables from the board into a pan or onto a plate."""
    for item in cook.shuffled(items):
        if cook.world.form.get(item) == "cut" and cook.world.place(item) == "board":
            yield from fetch(cook, item)
            yield ActionStep("put", item, vessel)
            yield PAUSE


def _set(cook: Agent, item: str) -> Moves:
    """Put a plate or a cup onto the counter."""
    if cook.world.place(item) != "counter":
        yield from fetch(cook, item)
        yield from put(cook, item, "counter")


def make_salad(cook: Agent) -> Moves:
    items, plate = _choose_vegetables(cook, 3), cook.claim("plate")
    if plate is None:
        return
    plate_first = cook.chance(0.4)
    if plate_first:
        yield from _set(cook, plate)
        yield PAUSE
    yield from _prepare(cook, items)
    yield from _set(cook, plate)
    yield PAUSE
    if cook.world.place(plate) != "counter":
        return
    yield from _into(cook, items, plate)
    if cook.chance(0.4):
        yield from _pour(cook, "oil.0", plate)


def _heat_pan(cook: Agent, oil: float) -> Moves:
    """Put the pan onto the hob and turn it on, perhaps with oil."""
    cook.reserved.add("pan.0")
    if cook.chance(0.3):
        yield from switch(cook, "hob", True)
    leftovers = bool(cook.world.contents("pan.0"))
    if leftovers or cook.world.place("pan.0") != "hob":
        yield from fetch(cook, "pan.0")
        if leftovers:
            yield ActionStep("pour", "pan.0", "sink")
        yield from put(cook, "pan.0", "hob")
    if not cook.chance(0.3):
        yield from switch(cook, "hob", True)
    yield PAUSE
    if cook.chance(oil):
        yield from _pour(cook, "oil.0", "pan.0")
        yield PAUSE
    yield from switch(cook, "hob", True)


def _serve(cook: Agent, chance: float) -> Moves:
    """Pour from the pan onto a plate; the empty pan goes to the sink or back to the hob."""
    if cook.chance(0.7):
        yield from switch(cook, "hob", False)
        yield PAUSE
    plate = cook.claim("plate") if cook.chance(chance) else None
    if plate is not None and cook.world.contents("pan.0"):
        yield from _set(cook, plate)
        if cook.world.place(plate) == "counter":
            yield from fetch(cook, "pan.0")
            yield ActionStep("pour", "pan.0", plate)
            yield from put(cook, "pan.0", *(("sink",) if cook.chance(0.6) else ()))
            yield PAUSE
    yield from switch(cook, "hob", False)


def fry_egg(cook: Agent) -> Moves:
    yield from _heat_pan(cook, oil=0.8)
    for _ in range(1 + int(cook.rng.integers(2))):
        egg = cook.claim("egg")
        if egg is None:
            break
        yield from fetch(cook, egg)
        if cook.chance(0.3):
            yield from put(cook, egg, "counter")
            yield PAUSE
            yield from fetch(cook, egg)
        yield ActionStep("crack", egg, "pan.0")
        if cook.chance(0.6):
            yield ActionStep("throw", egg)
        yield PAUSE
    if cook.chance(0.5) and "egg" in cook.world.contents("pan.0"):
        yield from stir(cook, "egg", "pan.0")
        yield PAUSE
    yield from _serve(cook, 0.8)


def cook_pasta(cook: Agent) -> Moves:
    cook.reserved.add("pan.0")
    if cook.world.place("pan.0") == "hob" and cook.chance(0.6):
        yield from fetch(cook, "pan.0")
        yield from put(cook, "pan.0", "sink")
        yield from switch(cook, "tap", True)
        yield from switch(cook, "tap", False)
    yield from _heat_pan(cook, oil=0.15)
    yield from _pour(cook, "pasta.0", "pan.0")
    yield PAUSE
    for _ in range(int(cook.rng.integers(1, 3))):
        yield from stir(cook, "pasta", "pan.0")
        yield PAUSE
    yield from _serve(cook, 0.7)


def stir_fry(cook: Agent) -> Moves:
    items = _choose_vegetables(cook, 2)
    heat_first = cook.chance(0.4)
    if heat_first:
        yield from _heat_pan(cook, oil=0.6)
    yield from _prepare(cook, items)
    if not heat_first:
        yield from _heat_pan(cook, oil=0.6)
    yield from _into(cook, items, "pan.0")
    for noun in dict.fromkeys(noun_of(item) for item in items if noun_of(item) in cook.world.contents("pan.0")):
        yield from stir(cook, noun, "pan.0")
        yield PAUSE
    yield from _serve(cook, 0.6)


def wash_dishes(cook: Agent) -> Moves:
    """With a filled basin each dish is dried and put away; under the running tap they go onto the rack."""
    basin = cook.chance(cook.habits.basin)
    yield from switch(cook, "tap", True)
    if basin:
        yield ActionStep("turn-off", "tap", "basin")
    for item in cook.shuffled(sorted(cook.world.dirty - cook.reserved)):
        if item in cook.reserved or cook.world.place(item) not in ("sink", "counter"):
            continue
        yield from fetch(cook, "sponge.0")
        yield from fetch(cook, item)
        if not cook.world.basin:
            yield from switch(cook, "tap", True)
        yield ActionStep("wash", item)
        if basin:
            yield from put(cook, "sponge.0")
            yield from _dry_and_store(cook, item)
        else:
            yield from put(cook, item, "rack", "counter")
            if cook.chance(0.2):
                yield from put(cook, "sponge.0")
                yield from switch(cook, "tap", False)
        yield PAUSE
    yield from switch(cook, "tap", False)
    if "sponge.0" in cook.world.held():
        yield from put(cook, "sponge.0")


def _dry_and_store(cook: Agent, item: str) -> Moves:
    yield from fetch(cook, "cloth.0")
    yield from fetch(cook, item)
    yield ActionStep("dry", item)
    yield from put(cook, "cloth.0")
    yield from put_down(cook, item)


def clear_up(cook: Agent) -> Moves:
    """Dry the dishes on the rack and put objects away."""
    strays = [i for i in cook.world.at("rack") + cook.world.at("counter") if not cook.world.contents(i)]
    for item in cook.shuffled(strays)[:5]:
        if item in cook.reserved or cook.world.place(item) not in ("rack", "counter"):
            continue
        if item in cook.world.wet and noun_of(item) in DISHES and cook.chance(0.8):
            yield from _dry_and_store(cook, item)
        else:
            yield from fetch(cook, item)
            yield from put(cook, item, *(("sink",) if item in cook.world.dirty else ()))
        yield PAUSE


def set_table(cook: Agent) -> Moves:
    for noun in cook.shuffled(["plate", "cup", "spoon", "knife"])[: int(cook.rng.integers(1, 4))]:
        item = next((i for i in cook.stock(noun) if cook.world.place(i) != "counter"), None)
        if item is not None:
            yield from fetch(cook, item)
            yield from put(cook, item, "counter")
            yield PAUSE


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe, how often it is chosen, and what it needs exclusively while another one is in progress."""

    make: Callable[[Agent], Moves]
    weight: float
    needs: frozenset[str]


RECIPES = {
    "make tea": Recipe(make_tea, 0.28, frozenset({"kettle"})),
    "make salad": Recipe(make_salad, 0.22, frozenset({"board", "plate"})),
    "wash dishes": Recipe(wash_dishes, 0.2, frozenset({"sink"})),
    "fry egg": Recipe(fry_egg, 0.1, frozenset({"pan", "plate"})),
    "clear up": Recipe(clear_up, 0.08, frozenset({"sink"})),
    "stir-fry": Recipe(stir_fry, 0.05, frozenset({"board", "pan", "plate"})),
    "cook pasta": Recipe(cook_pasta, 0.04, frozenset({"pan", "plate"})),
    "set table": Recipe(set_table, 0.03, frozenset({"plate"})),
}


def close_door(cook: Agent) -> Moves:
    for door in DOORS:
        if door in cook.world.on:
            yield ActionStep("close", door)


def empty_waste(cook: Agent) -> Moves:
    if cook.world.waste:
        yield ActionStep("throw", cook.pick(cook.world.waste))


def tidy_away(cook: Agent) -> Moves:
    items = [i for i in cook.world.at("counter") if i not in cook.reserved and HOME[i].place in ("fridge", "shelf")]
    if items:
        item = cook.pick(items)
        yield from fetch(cook, item)
        yield from put(cook, item)


def make_room(cook: Agent) -> Moves:
    """Move an object elsewhere."""
    items = [i for place in ("counter", "rack", "sink") for i in cook.world.at(place) if i not in cook.reserved]
    if items:
        item = cook.pick(items)
        place = cook.pick(("counter", "rack", "sink")) if noun_of(item) in DISHES else "counter"
        yield from fetch(cook, item)
        yield from put(cook, item, place, "counter")


def stir_again(cook: Agent) -> Moves:
    food = [noun for noun in cook.world.contents("pan.0") if noun in ("egg", "pasta", *VEGETABLES)]
    if food and "hob" in cook.world.on:
        yield from stir(cook, cook.pick(food), "pan.0")


def look_for(cook: Agent) -> Moves:
    door = cook.pick(DOORS)
    if door not in cook.world.on:
        yield ActionStep("open", door)
        yield ActionStep("close", door)


def rinse_hands(cook: Agent) -> Moves:
    yield from switch(cook, "tap", True)
    yield from switch(cook, "tap", False)


CHORES: tuple[tuple[Callable[[Agent], Moves], float, int], ...] = (
    (close_door, 0.4, 1),
    (partial(switch, fixture="tap", on=False), 0.35, 1),
    (empty_waste, 0.2, 1),
    (look_for, 0.1, 1),
    (rinse_hands, 0.08, 1),
    (stir_again, 0.2, 2),
    (tidy_away, 0.12, 2),
    (make_room, 0.15, 2),
)
"""Short tasks between two steps of a recipe, the probability of each, and the free hands it needs."""
