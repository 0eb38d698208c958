"""Rendering a kitchen video: the room is painted once, what stands in it when it changes, hands in every frame.

A hand leaves for its next target as soon as the previous action is over, and the gaze (the camera) slightly before it:
the next action shows in the second or two before it starts.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from horst.synth.kitchen import props, room
from horst.synth.kitchen.participants import APPEARANCES
from horst.synth.kitchen.recipes import initial_world
from horst.synth.kitchen.videos import FPS, Segment, VideoSpec
from horst.synth.kitchen.world import DOORS, HOME, SWITCHES, VERB_TABLE, ActionStep, World, apply, noun_of
from horst.synth.render.hands import Pose, make_hand, reach_angle
from horst.synth.render.raster import RGB, Camera, FrameBuffer, Point, Sensor, ease
from horst.video.frame import Image

RIGHT, LEFT = 0, 1
CARRY: tuple[Point, Point] = ((0.20, 0.38), (-0.24, 0.38))
REST: tuple[Point, Point] = ((0.30, 0.53), (-0.32, 0.53))
CONTACT = 0.38  # the fraction of a segment after which the hand touches its target
SWING = (0.38, 0.85)  # the fraction of a segment during which a door turns
GAZE_LEADS = 0.7  # seconds between the gaze and the start of the action that it leads to
GRIP: dict[str, Point] = {  # from the centre of an object to the hand that holds it
    "pan": (0.22, 0.085), "kettle": (0.06, -0.01), "knife": (0.0, 0.075), "spoon": (0.01, 0.085),
    "plate": (0.07, 0.035), "cup": (0.03, 0.01), "cloth": (0.0, -0.04), "milk": (0.02, 0.0),
    "oil": (0.01, 0.0), "pasta": (0.03, 0.01),
}  # fmt: skip
# width and height of the motion, frequency in Hz, and tilt of the held object
_OSCILLATIONS = {
    "rub": (0.035, 0.022, 1.7, 0.0), "hold": (0.004, 0.004, 1.0, 0.0), "chop": (0.004, 0.028, 2.9, 0.0),
    "scrape": (0.030, 0.006, 1.3, 0.9), "stir": (0.038, 0.024, 1.2, 0.0), "tilt": (0.004, 0.004, 1.0, -1.0),
    "tap": (0.0, 0.022, 2.3, 0.0),
}  # fmt: skip


class Trajectory:
    """A path through points at times, at rest in each of them, with oscillations on top."""

    def __init__(self, start: Point) -> None:
        self.times, self.points = [0.0], [start]
        self.oscillations: list[tuple[float, float, str]] = []  # start, stop and kind

    def add(self, time: float, point: Point) -> None:
        # a short gap can request a time in the past
        self.times.append(max(time, self.times[-1] + 1e-3))
        self.points.append(point)

    def at(self, time: float) -> Point:
        k = bisect_right(self.times, time)
        if k == 0 or k == len(self.times):
            return self.points[min(k, len(self.points) - 1)]
        (x0, y0), (x1, y1) = self.points[k - 1], self.points[k]
        t = (time - self.times[k - 1]) / (self.times[k] - self.times[k - 1])
        t = t * t * t * (t * (6 * t - 15) + 10)
        # hands are lifted on long paths
        lift = 0.10 * math.hypot(x1 - x0, y1 - y0) * 4 * t * (1 - t)
        return x0 + (x1 - x0) * t, y0 + (y1 - y0) * t - lift

    def oscillation(self, time: float) -> tuple[float, float, float]:
        """The offset of a hand at a time: (dx, dy, clockwise tilt of what it holds)."""
        for start, stop, kind in self.oscillations:
            if start <= time <= stop:
                t, length = time - start, stop - start
                ramp = min(1.0, 5.0 * t / length, 5.0 * (length - t) / length)
                width, height, hertz, turn = _OSCILLATIONS[kind]
                phase = 2 * math.pi * hertz * t
                return ramp * width * math.cos(phase), ramp * height * math.sin(phase), ramp * turn
        return 0.0, 0.0, 0.0


class Layout(NamedTuple):
    """Where objects are in this kitchen, mirrored or not."""

    mirror: float

    def point(self, at: Point) -> Point:
        return self.mirror * at[0], at[1]

    def where(self, world: World, item: str) -> Point:
        """The point of an object that is not in a hand."""
        at = world.where[item]
        return self.point(room.SLOTS[at.place][at.slot])

    def scraps(self, world: World, noun: str) -> Point:
        """The point of waste: a tea bag is in its cup, everything else on the board."""
        cups = [item for item in world.at("counter") if noun == "tea" and "tea" in world.contents(item)]
        return self.where(world, cups[0]) if cups else self.point(room.WASTE)

    def focus(self, world: World, after: World, step: ActionStep) -> Point:
        """The point that an action is about."""
        if step.verb in ("take", "cut", "peel"):
            return self.where(world, step.item)
        if step.item in room.HANDLES:
            return self.point(room.HANDLES[step.item])
        if step.place in HOME:
            return self.where(world, step.place)
        if step.verb == "put":
            return self.where(after, step.item)
        if step.verb == "throw":
            return self.scraps(world, step.noun)
        return self.point(room.DRYING if step.verb == "dry" else room.SINK)


Path = list[tuple[float, Point]]  # points at fractions of a segment


class Motion:
    """The motion of a video that starts with a world: worlds, when they change, and where hands and gaze are."""

    def __init__(self, spec: VideoSpec, world: World, layout: Layout) -> None:
        self.worlds, self.changes = [world], [segment.at(VERB_TABLE[segment.verb].effect) for segment in spec.segments]
        # which hand is which slot of the world, per world: objects on the left are taken with the left hand
        self.sides: list[tuple[int, int]] = [(RIGHT, LEFT)]
        self.hands, self.gaze = [Trajectory(at) for at in REST], Trajectory((0.0, 0.1))
        over = 0.0
        for segment in spec.segments:
            step, start = segment.step, segment.start
            after = apply(world, step)
            focus = layout.focus(world, after, step)
            sides = self.sides[-1]
            if not world.held():
                sides = (LEFT, RIGHT) if focus[0] < -0.15 else (RIGHT, LEFT)
            paths = {sides[slot]: path for slot, path in _paths(layout, world, after, step).items()}
            carrying = {sides[after.where[item].slot] for item in after.held()}
            # the way there is in the gap before the action; idle hands return to the cook
            for side in (RIGHT, LEFT):
                track, home = self.hands[side], (CARRY if side in carrying else REST)[side]
                here = track.points[-1]
                if side in paths or here != home:
                    track.add(over, here)
                if side in paths:
                    (x, y), share = paths[side][0][1], 0.7 if start - over > 0.3 else 0.3
                    track.add(start, (here[0] + (x - here[0]) * share, here[1] + (y - here[1]) * share))
                    for part, point in paths[side]:
                        track.add(segment.at(part), point)
                elif here != home:
                    track.add(over + 0.9, home)
            self.gaze.add(start - GAZE_LEADS, self.gaze.points[-1])
            self.gaze.add(start + 0.3, focus)
            for side, kind in zip(paths, VERB_TABLE[step.verb].motions, strict=False):
                self.hands[side].oscillations.append((segment.at(CONTACT), segment.stop, kind))
            self.worlds.append(after)
            self.sides.append(sides)
            world, over = after, segment.stop


def _paths(layout: Layout, world: World, after: World, step: ActionStep) -> dict[int, Path]:
    """The paths of the hands in an action, by slot of the world; the leading hand first."""
    x, y = at = layout.focus(world, after, step)
    slots = {item: world.where[item].slot for item in world.held()}
    free = world.free_slot("hand") or 0  # for doors and switches: an empty hand, otherwise the first
    if step.verb == "take":
        return {after.where[step.item].slot: _rest(at, step.item, CONTACT, 0.55)}
    if step.verb == "put":
        return {slots[step.item]: _rest((x, y - 0.05) if step.place in HOME else at, step.item, 0.55, 0.68)}
    if step.item in DOORS:
        # the hand stays on the handle while the door turns
        x, y = room.HANDLES[step.item]
        _, (width, _), hinge = room.DOOR_FRAMES[step.item]
        ends = at, layout.point((x + 0.7 * hinge * width, y + 0.03))
        return {free: list(zip(SWING, ends if step.verb == "open" else ends[::-1], strict=True))}
    if step.item in room.HANDLES:
        return {free: _rest(at, stop=0.7)}
    if step.verb == "throw":
        bin_x, bin_y = layout.point(room.BIN)
        return {free: _rest(at, "", 0.25, 0.35) + _rest((bin_x, bin_y - 0.05), "", 0.75, 0.85)}
    if step.verb in ("wash", "dry"):
        x, y = layout.point((room.TAP[0], room.TAP[1] + 0.11)) if step.verb == "wash" else at
        return {1 - slots[step.item]: _rest((x + 0.02, y)), slots[step.item]: _rest((x, y), step.item)}
    if step.verb in ("cut", "peel"):
        knife = slots["knife.0"]
        contact, (end, (blade_x, blade_y)) = _rest((x + 0.02, y - 0.02), "knife.0")
        held = [(CONTACT, (x - 0.085, y + 0.03)), (1.0, (x - 0.06, y + 0.03))]
        return {knife: [contact, (end, (blade_x + 0.04, blade_y))], 1 - knife: held}
    if step.verb == "stir":
        spoon = next(item for item in slots if noun_of(item) == "spoon")
        return {slots[spoon]: _rest((x, y - 0.01), spoon)}
    # pour, crack: above the vessel
    return {slots[step.item]: _rest((x + 0.03, y - 0.10), step.item, stop=0.95)}


def _rest(at: Point, item: str = "", start: float = CONTACT, stop: float = 1.0) -> Path:
    """The hand stays where it holds an object (or nothing) at a point."""
    dx, dy = GRIP.get(noun_of(item), (0.0, 0.0))
    return [(part, (at[0] + dx, at[1] + dy)) for part in (start, stop)]


MARGIN = 0.07  # the part of the room at each side that is outside of a frame: the head turns by that much
SMALLEST = 32  # pixels each way. Fewer leave no room for the head to turn.
SHOULDERS: tuple[Point, Point] = ((0.42, 1.25), (-0.42, 1.25))
_FILL_AT = {"cup": (-0.008, -0.028), "pan": (0.0, 0.010), "plate": (0.0, 0.0)}
_FLAT = ("plate", "pan", "carrot", "cloth", "sponge")
_LIFTED = (0.32, 0.80)  # the fraction of a `throw` during which the waste is in the hand


def render(spec: VideoSpec, *, size: tuple[int, int] = (128, 228)) -> Iterator[Image]:
    """The frames of a video, (H, W, 3) uint8, at `FPS`; the same spec and size give the same bytes."""
    if min(size) < SMALLEST:
        raise ValueError(f"kitchen.render: size={size} (height, width) must be at least {SMALLEST} each way")
    renderer = _KitchenRenderer(spec, size)
    for index in range(round(spec.duration * FPS)):
        yield renderer.render(index / FPS)


class _KitchenRenderer:
    """Renders one video: a frame buffer larger than the frames, and the layer of everything that stands still."""

    def __init__(self, spec: VideoSpec, size: tuple[int, int]) -> None:
        look, person = APPEARANCES[spec.participant], int(spec.participant[1:])
        self.spec, self.size = spec, size
        self.layout = Layout(look.mirror)
        self.motion = Motion(spec, initial_world(spec.seed), self.layout)
        height, width = (round(side / (1.0 - 2 * MARGIN)) for side in size)
        self.frame = FrameBuffer(height, width)
        self.frame.camera = Camera(0.0, 0.0)
        texels = self.frame.unit * 1.3
        # a participant's room and objects are the same in every video; motion and light are not
        self.room = room.paint_room(look, np.random.default_rng(person), height, width)
        rng = np.random.default_rng([person, 1])
        self.sprites = {name: props.paint_prop(name, look, rng, texels) for name in props.PROPS}
        self.sprites |= {door: room.door_sprite(look, door, texels) for door in DOORS}
        self.hands = [  # the right one, the left one; the same seed, so that both sleeves match
            make_hand(np.random.default_rng([person, 2]), texels, 1.2, (look.skin, look.sleeve, left))
            for left in (False, True)
        ]
        self.still_of: tuple[object, ...] = ()
        self.rng = np.random.default_rng([spec.seed, 4])
        self.sensor = Sensor(self.rng, *size, noise=0.012, vignette=0.22)
        self.light = np.asarray(look.light, np.float32) * np.float32(self.rng.uniform(0.92, 1.06))
        self.sway = self.rng.uniform(0.0, 2 * math.pi, size=4)

    def render(self, time: float) -> Image:
        done = bisect_right(self.motion.changes, time)
        world = self.motion.worlds[done]
        current = bisect_right(self.spec.segments, time, key=lambda segment: segment.start) - 1
        segment = self.spec.segments[current] if current >= 0 and time < self.spec.segments[current].stop else None
        throwing = segment and segment.verb == "throw" and _LIFTED[0] <= segment.progress(time) < _LIFTED[1]
        lifted = segment.noun if segment and throwing else ""
        swing = {door: _openness(door, world, segment, time) for door in DOORS}
        if self.still_of != (key := (done, lifted, *swing.values())):
            self.still_of = key
            self.frame.pixels[:] = self.room
            self._draw_still(world, swing, lifted)
            self.still = self.frame.pixels.copy()
        self.frame.pixels[:] = self.still
        self._draw_fluids(world, time)
        self._draw_hands(world, self.motion.sides[done if world.held() else current + 1], segment, time, lifted)
        return self.sensor.expose(self.rng, self._view(time))

    def _draw(self, name: str, at: Point, **how: Any) -> None:
        self.frame.draw(self.sprites[name], *at, **how)

    def _draw_still(self, world: World, swing: dict[str, float], lifted: str) -> None:
        """Everything that rests, on top of the room; `lifted` is the waste on its way to the bin."""
        layout = self.layout
        if "hob" in world.on:
            self._draw("hot", layout.point(room.BURNER))
        if world.basin:
            self._draw("foam", layout.point(room.SINK))
        for door in (door for door in DOORS if swing[door] > 0.0):
            for item in sorted(world.at(door), key=lambda i: -HOME[i].slot):
                self._draw_item(world, item, layout.where(world, item), shadow=False)
        for door, ((x, y), (width, _), hinge) in room.DOOR_FRAMES.items():
            shut, at = 1.0 - 0.84 * swing[door], layout.point((x + hinge * width / 2, y))
            self._draw(door, at, stretch=(shut, 1.0), light=1.0 - 0.25 * swing[door])
        # the box of tea never leaves the shelf: a bag is taken from it
        self._draw("tea", layout.point(room.SLOTS["shelf"][1]))
        hidden = ("hand", "gone", *DOORS)
        items = [item for item, at in world.where.items() if at.place not in hidden and noun_of(item) != "tea"]
        for item in sorted(items, key=lambda item: layout.where(world, item)[1]):  # far ones first
            self._draw_item(world, item, layout.where(world, item))
        for noun in world.waste[: len(world.waste) - (lifted in world.waste)]:
            if noun != "tea":
                self._draw(f"scraps {noun}", layout.scraps(world, noun))
        self._draw("tap", layout.point(room.TAP))

    def _draw_item(self, world: World, item: str, at: Point, *, tilt: float = 0.0, shadow: bool = True) -> None:
        """An object in its state, with what is inside."""
        (x, y), noun, form = at, noun_of(item), world.form.get(item, "")
        name = f"peeled {noun}" if form == "peeled" else "tea bag" if noun == "tea" else noun
        if shadow:
            width, height = props.PROPS[name]
            low = 0.3 * height if noun in _FLAT or form == "cut" else 0.42 * height
            self.frame.shadow(x + 0.008, y + low, 0.62 * width if noun == "pan" else width, 0.04, 0.38, 0.7)
        self._draw(f"pieces {noun}" if form == "cut" else name, at, angle=tilt)
        if noun not in props.SURFACE:
            return
        inside, (dx, dy) = world.contents(item), _FILL_AT[noun]
        x, y = x + dx, y + dy
        if item in world.dirty and not inside and noun != "cup":
            self._draw("dirt", (x, y))
        wet = [food for food in inside if food in props.LIQUIDS]
        if wet:
            liquid = "tea" if "tea" in wet and "water" in wet else wet[0]
            self._draw(f"{noun} {liquid}", (x, y), opacity=0.45 if wet == ["oil"] else 0.95)
        if "milk" in wet and len(wet) > 1:
            self._draw(f"{noun} milk", (x, y), opacity=0.45)
        if wet == ["tea"]:
            self._draw("tea bag", (x + 0.01, y - 0.005), scale=0.7)
        foods = list(dict.fromkeys(food for food in inside if food in props.FOODS))
        for k, food in enumerate(foods):
            spread = 0.032 * (k - (len(foods) - 1) / 2) * (1.4 if noun == "pan" else 1.0)
            self._draw(f"pieces {food}", (x + spread, y + 0.3 * abs(spread)), scale=1.15 if noun == "pan" else 0.8)

    def _draw_fluids(self, world: World, time: float) -> None:
        if "tap" in world.on:
            x, y = self.layout.point(room.TAP)
            flicker = 1.0 + 0.12 * math.sin(31.0 * time)
            self._draw("water", (x + 0.002 * math.sin(47.0 * time), y), stretch=(flicker, 1.0))
        if "hob" in world.on and world.contents("pan.0") and world.place("pan.0") == "hob":
            self._draw_steam(self.layout.point(room.BURNER), 0.05, time, 0.34)
        if "kettle" in world.on:
            x, y = self.layout.point(room.SLOTS["base"][0])
            self._draw_steam((x - 0.07, y - 0.07), 0.012, time, 0.5)

    def _draw_steam(self, at: Point, spread: float, time: float, strength: float) -> None:
        for k in range(3):
            puff, age = divmod(0.55 * time + k / 3, 1.0)
            x = at[0] + spread * math.sin(2.4 * k + 1.1 * puff) + 0.015 * math.sin(6 * age + k)
            self._draw("puff", (x, at[1] - 0.17 * age), scale=0.7 + age, opacity=strength * 4 * age * (1 - age))

    def _draw_hands(
        self, world: World, sides: tuple[int, int], segment: Segment | None, time: float, lifted: str
    ) -> None:
        held = {sides[world.where[item].slot]: item for item in world.held()}
        free = sides[world.free_slot("hand") or 0]
        for side in (LEFT, RIGHT):
            x, y = self.motion.hands[side].at(time)
            dx, dy, tilt = self.motion.hands[side].oscillation(time)
            # a hand is never quite still
            x += dx + 0.003 * math.sin(1.9 * time + side)
            y += dy + 0.003 * math.sin(2.3 * time + 2 * side)
            item, angle, hand = held.get(side, ""), reach_angle((x, y), SHOULDERS[side]), self.hands[side]
            operates = segment is not None and side == free and segment.step.item in SWITCHES
            pose: Pose = "grip" if item else "point" if operates else "open"
            self.frame.shadow(x + 0.02, y + 0.09, 0.16, 0.14, 0.25, 0.8)
            self.frame.draw(hand.back[pose], x, y, angle=angle)
            if item:
                gx, gy = GRIP.get(noun_of(item), (0.0, 0.0))
                if noun_of(item) == "pan":
                    tilt *= 0.5  # its handle is long: more would move it past the plate
                cos, sin = math.cos(tilt), math.sin(tilt)
                at = x - (cos * gx - sin * gy), y - (sin * gx + cos * gy)
                if tilt < -0.4 and segment and segment.verb == "pour" and segment.noun in props.POURED:
                    self._draw(f"stream {segment.noun}", (at[0] - 0.06, at[1] + 0.01))
                self._draw_item(world, item, at, tilt=tilt, shadow=False)
                self.frame.draw(hand.front[pose], x, y, angle=angle)
            if lifted and side == free:
                self._draw(f"scraps {lifted}", (x, y - 0.01))

    def _view(self, time: float) -> RGB:
        """What the head-worn camera sees: it follows the gaze, and sways."""
        (height, width), (x, y) = self.size, self.motion.gaze.at(time)
        a, b, c, d = self.sway
        x = x / 0.8 + 0.16 * math.sin(0.9 * time + a) + 0.07 * math.sin(2.7 * time + b)
        y = y / 0.5 + 0.22 * math.sin(1.1 * time + c) + 0.10 * math.sin(3.1 * time + d)
        left, fx = _crop(x, self.frame.width - width)
        top, fy = _crop(y, self.frame.height - height)
        region = self.frame.pixels[top : top + height + 1, left : left + width + 1] * self.light
        region = region[:-1] + (region[1:] - region[:-1]) * fy
        return region[:, :-1] + (region[:, 1:] - region[:, :-1]) * fx


def _crop(position: float, spare: int) -> tuple[int, np.float32]:
    """The offset of a crop from a position in [-1, 1]: whole and fractional pixels, with one row or column to spare."""
    offset = min(max((0.5 + 0.5 * position) * spare, 0.0), spare - 1.001)
    return int(offset), np.float32(offset - int(offset))


def _openness(door: str, world: World, segment: Segment | None, time: float) -> float:
    """From 0 (shut) to 1; it changes while a hand is on the handle."""
    if segment is None or segment.step.item != door:
        return float(door in world.on)
    t = ease(min(max((segment.progress(time) - SWING[0]) / (SWING[1] - SWING[0]), 0.0), 1.0))
    return t if segment.verb == "open" else 1.0 - t
