"""What acts have in common: choices, and the beginnings and ends that several templates share.

Acts that start alike start with the same function from here, so that nothing but the part that differs tells them
apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from horst.synth.render.hands import Pose
from horst.synth.somethings.animation import Script
from horst.synth.somethings.scene import COVER, ROLLER, SHELF, THING

TABLE = (ROLLER, THING, COVER)
SMALL = (ROLLER, THING, SHELF)


def pick(script: Script, items: Sequence[int]) -> int:
    return items[int(script.rng.integers(len(items)))]


def chance(script: Script, probability: float) -> bool:
    return script.uniform(0.0, 1.0) < probability


def either_side(script: Script) -> int:
    return 1 if chance(script, 0.5) else -1


def take(script: Script, items: Sequence[int]) -> int:
    """Grasp one of the items."""
    item = pick(script, items)
    script.grip(item)
    return item


def let_go(script: Script) -> None:
    script.release()
    if chance(script, 0.7):
        script.leave(0.7)
    else:
        x, y = script.hand_point(script.now)
        script.hand_to(x + script.uniform(-0.2, 0.2), y + script.uniform(-0.1, 0.15), 0.5)


def lift_up(script: Script, item: int, low: float = 0.14, high: float = 0.30) -> None:
    """Lift; on the way it tilts and comes a little closer or goes away, as things in a hand do."""
    place = script.place(item)
    height = script.uniform(low, high) * (0.6 if item == SHELF and place.lift > 0.1 else 1.0)
    depth = place.depth + script.uniform(-0.15, 0.35)
    script.carry(item, 0.9, lift=place.lift + height, depth=depth, angle=place.angle + tilt(script))


def push(script: Script, item: int, side: int, x: float, weight: float = 1.4) -> None:
    """Push from behind, or drag where the arm comes from where the object goes (and sometimes elsewhere too)."""
    ahead = (script.scene.shoulder[0] - 0.5) * side > 0.8
    if ahead or chance(script, 0.4):
        script.grip(item)
    else:
        pose: Pose = "open" if chance(script, 0.5) else "point"
        script.reach(item, -side * 0.62, script.uniform(-0.1, 0.25), pose)
    script.carry(item, weight, x=x)


def tilt(script: Script) -> float:
    return script.uniform(-0.4, 0.4)


def roomy(script: Script, side: int, room: float) -> int:
    """An object on the table with that much room on the side; the scene's spread leaves one for any room up to 0.36."""
    items = [item for item in TABLE if (0.5 + side * 0.34 - script.place(item).x) * side >= room]
    return pick(script, items)


def carry_over(script: Script, item: int, x: float, depth: float, lift: float, *, hover: float = 0.0) -> None:
    """Lift, carry over, and lower to a height: the beginning of everything that is put somewhere."""
    start = script.place(item)
    top = max(start.lift, lift) + script.uniform(0.08, 0.14)
    script.carry(item, 0.5, lift=top, angle=start.angle + tilt(script))
    script.carry(item, 1.0, x=x, depth=depth)
    script.carry(item, 0.5, lift=lift + hover, angle=start.angle)


def carry_away(script: Script, item: int) -> None:
    """Out of the picture, to where the arm comes from."""
    sx, sy = script.scene.shoulder
    place = script.place(item)
    if sy > 1.45:
        script.carry(item, 1.0, x=place.x + 0.4 * (sx - place.x), lift=place.lift - 0.95)
    else:
        script.carry(item, 1.0, x=1.45 if sx > 0.5 else -0.45, lift=place.lift - 0.05)


def beside(script: Script, x: float, gap: float) -> float:
    side = either_side(script)
    return x + side * gap if 0.14 < x + side * gap < 0.86 else x - side * gap
