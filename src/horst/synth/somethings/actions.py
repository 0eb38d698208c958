"""What happens in each template. An action adds moves to an animation and says which objects its label names.

Actions that start alike start with the same function, so that only the part that differs tells them apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from horst.synth.render.hands import Pose
from horst.synth.somethings.scene import COVER, ROLLER, SECRET, SHELF, THING, Animation, magnification, table_edge

TABLE = (ROLLER, THING, COVER)
SMALL = (ROLLER, THING, SHELF)
ANY = (*TABLE, SHELF)


def fall(u: float) -> float:
    """Start at rest and accelerate."""
    return u * u


def brake(u: float) -> float:
    """Start fast and come to rest."""
    return 1.0 - (1.0 - u) ** 2


def _take(a: Animation, options: Sequence[int]) -> int:
    """Grasp one of the objects."""
    item = a.pick_named(options)
    a.grip(item)
    return item


def _let_go(a: Animation) -> None:
    a.release()
    if a.chance(0.7):
        a.leave(0.7)
    else:
        x, y = a.hand_point(a.now)
        a.hand_to(x + a.uniform(-0.2, 0.2), y + a.uniform(-0.1, 0.15), 0.5)


def _tilt(a: Animation) -> float:
    return a.uniform(-0.4, 0.4)


def _side(a: Animation) -> int:
    return 1 if a.chance(0.5) else -1


def _lift(a: Animation, item: int, low: float = 0.14, high: float = 0.30) -> None:
    """Lift; meanwhile it tilts and moves slightly closer or away."""
    place = a.place(item)
    height = a.uniform(low, high) * (0.6 if item == SHELF and place.lift > 0.1 else 1.0)
    depth = place.depth + a.uniform(-0.15, 0.35)
    a.carry(item, 0.9, lift=place.lift + height, depth=depth, angle=place.angle + _tilt(a))


def _push(a: Animation, item: int, side: int, x: float, weight: float = 1.4) -> None:
    """Push from behind; drag if the arm comes from the side the object moves to, and sometimes otherwise."""
    ahead = (a.scene.shoulder[0] - 0.5) * side > 0.8
    if ahead or a.chance(0.4):
        a.grip(item)
    else:
        pose: Pose = "open" if a.chance(0.5) else "point"
        a.reach(item, -side * 0.62, a.uniform(-0.1, 0.25), pose)
    a.carry(item, weight, x=x)


def _push_to_edge(a: Animation) -> tuple[int, int, float]:
    """Push until half of the object is over the edge of the table."""
    side = _side(a)
    item = a.pick_named(TABLE)
    place = a.place(item)
    edge = table_edge(place.depth, side)
    _push(a, item, side, edge - side * 0.02, 0.6 + 2.0 * abs(edge - place.x))
    return item, side, edge


def _carry_over(a: Animation, item: int, x: float, depth: float, lift: float, hover: float = 0.0) -> None:
    """Lift, carry over and lower: the start of everything that is put somewhere."""
    start = a.place(item)
    top = max(start.lift, lift) + a.uniform(0.08, 0.14)
    a.carry(item, 0.5, lift=top, angle=start.angle + _tilt(a))
    a.carry(item, 1.0, x=x, depth=depth)
    a.carry(item, 0.5, lift=lift + hover, angle=start.angle)


def _carry_away(a: Animation, item: int) -> None:
    """Carry out of view, towards the shoulder."""
    sx, sy = a.scene.shoulder
    place = a.place(item)
    if sy > 1.45:
        a.carry(item, 1.0, x=place.x + 0.4 * (sx - place.x), lift=place.lift - 0.95)
    else:
        a.carry(item, 1.0, x=1.45 if sx > 0.5 else -0.45, lift=place.lift - 0.05)


def _beside(a: Animation, x: float, gap: float) -> float:
    side = _side(a)
    return x + side * gap if 0.14 < x + side * gap < 0.86 else x - side * gap


def _two(a: Animation) -> tuple[int, int]:
    """What is put, and what it is put on or next to."""
    base = a.pick((THING, COVER))
    a.named = item, base = a.pick([item for item in SMALL if item != base]), base
    return item, base


def _top_of(a: Animation, base: int) -> tuple[float, float, float]:
    place = a.place(base)
    return place.x, place.depth + 0.01, 1.9 * a.object(base).rise(place.angle) * magnification(place.depth)


def move_up(a: Animation) -> None:
    item = _take(a, ANY)
    _lift(a, item)
    a.wait(a.uniform(0.1, 0.5))


def move_down(a: Animation) -> None:
    """From the shelf down, into the air or on to the table."""
    item = _take(a, (SHELF,))
    place = a.place(item)
    angle = place.angle + _tilt(a)
    a.carry(item, 1.0, lift=a.uniform(0.0, 0.45) * place.lift, depth=a.uniform(0.02, 0.4), angle=angle)
    a.wait(a.uniform(0.1, 0.5))


def push_sideways(a: Animation, side: int) -> None:
    # the scene's spread leaves an object with that much room
    item = a.pick_named([item for item in TABLE if (0.5 + side * 0.34 - a.place(item).x) * side >= 0.24])
    # up to the very edge: the final position does not tell this from what falls off or almost does
    room = abs(table_edge(a.place(item).depth, side) - side * 0.03 - a.place(item).x)
    _push(a, item, side, a.place(item).x + side * a.uniform(0.2, max(0.22, room)))
    if a.chance(0.6):
        _let_go(a)


def approach(a: Animation, closer: bool) -> None:
    fit = [i for i in TABLE if (a.place(i).depth < 0.65 if closer else a.place(i).depth > 0.35)]
    item = _take(a, fit)
    place = a.place(item)
    depth = a.uniform(1.05, 1.5) if closer else a.uniform(-0.15, place.depth - 0.35)
    lift = a.uniform(0.04, 0.16) if closer else 0.0
    # along a line to the vanishing point, but never out of view
    x = 0.5 + (place.x - 0.5) * magnification(depth) / magnification(place.depth)
    a.carry(item, 1.5, depth=depth, lift=lift, x=min(max(x, 0.22), 0.78))
    a.wait(a.uniform(0.1, 0.4))
    if not closer and a.chance(0.5):
        _let_go(a)


def turn(a: Animation, side: int) -> None:
    """Strokes of the wrist with new grips between them: the hand's tilt alone does not tell the direction."""
    item = _take(a, ANY)
    a.carry(item, 0.4, lift=a.place(item).lift + a.uniform(0.03, 0.10), turn=-side * 0.35)
    strokes = 2 if a.chance(0.5) else 3
    stroke = a.uniform(math.radians(120), math.radians(240)) / strokes
    for number in range(strokes):
        a.carry(item, 0.8, angle=a.place(item).angle + side * stroke, turn=side * 0.35)
        if number < strokes - 1:
            a.carry(item, 0.3, turn=-side * 0.35)


def drop(a: Animation) -> None:
    item = _take(a, ANY)
    _lift(a, item)
    a.release()
    height, depth, rest = a.place(item).lift, max(a.place(item).depth, 0.08), a.object(item).start.angle
    a.carry(item, 0.0, lift=0.0, depth=depth, angle=rest, ease=fall, seconds=0.25 + 0.4 * height)
    a.carry(item, 0.0, lift=0.0, arc=0.16 * height, seconds=0.25)
    _let_go(a)


def lift_and_return(a: Animation) -> None:
    item = _take(a, ANY)
    place = a.place(item)
    _lift(a, item)
    a.carry(item, 0.9, lift=place.lift, depth=place.depth, angle=place.angle)
    _let_go(a)


def throw(a: Animation) -> None:
    item = _take(a, ANY)
    _lift(a, item, 0.05, 0.14)
    lift = a.place(item).lift
    a.release()
    spin = a.place(item).angle + a.uniform(-1.0, 1.0)
    a.carry(item, 0.0, lift=lift, angle=spin, arc=a.uniform(0.16, 0.30), seconds=0.75, ease=lambda u: u)
    a.grip(item, 0.05)
    a.carry(item, 0.4, lift=max(lift - 0.05, 0.0))
    a.wait(0.3)


def roll(a: Animation, side: int) -> None:
    """A short push, then it rolls on."""
    place, a.named = a.place(ROLLER), (ROLLER,)
    a.reach(ROLLER, -side * 0.75, 0.1, "open" if a.chance(0.5) else "point")
    radius = a.object(ROLLER).width / 2 * magnification(place.depth)
    near = place.x + side * a.uniform(0.03, 0.06)
    a.carry(ROLLER, 0.3, x=near, angle=place.angle + (near - place.x) / radius, ease=fall)
    a.release(a.now.hand.pose)
    room = abs(table_edge(place.depth, side) - place.x) - 0.03
    end = place.x + side * a.uniform(0.13, max(0.15, room))
    a.carry(ROLLER, 1.6, x=end, angle=place.angle + (end - place.x) / radius, ease=brake)
    if a.chance(0.5):
        a.leave(0.6)


def cover(a: Animation) -> None:
    a.grip(COVER)
    hidden = a.pick((ROLLER, THING))
    a.named = (hidden, COVER)
    place = a.place(hidden)
    _carry_over(a, COVER, place.x, place.depth + 0.02, 0.0)
    a.show(hidden, False)
    _let_go(a)


def uncover(a: Animation) -> None:
    a.named = (SECRET, COVER)
    a.show(SECRET, True)
    a.grip(COVER)
    place = a.place(COVER)
    target = _beside(a, place.x, 0.26)
    _carry_over(a, COVER, target, min(max(place.depth + a.uniform(-0.25, 0.1), 0.05), 0.95), 0.0)
    _let_go(a)


def put_on(a: Animation) -> None:
    item, base = _two(a)
    a.grip(item)
    _carry_over(a, item, *_top_of(a, base))
    _let_go(a)


def pretend_to_put_on(a: Animation) -> None:
    item, base = _two(a)
    start = a.place(item)
    a.grip(item)
    _carry_over(a, item, *_top_of(a, base), hover=a.uniform(0.005, 0.03))
    a.wait(0.15)
    a.carry(item, 0.4, lift=a.place(item).lift + 0.1)
    if a.chance(0.6):
        a.carry(item, 0.8, x=start.x, depth=start.depth, lift=start.lift + 0.03)
        if a.chance(0.5):
            a.carry(item, 0.2, lift=start.lift)
            _let_go(a)
    else:
        _carry_away(a, item)


def put_next_to(a: Animation) -> None:
    item, base = _two(a)
    a.grip(item)
    place = a.place(base)
    gap = (a.object(item).width + a.object(base).width) / 2 * magnification(place.depth)
    _carry_over(a, item, _beside(a, place.x, gap + a.uniform(0.0, 0.02)), place.depth + 0.03, 0.0)
    _let_go(a)


def hide_behind(a: Animation) -> None:
    item, base = a.pick(SMALL), a.place(COVER)
    a.named = (item, COVER)
    # the hand goes behind too; it is drawn over the cover while it holds on
    a.grip(item)
    start = a.place(item)
    a.carry(item, 0.5, lift=max(start.lift, 0.1) + a.uniform(0.1, 0.16), angle=start.angle + _tilt(a))
    a.carry(item, 1.0, x=base.x, depth=base.depth - 0.05, lift=a.object(COVER).height)
    a.move_behind()
    a.carry(item, 0.5, lift=0.0, angle=start.angle)
    _let_go(a)


def fall_off(a: Animation) -> None:
    item, side, edge = _push_to_edge(a)
    angle = a.place(item).angle
    a.release()
    a.carry(item, 0.0, x=edge + side * 0.05, angle=angle + side * 0.8, lift=-0.06, ease=fall, seconds=0.2)
    a.carry(item, 0.0, x=edge + side * 0.09, angle=angle + side * 2.4, lift=-0.9, ease=fall, seconds=0.35)
    _let_go(a)


def almost_fall_off(a: Animation) -> None:
    item, side, edge = _push_to_edge(a)
    angle = a.place(item).angle
    a.release()
    a.carry(item, 0.25, x=edge + side * 0.02, angle=angle + side * 0.5, ease=brake)
    a.carry(item, 0.35, x=edge - side * 0.02, angle=angle - side * 0.12)
    a.carry(item, 0.2, angle=angle)
    if a.chance(0.6):
        a.leave(0.5)


def pick_up(a: Animation) -> None:
    item = _take(a, ANY)
    _lift(a, item, 0.08, 0.2)
    _carry_away(a, item)


def pretend_to_pick_up(a: Animation) -> None:
    _take(a, ANY)
    if a.chance(0.5):
        a.wait(0.2)
    a.release()
    x, y = a.hand_point(a.now)
    a.hand_to(x, y - a.uniform(0.1, 0.25), 0.9)
    if a.chance(0.5):
        a.leave(0.9)
    else:
        a.wait(0.4)


def swap(a: Animation) -> None:
    first, second = (ROLLER, THING) if a.chance(0.5) else (a.pick((ROLLER, THING)), COVER)
    a.named = (first, second)
    one, two = a.place(first), a.place(second)
    a.grip(first, 0.7)
    a.carry(first, 0.7, x=two.x + (0.15 if two.x < 0.5 else -0.15), depth=min(two.depth + 0.3, 1.1), arc=0.08)
    a.release()
    a.grip(second, 0.4)
    a.carry(second, 0.8, x=one.x, depth=one.depth, arc=0.1)
    a.release()
    a.grip(first, 0.4)
    a.carry(first, 0.5, x=two.x, depth=two.depth, arc=0.05)
    _let_go(a)


ACTIONS: dict[str, Callable[[Animation], None]] = {  # the templates, in the order of their classes
    "Moving [something] up": move_up,
    "Moving [something] down": move_down,
    "Pushing [something] from left to right": partial(push_sideways, side=1),
    "Pushing [something] from right to left": partial(push_sideways, side=-1),
    "Moving [something] closer": partial(approach, closer=True),
    "Moving [something] away": partial(approach, closer=False),
    "Turning [something] clockwise": partial(turn, side=1),
    "Turning [something] counterclockwise": partial(turn, side=-1),
    "Dropping [something]": drop,
    "Lifting [something] up and putting it back": lift_and_return,
    "Throwing [something] up and catching it": throw,
    "Rolling [something] to the left": partial(roll, side=-1),
    "Rolling [something] to the right": partial(roll, side=1),
    "Covering [something] with [something]": cover,
    "Uncovering [something] by lifting [something]": uncover,
    "Putting [something] on [something]": put_on,
    "Putting [something] next to [something]": put_next_to,
    "Pretending to put [something] on [something]": pretend_to_put_on,
    "Hiding [something] behind [something]": hide_behind,
    "Pushing [something] so that it falls off the table": fall_off,
    "Pushing [something] so that it almost falls off but doesn't": almost_fall_off,
    "Picking [something] up": pick_up,
    "Pretending to pick [something] up": pretend_to_pick_up,
    "Swapping [something] and [something]": swap,
}
MIRRORED = (  # templates that turn into each other when the image is flipped left to right
    ("Pushing [something] from left to right", "Pushing [something] from right to left"),
    ("Turning [something] clockwise", "Turning [something] counterclockwise"),
    ("Rolling [something] to the left", "Rolling [something] to the right"),
)
