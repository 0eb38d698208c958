"""What happens in each template. An action adds moves to the animation and says which objects its label names.

Actions that start alike start with the same method, so that only the part that differs tells them apart.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

from horst.synth.render.hands import Pose
from horst.synth.render.textures import choose
from horst.synth.somethings.scene import COVER, ROLLER, SECRET, SHELF, THING, Animation, magnification, table_edge

TABLE = (ROLLER, THING, COVER)
SMALL = (ROLLER, THING, SHELF)
ANY = (*TABLE, SHELF)


class ActionAnimation(Animation):
    """The animation of a clip, with the action of every template."""

    def _take(self, options: Sequence[int]) -> int:
        item = self.pick_named(options)
        self.grip(item)
        return item

    def _let_go(self) -> None:
        self.release()
        if self.chance(0.7):
            self.leave(0.7)
        else:
            x, y = self.hand_point(self.now)
            self.hand_to(x + self.uniform(-0.2, 0.2), y + self.uniform(-0.1, 0.15), 0.5)

    def _lift(self, item: int, low: float = 0.14, high: float = 0.30) -> None:
        """Lift; meanwhile it tilts and moves slightly closer or away."""
        place = self.place(item)
        height = self.uniform(low, high) * (0.6 if item == SHELF and place.lift > 0.1 else 1.0)
        depth = place.depth + self.uniform(-0.15, 0.35)
        self.carry(item, 0.9, lift=place.lift + height, depth=depth, angle=place.angle + self.uniform(-0.4, 0.4))

    def _push(self, item: int, side: int, x: float, weight: float = 1.4) -> None:
        """Push from behind; drag if the arm comes from the side the object moves to, and sometimes otherwise."""
        ahead = (self.scene.shoulder[0] - 0.5) * side > 0.8
        if ahead or self.chance(0.4):
            self.grip(item)
        else:
            pose: Pose = "open" if self.chance(0.5) else "point"
            self.reach(item, -side * 0.62, self.uniform(-0.1, 0.25), pose)
        self.carry(item, weight, x=x)

    def _push_to_edge(self) -> tuple[int, int, float, float]:
        """Push until half of the object is over the edge of the table; the object, the side, the edge, the angle."""
        side = 1 if self.chance(0.5) else -1
        item = self.pick_named(TABLE)
        place = self.place(item)
        edge = table_edge(place.depth, side)
        self._push(item, side, edge - side * 0.02, 0.6 + 2.0 * abs(edge - place.x))
        self.release()
        return item, side, edge, place.angle

    def _carry_over(self, item: int, x: float, depth: float, lift: float, hover: float = 0.0) -> None:
        """Lift, carry over and lower: the start of everything that is put somewhere."""
        start = self.place(item)
        top = max(start.lift, lift) + self.uniform(0.08, 0.14)
        self.carry(item, 0.5, lift=top, angle=start.angle + self.uniform(-0.4, 0.4))
        self.carry(item, 1.0, x=x, depth=depth)
        self.carry(item, 0.5, lift=lift + hover, angle=start.angle)

    def _carry_away(self, item: int) -> None:
        """Carry out of view, towards the shoulder."""
        sx, sy = self.scene.shoulder
        place = self.place(item)
        if sy > 1.45:
            self.carry(item, 1.0, x=place.x + 0.4 * (sx - place.x), lift=place.lift - 0.95)
        else:
            self.carry(item, 1.0, x=1.45 if sx > 0.5 else -0.45, lift=place.lift - 0.05)

    def _beside(self, x: float, gap: float) -> float:
        side = 1 if self.chance(0.5) else -1
        return x + side * gap if 0.14 < x + side * gap < 0.86 else x - side * gap

    def _take_one_of_two(self) -> tuple[int, int]:
        """Grasp what is put; it and what it is put on or next to."""
        base = choose(self.rng, (THING, COVER))
        self.named = item, base = choose(self.rng, [item for item in SMALL if item != base]), base
        self.grip(item)
        return item, base

    def _top_of(self, base: int) -> tuple[float, float, float]:
        place = self.place(base)
        return place.x, place.depth + 0.01, 1.9 * self.objects[base].rise(place.angle) * place.scale

    def move_up(self) -> None:
        item = self._take(ANY)
        self._lift(item)
        self.wait(self.uniform(0.1, 0.5))

    def move_down(self) -> None:
        """From the shelf down, into the air or on to the table."""
        item = self._take((SHELF,))
        place = self.place(item)
        angle = place.angle + self.uniform(-0.4, 0.4)
        self.carry(item, 1.0, lift=self.uniform(0.0, 0.45) * place.lift, depth=self.uniform(0.02, 0.4), angle=angle)
        self.wait(self.uniform(0.1, 0.5))

    def push_sideways(self, side: int) -> None:
        # the scene's spread leaves an object with that much room
        item = self.pick_named([item for item in TABLE if (0.5 + side * 0.34 - self.place(item).x) * side >= 0.24])
        # up to the very edge: the final position does not tell this from what falls off or almost does
        room = abs(table_edge(self.place(item).depth, side) - side * 0.03 - self.place(item).x)
        self._push(item, side, self.place(item).x + side * self.uniform(0.2, max(0.22, room)))
        if self.chance(0.6):
            self._let_go()

    def approach(self, closer: bool) -> None:
        item = self._take([i for i in TABLE if (self.place(i).depth < 0.65 if closer else self.place(i).depth > 0.35)])
        place = self.place(item)
        depth = self.uniform(1.05, 1.5) if closer else self.uniform(-0.15, place.depth - 0.35)
        lift = self.uniform(0.04, 0.16) if closer else 0.0
        # along a line to the vanishing point, but never out of view
        x = 0.5 + (place.x - 0.5) * magnification(depth) / place.scale
        self.carry(item, 1.5, depth=depth, lift=lift, x=min(max(x, 0.22), 0.78))
        self.wait(self.uniform(0.1, 0.4))
        if not closer and self.chance(0.5):
            self._let_go()

    def turn(self, side: int) -> None:
        """Strokes of the wrist with new grips between them: the hand's tilt alone does not tell the direction."""
        item = self._take(ANY)
        self.carry(item, 0.4, lift=self.place(item).lift + self.uniform(0.03, 0.10), turn=-side * 0.35)
        strokes = 2 if self.chance(0.5) else 3
        stroke = self.uniform(math.radians(120), math.radians(240)) / strokes
        for number in range(strokes):
            self.carry(item, 0.8, angle=self.place(item).angle + side * stroke, turn=side * 0.35)
            if number < strokes - 1:
                self.carry(item, 0.3, turn=-side * 0.35)

    def drop(self) -> None:
        item = self._take(ANY)
        self._lift(item)
        self.release()
        place, rest = self.place(item), self.objects[item].start.angle
        seconds = 0.25 + 0.4 * place.lift
        self.carry(item, 0.0, lift=0.0, depth=max(place.depth, 0.08), angle=rest, pace="fall", seconds=seconds)
        self.carry(item, 0.0, lift=0.0, arc=0.16 * place.lift, seconds=0.25)
        self._let_go()

    def lift_and_return(self) -> None:
        item = self._take(ANY)
        place = self.place(item)
        self._lift(item)
        self.carry(item, 0.9, lift=place.lift, depth=place.depth, angle=place.angle)
        self._let_go()

    def throw(self) -> None:
        item = self._take(ANY)
        self._lift(item, 0.05, 0.14)
        lift, angle = self.place(item).lift, self.place(item).angle
        self.release()
        spin = angle + self.uniform(-1.0, 1.0)
        self.carry(item, 0.0, lift=lift, angle=spin, arc=self.uniform(0.16, 0.30), seconds=0.75, pace="even")
        self.grip(item, 0.05)
        self.carry(item, 0.4, lift=max(lift - 0.05, 0.0))
        self.wait(0.3)

    def roll(self, side: int) -> None:
        """A short push, then it rolls on."""
        place, self.named = self.place(ROLLER), (ROLLER,)
        self.reach(ROLLER, -side * 0.75, 0.1, "open" if self.chance(0.5) else "point")
        radius = self.objects[ROLLER].width / 2 * place.scale
        near = place.x + side * self.uniform(0.03, 0.06)
        self.carry(ROLLER, 0.3, x=near, angle=place.angle + (near - place.x) / radius, pace="fall")
        self.release(self.now.hand.pose)
        room = abs(table_edge(place.depth, side) - place.x) - 0.03
        end = place.x + side * self.uniform(0.13, max(0.15, room))
        self.carry(ROLLER, 1.6, x=end, angle=place.angle + (end - place.x) / radius, pace="brake")
        if self.chance(0.5):
            self.leave(0.6)

    def cover(self) -> None:
        self.grip(COVER)
        hidden = choose(self.rng, (ROLLER, THING))
        self.named = (hidden, COVER)
        place = self.place(hidden)
        self._carry_over(COVER, place.x, place.depth + 0.02, 0.0)
        self.show(hidden, False)
        self._let_go()

    def uncover(self) -> None:
        self.named = (SECRET, COVER)
        self.show(SECRET, True)
        self.grip(COVER)
        place = self.place(COVER)
        target = self._beside(place.x, 0.26)
        self._carry_over(COVER, target, min(max(place.depth + self.uniform(-0.25, 0.1), 0.05), 0.95), 0.0)
        self._let_go()

    def put_on(self) -> None:
        item, base = self._take_one_of_two()
        self._carry_over(item, *self._top_of(base))
        self._let_go()

    def pretend_to_put_on(self) -> None:
        item, base = self._take_one_of_two()
        start = self.place(item)
        self._carry_over(item, *self._top_of(base), hover=self.uniform(0.005, 0.03))
        self.wait(0.15)
        self.carry(item, 0.4, lift=self.place(item).lift + 0.1)
        if self.chance(0.6):
            self.carry(item, 0.8, x=start.x, depth=start.depth, lift=start.lift + 0.03)
            if self.chance(0.5):
                self.carry(item, 0.2, lift=start.lift)
                self._let_go()
        else:
            self._carry_away(item)

    def put_next_to(self) -> None:
        item, base = self._take_one_of_two()
        place = self.place(base)
        gap = (self.objects[item].width + self.objects[base].width) / 2 * place.scale
        self._carry_over(item, self._beside(place.x, gap + self.uniform(0.0, 0.02)), place.depth + 0.03, 0.0)
        self._let_go()

    def hide_behind(self) -> None:
        item, base = choose(self.rng, SMALL), self.place(COVER)
        self.named = (item, COVER)
        # the hand goes behind too; it is drawn over the cover while it holds on
        self.grip(item)
        start = self.place(item)
        lift = max(start.lift, 0.1) + self.uniform(0.1, 0.16)
        self.carry(item, 0.5, lift=lift, angle=start.angle + self.uniform(-0.4, 0.4))
        self.carry(item, 1.0, x=base.x, depth=base.depth - 0.05, lift=self.objects[COVER].height)
        self.now = self.now._replace(hand=self.now.hand._replace(behind=True))
        self.carry(item, 0.5, lift=0.0, angle=start.angle)
        self._let_go()

    def fall_off(self) -> None:
        item, side, edge, angle = self._push_to_edge()
        self.carry(item, 0.0, x=edge + side * 0.05, angle=angle + side * 0.8, lift=-0.06, pace="fall", seconds=0.2)
        self.carry(item, 0.0, x=edge + side * 0.09, angle=angle + side * 2.4, lift=-0.9, pace="fall", seconds=0.35)
        self._let_go()

    def almost_fall_off(self) -> None:
        item, side, edge, angle = self._push_to_edge()
        self.carry(item, 0.25, x=edge + side * 0.02, angle=angle + side * 0.5, pace="brake")
        self.carry(item, 0.35, x=edge - side * 0.02, angle=angle - side * 0.12)
        self.carry(item, 0.2, angle=angle)
        if self.chance(0.6):
            self.leave(0.5)

    def pick_up(self) -> None:
        item = self._take(ANY)
        self._lift(item, 0.08, 0.2)
        self._carry_away(item)

    def pretend_to_pick_up(self) -> None:
        self._take(ANY)
        if self.chance(0.5):
            self.wait(0.2)
        self.release()
        x, y = self.hand_point(self.now)
        self.hand_to(x, y - self.uniform(0.1, 0.25), 0.9)
        if self.chance(0.5):
            self.leave(0.9)
        else:
            self.wait(0.4)

    def swap(self) -> None:
        first, second = (ROLLER, THING) if self.chance(0.5) else (choose(self.rng, (ROLLER, THING)), COVER)
        self.named = (first, second)
        one, two = self.place(first), self.place(second)
        self.grip(first, 0.7)
        self.carry(first, 0.7, x=two.x + (0.15 if two.x < 0.5 else -0.15), depth=min(two.depth + 0.3, 1.1), arc=0.08)
        self.release()
        self.grip(second, 0.4)
        self.carry(second, 0.8, x=one.x, depth=one.depth, arc=0.1)
        self.release()
        self.grip(first, 0.4)
        self.carry(first, 0.5, x=two.x, depth=two.depth, arc=0.05)
        self._let_go()


ACTIONS: dict[str, Callable[[ActionAnimation], None]] = {  # the templates, in the order of their classes
    "Moving [something] up": ActionAnimation.move_up,
    "Moving [something] down": ActionAnimation.move_down,
    "Pushing [something] from left to right": partial(ActionAnimation.push_sideways, side=1),
    "Pushing [something] from right to left": partial(ActionAnimation.push_sideways, side=-1),
    "Moving [something] closer": partial(ActionAnimation.approach, closer=True),
    "Moving [something] away": partial(ActionAnimation.approach, closer=False),
    "Turning [something] clockwise": partial(ActionAnimation.turn, side=1),
    "Turning [something] counterclockwise": partial(ActionAnimation.turn, side=-1),
    "Dropping [something]": ActionAnimation.drop,
    "Lifting [something] up and putting it back": ActionAnimation.lift_and_return,
    "Throwing [something] up and catching it": ActionAnimation.throw,
    "Rolling [something] to the left": partial(ActionAnimation.roll, side=-1),
    "Rolling [something] to the right": partial(ActionAnimation.roll, side=1),
    "Covering [something] with [something]": ActionAnimation.cover,
    "Uncovering [something] by lifting [something]": ActionAnimation.uncover,
    "Putting [something] on [something]": ActionAnimation.put_on,
    "Putting [something] next to [something]": ActionAnimation.put_next_to,
    "Pretending to put [something] on [something]": ActionAnimation.pretend_to_put_on,
    "Hiding [something] behind [something]": ActionAnimation.hide_behind,
    "Pushing [something] so that it falls off the table": ActionAnimation.fall_off,
    "Pushing [something] so that it almost falls off but doesn't": ActionAnimation.almost_fall_off,
    "Picking [something] up": ActionAnimation.pick_up,
    "Pretending to pick [something] up": ActionAnimation.pretend_to_pick_up,
    "Swapping [something] and [something]": ActionAnimation.swap,
}
