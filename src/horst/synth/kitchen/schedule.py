"""Whole days of a cook: recipes one after another, two at a time now and then, and chores in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from horst.synth.kitchen.agent import Cook, Moves, fetch, put, run_tap
from horst.synth.kitchen.recipes import RECIPES, Recipe, stir
from horst.synth.kitchen.world import DISHES, DOORS, HANDS, HOME, VEGETABLES, Step, apply, noun_of

INTERLEAVED = 0.7
"""How often a second recipe is under way at the same time."""


def close_door(cook: Cook) -> Moves:
    for door in DOORS:
        if door in cook.world.on:
            yield Step("close", door)


def empty_waste(cook: Cook) -> Moves:
    if cook.world.waste:
        yield Step("throw", cook.pick(cook.world.waste))


def tidy_away(cook: Cook) -> Moves:
    items = [i for i in cook.world.at("counter") if i not in cook.reserved and HOME[i].place in ("fridge", "shelf")]
    if items:
        item = cook.pick(items)
        yield from fetch(cook, item)
        yield from put(cook, item)


def make_room(cook: Cook) -> Moves:
    """Something that is in the way goes elsewhere."""
    items = [i for place in ("counter", "rack", "sink") for i in cook.world.at(place) if i not in cook.reserved]
    if items:
        item = cook.pick(items)
        place = cook.pick(("counter", "rack", "sink")) if noun_of(item) in DISHES else "counter"
        yield from fetch(cook, item)
        yield from put(cook, item, place, "counter")


def stir_again(cook: Cook) -> Moves:
    food = [noun for noun in cook.world.contents("pan.0") if noun in ("egg", "pasta", *VEGETABLES)]
    if food and "hob" in cook.world.on:
        yield from stir(cook, cook.pick(food), "pan.0")


def look_for(cook: Cook) -> Moves:
    door = cook.pick(DOORS)
    if door not in cook.world.on:
        yield Step("open", door)
        yield Step("close", door)


def stop_tap(cook: Cook) -> Moves:
    yield from run_tap(cook, False)


def rinse_hands(cook: Cook) -> Moves:
    yield from run_tap(cook, True)
    yield from run_tap(cook, False)


CHORES: tuple[tuple[Callable[[Cook], Moves], float, int], ...] = (
    (close_door, 0.4, 1),
    (stop_tap, 0.35, 1),
    (empty_waste, 0.2, 1),
    (look_for, 0.1, 1),
    (rinse_hands, 0.08, 1),
    (stir_again, 0.2, 2),
    (tidy_away, 0.12, 2),
    (make_room, 0.15, 2),
)
"""Small things done between two steps of a recipe, how likely each is where it applies, and the free hands it needs."""


def steps(cook: Cook) -> Iterator[Step]:
    """An endless working day. Every step is applied to the cook's world, which rejects what cannot be."""
    while True:
        for step in _session(cook):
            cook.world = apply(cook.world, step)
            yield step
        cook.reserved.clear()


def _choose(cook: Cook, taken: frozenset[str]) -> Recipe | None:
    options = {name: recipe for name, recipe in RECIPES.items() if not recipe.needs & taken}
    return options[cook.pick(list(options), [r.weight for r in options.values()])] if options else None


def _session(cook: Cook) -> Iterator[Step]:
    """One recipe, or two that take turns, each until it is done."""
    first = _choose(cook, frozenset())
    second = _choose(cook, first.needs) if first and cook.chance(INTERLEAVED) else None
    threads: list[Moves] = [recipe.make(cook) for recipe in (first, second) if recipe]
    while threads:
        move = next(threads[0], None)
        if isinstance(move, Step):
            yield move
            continue
        if move is None:
            threads.pop(0)
        yield from _chores(cook)
        if len(threads) > 1 and not cook.world.held() and cook.chance(cook.habits.switches):
            threads.append(threads.pop(0))


def _chores(cook: Cook) -> Iterator[Step]:
    for chore, likely, free in CHORES:
        if HANDS - len(cook.world.held()) >= free and cook.chance(likely):
            for move in chore(cook):
                if isinstance(move, Step):
                    yield move
