"""Rendering a kitchen video: the room is painted once, what stands in it when it changes, hands in every frame."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from horst.synth.kitchen.agent import initial_world
from horst.synth.kitchen.draw import draw_item, draw_standing, paint_sprites
from horst.synth.kitchen.motion import GRIP, LEFT, RIGHT, SWING, Side, Stage, choreograph, free_slot, rhythm
from horst.synth.kitchen.participants import look_of
from horst.synth.kitchen.room import BURNER, SPOTS, TAP, Point, paint_room
from horst.synth.kitchen.spec import FPS, Segment, VideoSpec
from horst.synth.kitchen.world import DOORS, SWITCHES, World, noun_of
from horst.synth.render.hands import Pose, reach_angle
from horst.synth.render.raster import RGB, Camera, Canvas, Frame, Sensor

MARGIN = 0.07
"""How much of the room, at each side, is outside of a frame: the head turns by that much."""
SMALLEST = 32
"""Fewer pixels than that leave no room for the head to turn."""
SHOULDERS: tuple[Point, Point] = ((0.42, 1.25), (-0.42, 1.25))
_LIFTED = (0.32, 0.80)
"""The part of a `throw` during which the waste is in the hand."""


def render(spec: VideoSpec, *, size: tuple[int, int] = (128, 228)) -> Iterator[Frame]:
    """The frames of a video, (H, W, 3) uint8, `FPS` a second; the same spec and size give the same bytes."""
    if min(size) < SMALLEST:
        raise ValueError(f"kitchen.render: size={size} (height, width) must be at least {SMALLEST} each way")
    scene = _Scene(spec, size)
    for index in range(round(spec.duration * FPS)):
        yield scene.frame(index / FPS)


class _Scene:
    """One video under way: a canvas larger than the frames, and the layer of all that stands still."""

    def __init__(self, spec: VideoSpec, size: tuple[int, int]) -> None:
        look, person = look_of(spec.participant), int(spec.participant[1:])
        self.spec, self.size = spec, size
        self.stage = Stage(look.mirror)
        self.motion = choreograph(spec, initial_world(spec.seed), self.stage)
        self.starts = [segment.start for segment in spec.segments]
        height, width = (round(side / (1.0 - 2 * MARGIN)) for side in size)
        self.canvas = Canvas(height, width)
        self.canvas.camera = Camera(0.0, 0.0)
        # a participant's room and things are the same in every video; how they lie and the light are not
        self.room = paint_room(look, np.random.default_rng(person), height, width)
        self.sprites = paint_sprites(look, person, self.canvas.unit * 1.3)
        self.still: RGB = self.room
        self.still_of: tuple[object, ...] = ()
        self.rng = np.random.default_rng([spec.seed, 4])
        self.sensor = Sensor(self.rng, *size, noise=0.012, vignette=0.22)
        self.light = np.asarray(look.light, np.float32) * np.float32(self.rng.uniform(0.92, 1.06))
        self.sway = self.rng.uniform(0.0, 2 * math.pi, size=4)

    def frame(self, time: float) -> Frame:
        done = bisect_right(self.motion.changes, time)
        world = self.motion.worlds[done]
        current = bisect_right(self.starts, time) - 1
        segment = self.spec.segments[current] if current >= 0 and time < self.spec.segments[current].stop else None
        lifted = segment.noun if segment and segment.verb == "throw" and _within(segment, time, _LIFTED) else ""
        swing = {door: _openness(door, world, segment, time) for door in DOORS}
        if self.still_of != (done, lifted, *swing.values()):
            self.still_of = (done, lifted, *swing.values())
            self.canvas.pixels[:] = self.room
            draw_standing(self.canvas, self.sprites, self.stage, world, swing, lifted)
            self.still = self.canvas.pixels.copy()
        self.canvas.pixels[:] = self.still
        self._draw_fluids(world, time)
        self._draw_hands(world, self.motion.sides[done if world.held() else current + 1], segment, time, lifted)
        return self.sensor.expose(self.rng, self._view(time))

    def _draw_fluids(self, world: World, time: float) -> None:
        if "tap" in world.on:
            x, y = self.stage.point(TAP)
            flicker = 1.0 + 0.12 * math.sin(31.0 * time)
            self.canvas.draw(self.sprites.fixed["water"], x + 0.002 * math.sin(47.0 * time), y, stretch=(flicker, 1.0))
        if "hob" in world.on and world.contents("pan.0") and world.place("pan.0") == "hob":
            self._steam(self.stage.point(BURNER), 0.05, time, 0.34)
        if "kettle" in world.on:
            x, y = self.stage.point(SPOTS["base"][0])
            self._steam((x - 0.07, y - 0.07), 0.012, time, 0.5)

    def _steam(self, at: Point, spread: float, time: float, strength: float) -> None:
        for k in range(3):
            puff, age = divmod(0.55 * time + k / 3, 1.0)
            x = at[0] + spread * math.sin(2.4 * k + 1.1 * puff) + 0.015 * math.sin(6 * age + k)
            fade = strength * 4 * age * (1 - age)
            self.canvas.draw(self.sprites.fixed["puff"], x, at[1] - 0.17 * age, scale=0.7 + age, opacity=fade)

    def _draw_hands(
        self, world: World, sides: tuple[Side, Side], segment: Segment | None, time: float, lifted: str
    ) -> None:
        held = {sides[world.where[item].slot]: item for item in world.held()}
        free = sides[free_slot(world)]
        for side in (LEFT, RIGHT):
            x, y = self.motion.hands[side].at(time)
            dx, dy, tilt = rhythm(self.motion.beats, side, time)
            # nobody holds quite still
            x += dx + 0.003 * math.sin(1.9 * time + side)
            y += dy + 0.003 * math.sin(2.3 * time + 2 * side)
            acting = segment if side in held or side == free else None
            self._draw_hand(side, (x, y), world, held.get(side, ""), tilt, acting)
            if lifted and side == free:
                self.canvas.draw(self.sprites.scraps[lifted], x, y - 0.01)

    def _draw_hand(self, side: Side, at: Point, world: World, item: str, tilt: float, segment: Segment | None) -> None:
        x, y = at
        angle = reach_angle(at, SHOULDERS[side])
        pose: Pose = "grip" if item else "open"
        if not item and segment and segment.step.item in SWITCHES:
            pose = "point"
        hand = self.sprites.hands[side]
        self.canvas.shadow(x + 0.02, y + 0.09, 0.16, 0.14, 0.25, 0.8)
        hand.draw(self.canvas, "back", pose, x, y, angle, 1.0)
        if item:
            gx, gy = GRIP.get(noun_of(item), (0.0, 0.0))
            if noun_of(item) == "pan":
                tilt *= 0.5  # with its long handle, more would carry it past the plate
            cos, sin = math.cos(tilt), math.sin(tilt)
            ix, iy = x - (cos * gx - sin * gy), y - (sin * gx + cos * gy)
            if tilt < -0.4 and segment and segment.verb == "pour" and segment.noun in self.sprites.streams:
                self.canvas.draw(self.sprites.streams[segment.noun], ix - 0.06, iy + 0.01)
            draw_item(self.canvas, self.sprites, world, item, ix, iy, tilt=tilt, shadow=False)
            hand.draw(self.canvas, "front", pose, x, y, angle, 1.0)

    def _view(self, time: float) -> RGB:
        """What the head-worn camera sees of the canvas: it follows the eyes, and sways."""
        (height, width), (x, y) = self.size, self.motion.eyes.at(time)
        a, b, c, d = self.sway
        x = x / 0.8 + 0.16 * math.sin(0.9 * time + a) + 0.07 * math.sin(2.7 * time + b)
        y = y / 0.5 + 0.22 * math.sin(1.1 * time + c) + 0.10 * math.sin(3.1 * time + d)
        spare_y, spare_x = self.canvas.height - height, self.canvas.width - width
        left, fx = _split((0.5 + 0.5 * x) * spare_x, spare_x)
        top, fy = _split((0.5 + 0.5 * y) * spare_y, spare_y)
        region = self.canvas.pixels[top : top + height + 1, left : left + width + 1] * self.light
        region = region[:-1] + (region[1:] - region[:-1]) * fy
        return region[:, :-1] + (region[:, 1:] - region[:, :-1]) * fx


def _split(offset: float, spare: int) -> tuple[int, np.float32]:
    """A whole and a fractional number of pixels, so that one more row or column still fits."""
    offset = min(max(offset, 0.0), spare - 1.001)
    return int(offset), np.float32(offset - int(offset))


def _within(segment: Segment, time: float, part: tuple[float, float]) -> bool:
    return part[0] <= (time - segment.start) / (segment.stop - segment.start) < part[1]


def _openness(door: str, world: World, segment: Segment | None, time: float) -> float:
    """From 0 (shut) to 1, on its way while a hand is on the handle."""
    if segment is None or segment.step.item != door:
        return float(door in world.on)
    t = (time - segment.start) / (segment.stop - segment.start)
    t = min(max((t - SWING[0]) / (SWING[1] - SWING[0]), 0.0), 1.0)
    t = t * t * (3 - 2 * t)
    return t if segment.verb == "open" else 1.0 - t
