"""Stochastic recipes and chores: what the cook may do next, given the actions so far.

A recipe is a generator of steps and `PAUSE`s of the cook. Order, optional steps and ingredients are random; the rest
follows from the world (an open door is not opened again, what was cut goes into the pan), and this is what a model can
learn. Between two steps a recipe sees the current world, so two recipes can alternate; they do so only at a `PAUSE`
with empty hands.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np

from horst.synth.kitchen.participants import Habits
from horst.synth.kitchen.world import DISHES, DOORS, HANDS, HOME, VEGETABLES, ActionStep, Location, World, noun_of

Moves = Iterator[ActionStep]
T = TypeVar("T")
PAUSE = ActionStep("pause", "")  # no action: the cook may continue with something else here
VEGETABLE_WEIGHTS = (0.5, 0.35, 0.15)  # how often each of VEGETABLES is chosen
WAITS = 0.18  # probability that an object is first put down on the counter after it was taken


def do(*moves: ActionStep | Moves) -> Moves:
    """One move after the other. Each is decided when the ones before it are done."""
    for move in moves:
        yield from (move,) if isinstance(move, ActionStep) else move


@dataclass(slots=True)
class Cook:
    """The cook: the current world, habits, objects reserved by recipes; then basic moves, recipes and chores."""

    world: World
    rng: np.random.Generator
    habits: Habits
    reserved: set[str] = field(default_factory=set)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def maybe(self, p: float, *moves: ActionStep | Moves) -> Moves:
        """The moves, with a probability."""
        if self.chance(p):
            yield from do(*moves)

    def pick(self, options: Sequence[T], weights: Sequence[float] | None = None) -> T:
        p = None if weights is None else np.asarray(weights) / np.sum(weights)
        return options[int(self.rng.choice(len(options), p=p))]

    def shuffled(self, items: Sequence[str]) -> list[str]:
        return [items[int(i)] for i in self.rng.permutation(len(items))]

    def stock(self, noun: str) -> list[str]:
        """The objects of a noun that a recipe can claim: clean, empty, not used up, not held and not reserved."""
        world = self.world
        away = {*self.reserved, *world.dirty, *world.at("gone"), *world.at("hand")}
        return [i for i in world.where if noun_of(i) == noun and i not in away and not world.contents(i)]

    def claim(self, noun: str) -> str | None:
        """An object of a noun, reserved until the recipe ends; preferably one that is not behind a door."""
        found = min(self.stock(noun), key=lambda item: (self.world.place(item) in DOORS, item), default=None)
        if found:
            self.reserved.add(found)
        return found

    def room(self, item: str, *places: str) -> str:
        """The first of the places with room for the object, otherwise its home."""
        return next((place for place in places if self.world.free_slot(place, item) is not None), HOME[item].place)

    def fetch(self, item: str) -> Moves:
        """Take an object, unless it is in a hand; sometimes put it down first."""
        place = self.world.place(item)
        if place == "hand":
            return
        yield from do(self._at(place, ActionStep("take", item, place)), PAUSE)
        if self.chance(WAITS) and self.world.free_slot("counter", item) is not None:
            yield from do(ActionStep("put", item, "counter"), PAUSE, self.fetch(item))

    def put(self, item: str, *places: str) -> Moves:
        """Put a held object to the first place with room, otherwise to its home."""
        place = self.room(item, *places)
        yield from self._at(place, ActionStep("put", item, place))

    def _at(self, place: str, step: ActionStep) -> Moves:
        """A step at a place, after opening its door; the habits decide whether it is closed at once."""
        if not self.world.reachable(place):
            yield ActionStep("open", place)
        yield step
        if place in DOORS and self.chance(self.habits.closes):
            yield ActionStep("close", place)

    def move(self, item: str, *places: str) -> Moves:
        return do(self.fetch(item), self.put(item, *places))

    def put_down(self, item: str) -> Moves:
        """Put down a held object: dirty dishes into the sink, home for tidy cooks, otherwise onto the counter."""
        if item in self.world.dirty and noun_of(item) in DISHES and self.chance(0.6):
            yield from self.put(item, "sink", "counter")
        else:
            yield from self.put(item, *(() if self.chance(self.habits.tidy) else ("counter",)))

    def switch(self, fixture: str, on: bool) -> Moves:
        """Turn the tap or the hob on or off, unless it is already."""
        if (fixture in self.world.on) != on:
            yield ActionStep("turn-on" if on else "turn-off", fixture)

    def run_tap(self) -> Moves:
        return do(self.switch("tap", True), self.switch("tap", False))

    def make_tea(self) -> Moves:
        """Fill and boil the kettle and put a bag into the cup, in either order; then water, perhaps milk."""
        cup = self.claim("cup")
        if cup is None:
            return
        halves = [self._boil_water(), self._ready_cup(cup)]
        for half in halves if self.chance(0.5) else halves[::-1]:
            yield from do(half, PAUSE)
        if self.world.place(cup) != "counter":
            return
        yield from do(self.fetch("kettle.0"), ActionStep("pour", "kettle.0", cup), self.put("kettle.0"), PAUSE)
        yield from do(self.maybe(0.55, self._pour("milk.0", cup), PAUSE), self.maybe(0.6, self.stir("tea", cup)))
        if self.chance(0.5) and "tea" in self.world.waste:
            yield ActionStep("throw", "tea")

    def _boil_water(self) -> Moves:
        yield from self.fetch("kettle.0")
        if self.chance(0.7) and self.room("kettle.0", "sink") == "sink":
            yield from do(self.put("kettle.0", "sink"), self.run_tap(), self.fetch("kettle.0"))
        yield from do(self.put("kettle.0"), ActionStep("turn-on", "kettle"))

    def _ready_cup(self, cup: str) -> Moves:
        yield from do(self._set(cup), PAUSE)
        if self.world.place(cup) == "counter":
            yield from do(self.fetch("tea.0"), ActionStep("put", "tea.0", cup))

    def stir(self, noun: str, vessel: str) -> Moves:
        spoon = next(iter(self.stock("spoon")), "spoon.0")
        yield from do(self.fetch(spoon), ActionStep("stir", noun, vessel))
        if self.chance(0.25) and noun_of(vessel) == "pan":
            yield ActionStep("stir", noun, vessel)
        yield from self.put_down(spoon)

    def _pour(self, item: str, vessel: str) -> Moves:
        return do(self.fetch(item), ActionStep("pour", item, vessel), self.put_down(item))

    def _choose_vegetables(self, most: int) -> list[str]:
        nouns = (self.pick(VEGETABLES, VEGETABLE_WEIGHTS) for _ in range(1 + int(self.rng.integers(most))))
        return [item for noun in nouns if (item := self.claim(noun))]

    def _prepare(self, items: list[str]) -> Moves:
        """Put vegetables onto the board, perhaps washed first, and cut them."""
        for group in [[item] for item in items] if self.chance(self.habits.one_by_one) else [items]:
            for item in group:
                if self.world.place(item) != "board":
                    often = self.habits.rinses * (0.3 if noun_of(item) == "onion" else 1.0)
                    stop = self.maybe(0.75, self.switch("tap", False))
                    rinse = self.maybe(often, self.switch("tap", True), ActionStep("wash", item), stop)
                    yield from do(self.fetch(item), rinse, self.put(item, "board", "counter"))
                yield PAUSE
            for item in group:
                if self.world.place(item) != "board":
                    continue
                yield from self.fetch("knife.0")
                if noun_of(item) != "tomato":
                    yield from self.maybe(0.65, ActionStep("peel", item), self.maybe(0.35, ActionStep("throw", item)))
                put_down = self.maybe(self.habits.one_by_one, self.put("knife.0", "counter"), PAUSE)
                yield from do(ActionStep("cut", item), put_down)
            if "knife.0" in self.world.held():
                yield from self.put_down("knife.0")
            yield PAUSE

    def _into(self, items: list[str], vessel: str) -> Moves:
        """Put cut vegetables from the board into a pan or onto a plate."""
        for item in self.shuffled(items):
            if self.world.form.get(item) == "cut" and self.world.place(item) == "board":
                yield from do(self.fetch(item), ActionStep("put", item, vessel), PAUSE)

    def _set(self, item: str) -> Moves:
        """Put a plate or a cup onto the counter."""
        if self.world.place(item) != "counter":
            yield from self.move(item, "counter")

    def make_salad(self) -> Moves:
        items, plate = self._choose_vegetables(3), self.claim("plate")
        if plate is None:
            return
        yield from do(self.maybe(0.4, self._set(plate), PAUSE), self._prepare(items), self._set(plate), PAUSE)
        if self.world.place(plate) == "counter":
            yield from do(self._into(items, plate), self.maybe(0.4, self._pour("oil.0", plate)))

    def _heat_pan(self, oil: float) -> Moves:
        """Put the pan onto the hob and turn it on, perhaps with oil."""
        self.reserved.add("pan.0")
        yield from self.maybe(0.3, self.switch("hob", True))
        leftovers = bool(self.world.contents("pan.0"))
        if leftovers or self.world.place("pan.0") != "hob":
            yield from self.fetch("pan.0")
            if leftovers:
                yield ActionStep("pour", "pan.0", "sink")
            yield from self.put("pan.0", "hob")
        if not self.chance(0.3):
            yield from self.switch("hob", True)
        yield from do(PAUSE, self.maybe(oil, self._pour("oil.0", "pan.0"), PAUSE), self.switch("hob", True))

    def _serve(self, chance: float) -> Moves:
        """Pour from the pan onto a plate; the empty pan goes to the sink or back to the hob."""
        yield from self.maybe(0.7, self.switch("hob", False), PAUSE)
        plate = self.claim("plate") if self.chance(chance) else None
        if plate is not None and self.world.contents("pan.0"):
            yield from self._set(plate)
            if self.world.place(plate) == "counter":
                yield from do(self.fetch("pan.0"), ActionStep("pour", "pan.0", plate))
                yield from do(self.put("pan.0", *(("sink",) if self.chance(0.6) else ())), PAUSE)
        yield from self.switch("hob", False)

    def fry_egg(self) -> Moves:
        yield from self._heat_pan(oil=0.8)
        for _ in range(1 + int(self.rng.integers(2))):
            egg = self.claim("egg")
            if egg is None:
                break
            wait = self.maybe(0.3, self.put(egg, "counter"), PAUSE, self.fetch(egg))
            throw = self.maybe(0.6, ActionStep("throw", egg))
            yield from do(self.fetch(egg), wait, ActionStep("crack", egg, "pan.0"), throw, PAUSE)
        if self.chance(0.5) and "egg" in self.world.contents("pan.0"):
            yield from do(self.stir("egg", "pan.0"), PAUSE)
        yield from self._serve(0.8)

    def cook_pasta(self) -> Moves:
        self.reserved.add("pan.0")
        if self.world.place("pan.0") == "hob" and self.chance(0.6):
            yield from do(self.move("pan.0", "sink"), self.run_tap())
        yield from do(self._heat_pan(oil=0.15), self._pour("pasta.0", "pan.0"), PAUSE)
        for _ in range(int(self.rng.integers(1, 3))):
            yield from do(self.stir("pasta", "pan.0"), PAUSE)
        yield from self._serve(0.7)

    def stir_fry(self) -> Moves:
        items = self._choose_vegetables(2)
        parts = [self._prepare(items), self._heat_pan(oil=0.6)]
        yield from do(*(parts[::-1] if self.chance(0.4) else parts), self._into(items, "pan.0"))
        for noun in dict.fromkeys(noun_of(item) for item in items if noun_of(item) in self.world.contents("pan.0")):
            yield from do(self.stir(noun, "pan.0"), PAUSE)
        yield from self._serve(0.6)

    def wash_dishes(self) -> Moves:
        """With a filled basin each dish is dried and put away; under the running tap they go onto the rack."""
        basin = self.chance(self.habits.basin)
        yield from self.switch("tap", True)
        if basin:
            yield ActionStep("turn-off", "tap", "basin")
        for item in self.shuffled(sorted(self.world.dirty - self.reserved)):
            if item in self.reserved or self.world.place(item) not in ("sink", "counter"):
                continue
            yield from do(self.fetch("sponge.0"), self.fetch(item))
            if not self.world.basin:
                yield from self.switch("tap", True)
            yield ActionStep("wash", item)
            if basin:
                yield from do(self.put("sponge.0"), self._dry_and_store(item))
            else:
                stop = self.maybe(0.2, self.put("sponge.0"), self.switch("tap", False))
                yield from do(self.put(item, "rack", "counter"), stop)
            yield PAUSE
        yield from self.switch("tap", False)
        if "sponge.0" in self.world.held():
            yield from self.put("sponge.0")

    def _dry_and_store(self, item: str) -> Moves:
        dry = do(self.fetch("cloth.0"), self.fetch(item), ActionStep("dry", item))
        return do(dry, self.put("cloth.0"), self.put_down(item))

    def clear_up(self) -> Moves:
        """Dry the dishes on the rack and put objects away."""
        strays = [i for i in self.world.at("rack") + self.world.at("counter") if not self.world.contents(i)]
        for item in self.shuffled(strays)[:5]:
            if item in self.reserved or self.world.place(item) not in ("rack", "counter"):
                continue
            if item in self.world.wet and noun_of(item) in DISHES and self.chance(0.8):
                yield from self._dry_and_store(item)
            else:
                yield from self.move(item, *(("sink",) if item in self.world.dirty else ()))
            yield PAUSE

    def set_table(self) -> Moves:
        for noun in self.shuffled(["plate", "cup", "spoon", "knife"])[: int(self.rng.integers(1, 4))]:
            item = next((i for i in self.stock(noun) if self.world.place(i) != "counter"), None)
            if item is not None:
                yield from do(self.move(item, "counter"), PAUSE)

    def chores(self) -> Moves:
        """Short tasks between two steps of a recipe."""
        if self._idle(0.4):
            for door in DOORS:
                if door in self.world.on:
                    yield ActionStep("close", door)
        if self._idle(0.35):
            yield from self.switch("tap", False)
        if self._idle(0.2) and self.world.waste:
            yield ActionStep("throw", self.pick(self.world.waste))
        if self._idle(0.1) and (door := self.pick(DOORS)) not in self.world.on:
            yield from (ActionStep("open", door), ActionStep("close", door))  # a look inside
        if self._idle(0.08):
            yield from self.run_tap()
        food = [noun for noun in self.world.contents("pan.0") if noun in ("egg", "pasta", *VEGETABLES)]
        if self._idle(0.2, hands=2) and food and "hob" in self.world.on:
            yield from self.stir(self.pick(food), "pan.0")
        items = [item for item in self._unclaimed("counter") if HOME[item].place in ("fridge", "shelf")]
        if self._idle(0.12, hands=2) and items:
            yield from self.move(self.pick(items))
        if self._idle(0.15, hands=2) and (items := self._unclaimed("counter", "rack", "sink")):
            item = self.pick(items)
            place = self.pick(("counter", "rack", "sink")) if noun_of(item) in DISHES else "counter"
            yield from self.move(item, place, "counter")

    def _idle(self, p: float, hands: int = 1) -> bool:
        """Whether to do a chore, for which so many hands must be free, with a probability."""
        return HANDS - len(self.world.held()) >= hands and self.chance(p)

    def _unclaimed(self, *places: str) -> list[str]:
        return [item for place in places for item in self.world.at(place) if item not in self.reserved]


def initial_world(seed: int) -> World:
    """A video's kitchen before the first action: some objects are not at home, some are dirty."""
    rng = np.random.default_rng([seed, 1])
    dirty = _sample(rng, ("plate.0", "cup.0", "spoon.0", "plate.1", "knife.0", "cup.1"), (0, 5))
    strays = ("milk.0", "onion.0", "tomato.0", "egg.0", "pasta.0", "oil.0", "carrot.0", "cup.1", "plate.2")
    astray = _sample(rng, [item for item in strays if item not in dirty], (0, 4))
    moved = {item: Location("sink", slot) for slot, item in enumerate(dirty)}
    moved |= {item: Location("counter", slot) for slot, item in enumerate(astray)}
    on = frozenset({"cupboard"} if rng.random() < 0.15 else ())
    return World(where={**HOME, **moved}, dirty=frozenset(dirty), on=on)


def _sample(rng: np.random.Generator, items: Sequence[str], count: tuple[int, int]) -> list[str]:
    number = min(int(rng.integers(*count)), len(items))
    return [items[int(i)] for i in rng.permutation(len(items))[:number]]


class Recipe(NamedTuple):
    """A recipe, how often it is chosen, and what it needs exclusively while another one is in progress."""

    make: Callable[[Cook], Moves]
    weight: float
    needs: frozenset[str]


RECIPES = (
    Recipe(Cook.make_tea, 0.28, frozenset({"kettle"})), Recipe(Cook.make_salad, 0.22, frozenset({"board", "plate"})),
    Recipe(Cook.wash_dishes, 0.2, frozenset({"sink"})), Recipe(Cook.fry_egg, 0.1, frozenset({"pan", "plate"})),
    Recipe(Cook.clear_up, 0.08, frozenset({"sink"})), Recipe(Cook.stir_fry, 0.05, frozenset({"board", "pan", "plate"})),
    Recipe(Cook.cook_pasta, 0.04, frozenset({"pan", "plate"})), Recipe(Cook.set_table, 0.03, frozenset({"plate"})),
)  # fmt: skip
