"""What is done in each template. An act writes the script of a clip and returns the objects its label names."""

from __future__ import annotations

import math
from collections.abc import Callable

from horst.synth.somethings.animation import Script, brake, fall
from horst.synth.somethings.beats import (
    SMALL,
    TABLE,
    beside,
    carry_away,
    carry_over,
    chance,
    either_side,
    let_go,
    lift_up,
    pick,
    push,
    roomy,
    take,
    tilt,
)
from horst.synth.somethings.scene import COVER, ROLLER, SECRET, SHELF, THING, magnification, table_edge

Act = Callable[[Script], tuple[int, ...]]


def move_up(script: Script) -> tuple[int, ...]:
    item = take(script, (*TABLE, SHELF))
    lift_up(script, item)
    script.wait(script.uniform(0.1, 0.5))
    return (item,)


def move_down(script: Script) -> tuple[int, ...]:
    """From the shelf down, in the air or on to the table."""
    item = take(script, (SHELF,))
    lift = script.place(item).lift
    angle = script.place(item).angle + tilt(script)
    script.carry(item, 1.0, lift=script.uniform(0.0, 0.45) * lift, depth=script.uniform(0.02, 0.4), angle=angle)
    script.wait(script.uniform(0.1, 0.5))
    return (item,)


def _push_to(side: int) -> Act:
    def act(script: Script) -> tuple[int, ...]:
        item = roomy(script, side, 0.24)
        # up to the very edge: where it stops does not tell this from what falls or almost does
        room = abs(table_edge(script.place(item).depth, side) - side * 0.03 - script.place(item).x)
        push(script, item, side, script.place(item).x + side * script.uniform(0.2, max(0.22, room)))
        if chance(script, 0.6):
            let_go(script)
        return (item,)

    return act


def _approach(closer: bool) -> Act:
    def act(script: Script) -> tuple[int, ...]:
        fit = [i for i in TABLE if (script.place(i).depth < 0.65 if closer else script.place(i).depth > 0.35)]
        item = take(script, fit)
        place = script.place(item)
        depth = script.uniform(1.05, 1.5) if closer else script.uniform(-0.15, place.depth - 0.35)
        lift = script.uniform(0.04, 0.16) if closer else 0.0
        # along a line to the vanishing point, but never out of the picture
        x = 0.5 + (place.x - 0.5) * magnification(depth) / magnification(place.depth)
        script.carry(item, 1.5, depth=depth, lift=lift, x=min(max(x, 0.22), 0.78))
        script.wait(script.uniform(0.1, 0.4))
        if not closer and chance(script, 0.5):
            let_go(script)
        return (item,)

    return act


def _turn(side: int) -> Act:
    """Strokes of the wrist with new grips between: the hand's tilt alone does not tell the way."""

    def act(script: Script) -> tuple[int, ...]:
        item = take(script, (*TABLE, SHELF))
        script.carry(item, 0.4, lift=script.place(item).lift + script.uniform(0.03, 0.10), turn=-side * 0.35)
        strokes = 2 if chance(script, 0.5) else 3
        stroke = script.uniform(math.radians(120), math.radians(240)) / strokes
        for number in range(strokes):
            script.carry(item, 0.8, angle=script.place(item).angle + side * stroke, turn=side * 0.35)
            if number < strokes - 1:
                script.carry(item, 0.3, turn=-side * 0.35)
        return (item,)

    return act


def drop(script: Script) -> tuple[int, ...]:
    item = take(script, (*TABLE, SHELF))
    lift_up(script, item)
    script.release()
    height = script.place(item).lift
    depth = max(script.place(item).depth, 0.08)
    rest = script.item(item).angle
    script.carry(item, 0.0, lift=0.0, depth=depth, angle=rest, ease=fall, seconds=0.25 + 0.4 * height)
    script.carry(item, 0.0, lift=0.0, arc=0.16 * height, seconds=0.25)
    let_go(script)
    return (item,)


def lift_and_return(script: Script) -> tuple[int, ...]:
    item = take(script, (*TABLE, SHELF))
    place = script.place(item)
    lift_up(script, item)
    script.carry(item, 0.9, lift=place.lift, depth=place.depth, angle=place.angle)
    let_go(script)
    return (item,)


def throw(script: Script) -> tuple[int, ...]:
    item = take(script, (ROLLER, THING, COVER, SHELF))
    lift_up(script, item, 0.05, 0.14)
    lift = script.place(item).lift
    script.release()
    spin = script.place(item).angle + script.uniform(-1.0, 1.0)
    flight = script.uniform(0.16, 0.30)
    script.carry(item, 0.0, lift=lift, angle=spin, arc=flight, seconds=0.75, ease=lambda u: u)
    script.grip(item, 0.05)
    script.carry(item, 0.4, lift=max(lift - 0.05, 0.0))
    script.wait(0.3)
    return (item,)


def _roll(side: int) -> Act:
    """A short push, then it rolls on by itself."""

    def act(script: Script) -> tuple[int, ...]:
        place, item = script.place(ROLLER), script.item(ROLLER)
        script.reach(ROLLER, -side * 0.75, 0.1, "open" if chance(script, 0.5) else "point")
        radius = item.width / 2 * magnification(place.depth)
        near = place.x + side * script.uniform(0.03, 0.06)
        script.carry(ROLLER, 0.3, x=near, angle=place.angle + (near - place.x) / radius, ease=fall)
        script.release(script.now.hand.pose)
        room = abs(table_edge(place.depth, side) - place.x) - 0.03
        end = place.x + side * script.uniform(0.13, max(0.15, room))
        script.carry(ROLLER, 1.6, x=end, angle=place.angle + (end - place.x) / radius, ease=brake)
        if chance(script, 0.5):
            script.leave(0.6)
        return (ROLLER,)

    return act


def cover(script: Script) -> tuple[int, ...]:
    script.grip(COVER)
    hidden = pick(script, (ROLLER, THING))
    place = script.place(hidden)
    carry_over(script, COVER, place.x, place.depth + 0.02, 0.0)
    script.put(hidden, shown=False)
    let_go(script)
    return hidden, COVER


def uncover(script: Script) -> tuple[int, ...]:
    script.put(SECRET, shown=True)
    script.grip(COVER)
    place = script.place(COVER)
    target = beside(script, place.x, 0.26)
    carry_over(script, COVER, target, min(max(place.depth + script.uniform(-0.25, 0.1), 0.05), 0.95), 0.0)
    let_go(script)
    return SECRET, COVER


def _two(script: Script) -> tuple[int, int]:
    """What is put, and what it is put on or next to."""
    base = pick(script, (THING, COVER))
    return pick(script, [item for item in SMALL if item != base]), base


def put_on(script: Script) -> tuple[int, ...]:
    item, base = _two(script)
    script.grip(item)
    carry_over(script, item, *_top_of(script, base))
    let_go(script)
    return item, base


def pretend_to_put_on(script: Script) -> tuple[int, ...]:
    item, base = _two(script)
    start = script.place(item)
    script.grip(item)
    carry_over(script, item, *_top_of(script, base), hover=script.uniform(0.005, 0.03))
    script.wait(0.15)
    script.carry(item, 0.4, lift=script.place(item).lift + 0.1)
    if chance(script, 0.6):
        script.carry(item, 0.8, x=start.x, depth=start.depth, lift=start.lift + 0.03)
        if chance(script, 0.5):
            script.carry(item, 0.2, lift=start.lift)
            let_go(script)
    else:
        carry_away(script, item)
    return item, base


def put_next_to(script: Script) -> tuple[int, ...]:
    item, base = _two(script)
    script.grip(item)
    place = script.place(base)
    gap = (script.item(item).width + script.item(base).width) / 2 * magnification(place.depth)
    carry_over(script, item, beside(script, place.x, gap + script.uniform(0.0, 0.02)), place.depth + 0.03, 0.0)
    let_go(script)
    return item, base


def _top_of(script: Script, base: int) -> tuple[float, float, float]:
    place = script.place(base)
    return place.x, place.depth + 0.01, 1.9 * script.item(base).rise(place.angle) * magnification(place.depth)


def hide_behind(script: Script) -> tuple[int, ...]:
    item = pick(script, SMALL)
    base = script.place(COVER)
    # the hand goes behind too; it shows over the cover as long as it holds on
    script.grip(item)
    start = script.place(item)
    script.carry(item, 0.5, lift=max(start.lift, 0.1) + script.uniform(0.1, 0.16), angle=start.angle + tilt(script))
    script.carry(item, 1.0, x=base.x, depth=base.depth - 0.05, lift=script.item(COVER).height)
    script.sink()
    script.carry(item, 0.5, lift=0.0, angle=start.angle)
    let_go(script)
    return item, COVER


def fall_off(script: Script) -> tuple[int, ...]:
    item, side, edge = _push_to_edge(script)
    place = script.place(item)
    script.release()
    script.carry(item, 0.0, x=edge + side * 0.05, angle=place.angle + side * 0.8, lift=-0.06, ease=fall, seconds=0.2)
    script.carry(item, 0.0, x=edge + side * 0.09, angle=place.angle + side * 2.4, lift=-0.9, ease=fall, seconds=0.35)
    let_go(script)
    return (item,)


def almost_fall_off(script: Script) -> tuple[int, ...]:
    item, side, edge = _push_to_edge(script)
    angle = script.place(item).angle
    script.release()
    script.carry(item, 0.25, x=edge + side * 0.02, angle=angle + side * 0.5, ease=brake)
    script.carry(item, 0.35, x=edge - side * 0.02, angle=angle - side * 0.12)
    script.carry(item, 0.2, angle=angle)
    if chance(script, 0.6):
        script.leave(0.5)
    return (item,)


def _push_to_edge(script: Script) -> tuple[int, int, float]:
    """Push until half of it hangs over the edge of the table."""
    side = either_side(script)
    item = pick(script, TABLE)
    place = script.place(item)
    edge = table_edge(place.depth, side)
    push(script, item, side, edge - side * 0.02, 0.6 + 2.0 * abs(edge - place.x))
    return item, side, edge


def pick_up(script: Script) -> tuple[int, ...]:
    item = take(script, (*TABLE, SHELF))
    lift_up(script, item, 0.08, 0.2)
    carry_away(script, item)
    return (item,)


def pretend_to_pick_up(script: Script) -> tuple[int, ...]:
    item = take(script, (*TABLE, SHELF))
    if chance(script, 0.5):
        script.wait(0.2)
    script.release()
    x, y = script.hand_point(script.now)
    script.hand_to(x, y - script.uniform(0.1, 0.25), 0.9)
    if chance(script, 0.5):
        script.leave(0.9)
    else:
        script.wait(0.4)
    return (item,)


def swap(script: Script) -> tuple[int, ...]:
    first, second = (ROLLER, THING) if chance(script, 0.5) else (pick(script, (ROLLER, THING)), COVER)
    a, b = script.place(first), script.place(second)
    script.grip(first, 0.7)
    script.carry(first, 0.7, x=b.x + (0.15 if b.x < 0.5 else -0.15), depth=min(b.depth + 0.3, 1.1), arc=0.08)
    script.release()
    script.grip(second, 0.4)
    script.carry(second, 0.8, x=a.x, depth=a.depth, arc=0.1)
    script.release()
    script.grip(first, 0.4)
    script.carry(first, 0.5, x=b.x, depth=b.depth, arc=0.05)
    let_go(script)
    return first, second


push_left_to_right, push_right_to_left = _push_to(1), _push_to(-1)
roll_right, roll_left = _roll(1), _roll(-1)
turn_clockwise, turn_counterclockwise = _turn(1), _turn(-1)
move_closer, move_away = _approach(closer=True), _approach(closer=False)
