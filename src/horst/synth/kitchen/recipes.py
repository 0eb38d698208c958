"""Stochastic recipes: what a cook may do next, given what was done up to several actions ago.

Each recipe is a generator over a `Cook`. Chance decides order, optional steps and ingredients; the world decides the
rest (an open door needs no opening, what was cut is what goes into the pan), and that is what a model can learn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from horst.synth.kitchen.agent import PAUSE, Cook, Moves, fetch, light_hob, put, put_down, run_tap
from horst.synth.kitchen.world import DISHES, VEGETABLES, Step, noun_of

VEGETABLE_WEIGHTS = (0.5, 0.35, 0.15)


def make_tea(cook: Cook) -> Moves:
    """Fill and boil the kettle, bag into the cup, water, perhaps milk; the two halves in either order."""
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
    yield Step("pour", "kettle.0", cup)
    yield from put(cook, "kettle.0")
    yield PAUSE
    if cook.chance(0.55):
        yield from fetch(cook, "milk.0")
        yield Step("pour", "milk.0", cup)
        yield from put_down(cook, "milk.0")
        yield PAUSE
    if cook.chance(0.6):
        yield from stir(cook, "tea", cup)
    if cook.chance(0.5) and "tea" in cook.world.waste:
        yield Step("throw", "tea")


def _boil_water(cook: Cook) -> Moves:
    yield from fetch(cook, "kettle.0")
    if cook.chance(0.7) and cook.room("kettle.0", "sink") == "sink":
        yield from put(cook, "kettle.0", "sink")
        yield from run_tap(cook, True)
        yield from run_tap(cook, False)
        yield from fetch(cook, "kettle.0")
    yield from put(cook, "kettle.0")
    yield Step("turn-on", "kettle")


def _ready_cup(cook: Cook, cup: str) -> Moves:
    yield from _set(cook, cup)
    yield PAUSE
    if cook.world.place(cup) == "counter":
        yield from fetch(cook, "tea.0")
        yield Step("put", "tea.0", cup)


def stir(cook: Cook, noun: str, vessel: str) -> Moves:
    spoon = next(iter(cook.stock("spoon")), "spoon.0")
    yield from fetch(cook, spoon)
    yield Step("stir", noun, vessel)
    if cook.chance(0.25) and noun_of(vessel) == "pan":
        yield Step("stir", noun, vessel)
    yield from put_down(cook, spoon)


def _choose_vegetables(cook: Cook, most: int) -> list[str]:
    chosen: list[str] = []
    for _ in range(1 + int(cook.rng.integers(most))):
        item = cook.claim(cook.pick(VEGETABLES, VEGETABLE_WEIGHTS))
        if item is not None:
            chosen.append(item)
    return chosen


def _bring(cook: Cook, item: str) -> Moves:
    """A vegetable onto the board, rinsed on the way as the habit is."""
    if cook.world.place(item) == "board":
        return
    yield from fetch(cook, item)
    if cook.chance(cook.habits.rinses * (0.3 if noun_of(item) == "onion" else 1.0)):
        yield from run_tap(cook, True)
        yield Step("wash", item)
        if cook.chance(0.75):
            yield from run_tap(cook, False)
    yield from put(cook, item, "board", "counter")


def _chop(cook: Cook, items: list[str]) -> Moves:
    for item in items:
        if cook.world.place(item) != "board":
            continue
        yield from fetch(cook, "knife.0")
        if noun_of(item) != "tomato" and cook.chance(0.65):
            yield Step("peel", item)
            if cook.chance(0.35):
                yield Step("throw", item)
        yield Step("cut", item)
        if cook.chance(cook.habits.one_by_one):
            yield from put(cook, "knife.0", "counter")
            yield PAUSE
    if "knife.0" in cook.world.held():
        yield from put_down(cook, "knife.0")


def _prepare(cook: Cook, items: list[str]) -> Moves:
    groups = [[item] for item in items] if cook.chance(cook.habits.one_by_one) else [items]
    for group in groups:
        for item in group:
            yield from _bring(cook, item)
            yield PAUSE
        yield from _chop(cook, group)
        yield PAUSE


def _into(cook: Cook, items: list[str], vessel: str) -> Moves:
    """Cut vegetables from the board into a pan or onto a plate."""
    for item in cook.shuffled(items):
        if cook.world.form.get(item) == "cut" and cook.world.place(item) == "board":
            yield from fetch(cook, item)
            yield Step("put", item, vessel)
            yield PAUSE


def _set(cook: Cook, item: str) -> Moves:
    """A plate or a cup onto the counter."""
    if cook.world.place(item) != "counter":
        yield from fetch(cook, item)
        yield from put(cook, item, "counter")


def make_salad(cook: Cook) -> Moves:
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
        yield from fetch(cook, "oil.0")
        yield Step("pour", "oil.0", plate)
        yield from put_down(cook, "oil.0")


def _heat_pan(cook: Cook, oil: float) -> Moves:
    """The pan onto the hob and the hob on, oil before or after."""
    cook.reserved.add("pan.0")
    if cook.chance(0.3):
        yield from light_hob(cook, True)
    leftovers = bool(cook.world.contents("pan.0"))
    if leftovers or cook.world.place("pan.0") != "hob":
        yield from fetch(cook, "pan.0")
        if leftovers:
            yield Step("pour", "pan.0", "sink")
        yield from put(cook, "pan.0", "hob")
    if not cook.chance(0.3):
        yield from light_hob(cook, True)
    yield PAUSE
    if cook.chance(oil):
        yield from fetch(cook, "oil.0")
        yield Step("pour", "oil.0", "pan.0")
        yield from put_down(cook, "oil.0")
        yield PAUSE
    yield from light_hob(cook, True)


def _serve(cook: Cook, chance: float) -> Moves:
    """From the pan onto a plate; the empty pan goes to the sink, or waits on the hob."""
    if cook.chance(0.7):
        yield from light_hob(cook, False)
        yield PAUSE
    plate = cook.claim("plate") if cook.chance(chance) else None
    if plate is not None and cook.world.contents("pan.0"):
        yield from _set(cook, plate)
        if cook.world.place(plate) == "counter":
            yield from fetch(cook, "pan.0")
            yield Step("pour", "pan.0", plate)
            yield from put(cook, "pan.0", *(("sink",) if cook.chance(0.6) else ()))
            yield PAUSE
    yield from light_hob(cook, False)


def fry_egg(cook: Cook) -> Moves:
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
        yield Step("crack", egg, "pan.0")
        if cook.chance(0.6):
            yield Step("throw", egg)
        yield PAUSE
    if cook.chance(0.5) and "egg" in cook.world.contents("pan.0"):
        yield from stir(cook, "egg", "pan.0")
        yield PAUSE
    yield from _serve(cook, 0.8)


def cook_pasta(cook: Cook) -> Moves:
    cook.reserved.add("pan.0")
    if cook.world.place("pan.0") == "hob" and cook.chance(0.6):
        yield from fetch(cook, "pan.0")
        yield from put(cook, "pan.0", "sink")
        yield from run_tap(cook, True)
        yield from run_tap(cook, False)
    yield from _heat_pan(cook, oil=0.15)
    yield from fetch(cook, "pasta.0")
    yield Step("pour", "pasta.0", "pan.0")
    yield from put_down(cook, "pasta.0")
    yield PAUSE
    for _ in range(int(cook.rng.integers(1, 3))):
        yield from stir(cook, "pasta", "pan.0")
        yield PAUSE
    yield from _serve(cook, 0.7)


def stir_fry(cook: Cook) -> Moves:
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


def wash_dishes(cook: Cook) -> Moves:
    """In a filled basin each dish is dried and put away; under the running tap they pile up on the rack."""
    basin = cook.chance(cook.habits.basin)
    yield from run_tap(cook, True)
    if basin:
        yield Step("turn-off", "tap", "basin")
    for item in cook.shuffled(sorted(cook.world.dirty - cook.reserved)):
        if item in cook.reserved or cook.world.place(item) not in ("sink", "counter"):
            continue
        yield from fetch(cook, "sponge.0")
        yield from fetch(cook, item)
        if not cook.world.basin:
            yield from run_tap(cook, True)
        yield Step("wash", item)
        if basin:
            yield from put(cook, "sponge.0")
            yield from _dry_and_store(cook, item)
        else:
            yield from put(cook, item, "rack", "counter")
            if cook.chance(0.2):
                yield from put(cook, "sponge.0")
                yield from run_tap(cook, False)
        yield PAUSE
    yield from run_tap(cook, False)
    if "sponge.0" in cook.world.held():
        yield from put(cook, "sponge.0")


def _dry_and_store(cook: Cook, item: str) -> Moves:
    yield from fetch(cook, "cloth.0")
    yield from fetch(cook, item)
    yield Step("dry", item)
    yield from put(cook, "cloth.0")
    yield from put_down(cook, item)


def clear_up(cook: Cook) -> Moves:
    """Dry what is on the rack and put away what stands about."""
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


def set_table(cook: Cook) -> Moves:
    for noun in cook.shuffled(["plate", "cup", "spoon", "knife"])[: int(cook.rng.integers(1, 4))]:
        item = next((i for i in cook.stock(noun) if cook.world.place(i) != "counter"), None)
        if item is not None:
            yield from fetch(cook, item)
            yield from put(cook, item, "counter")
            yield PAUSE


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe, how often it is chosen, and what it must have to itself while another one is under way."""

    make: Callable[[Cook], Moves]
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
