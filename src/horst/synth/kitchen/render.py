"""Rendering a kitchen video: the room is painted once, what stands in it when it changes, hands in every frame."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from horst.synth.kitchen.agent import initial_world
from horst.synth.kitchen.motion import GRIP, LEFT, RIGHT, SWING, Layout, Side, animate, free_slot
from horst.synth.kitchen.participants import APPEARANCES, Appearance
from horst.synth.kitchen.props import (
    PROPS,
    RAW,
    paint_dirt,
    paint_liquid,
    paint_pieces,
    paint_prop,
    paint_scraps,
    paint_stream,
)  # fmt: skip
from horst.synth.kitchen.room import BURNER, DOOR_FRAMES, SINK, SLOTS, TAP, door_sprite, fixture_sprites, paint_room
from horst.synth.kitchen.videos import FPS, Segment, VideoSpec
from horst.synth.kitchen.world import DOORS, HOME, SWITCHES, VEGETABLES, World, noun_of
from horst.synth.render.hands import Pose, make_hand, reach_angle
from horst.synth.render.raster import RGB, Camera, FrameBuffer, Sensor, Sprite
from horst.synth.render.shapes import Point
from horst.video.frame import Image

MARGIN = 0.07  # the part of the room at each side that is outside of a frame: the head turns by that much
SMALLEST = 32  # pixels each way. Fewer leave no room for the head to turn.
SHOULDERS: tuple[Point, Point] = ((0.42, 1.25), (-0.42, 1.25))
FOODS = (*VEGETABLES, "pasta", "egg")
LIQUIDS = ("tea", "milk", "water", "oil")
POURED = {"kettle": "water", "milk": "milk", "oil": "oil", "pasta": "pasta"}
"""What comes out of the objects that can be poured from."""
SURFACE = {"cup": (0.066, 0.034), "pan": (0.18, 0.13), "plate": (0.09, 0.055)}
"""Width and height of what a vessel holds."""
_FILL_AT = {"cup": (-0.008, -0.028), "pan": (0.0, 0.010), "plate": (0.0, 0.0)}
_FLAT = ("plate", "pan", "carrot", "cloth", "sponge")
_LIFTED = (0.32, 0.80)  # the fraction of a `throw` during which the waste is in the hand


def render(spec: VideoSpec, *, size: tuple[int, int] = (128, 228)) -> Iterator[Image]:
    """The frames of a video, (H, W, 3) uint8, at `FPS`; the same spec and size give the same bytes."""
    if min(size) < SMALLEST:
        raise ValueError(f"kitchen.render: size={size} (height, width) must be at least {SMALLEST} each way")
    renderer = _VideoRenderer(spec, size)
    for index in range(round(spec.duration * FPS)):
        yield renderer.render(index / FPS)


def _paint_sprites(look: Appearance, seed: int, texels: float) -> dict[str, Sprite]:
    """Everything that is drawn more than once."""
    rng = np.random.default_rng([seed, 1])
    sprites = {name: paint_prop(name, look, rng, texels) for name in PROPS}
    sprites |= {f"pieces {noun}": paint_pieces(noun, rng, texels) for noun in FOODS}
    sprites |= {f"scraps {noun}": paint_scraps(noun, rng, texels) for noun in ("onion", "carrot", "egg", "tea")}
    sprites |= {f"{v} {n}": paint_liquid(RAW[n], *SURFACE[v], texels) for v in SURFACE for n in LIQUIDS}
    sprites |= {f"stream {noun}": paint_stream(RAW[food], texels) for noun, food in POURED.items()}
    sprites |= {door: door_sprite(look, door, texels) for door in DOORS}
    return sprites | fixture_sprites(rng, texels) | {"dirt": paint_dirt(rng, texels)}


class _VideoRenderer:
    """Renders one video: a frame buffer larger than the frames, and the layer of everything that stands still."""

    def __init__(self, spec: VideoSpec, size: tuple[int, int]) -> None:
        look, person = APPEARANCES[spec.participant], int(spec.participant[1:])
        self.spec, self.size = spec, size
        self.layout = Layout(look.mirror)
        self.motion = animate(spec, initial_world(spec.seed), self.layout)
        self.starts = [segment.start for segment in spec.segments]
        height, width = (round(side / (1.0 - 2 * MARGIN)) for side in size)
        self.frame = FrameBuffer(height, width)
        self.frame.camera = Camera(0.0, 0.0)
        texels = self.frame.unit * 1.3
        # a participant's room and objects are the same in every video; motion and light are not
        self.room = paint_room(look, np.random.default_rng(person), height, width)
        self.sprites = _paint_sprites(look, person, texels)
        self.hands = [  # the right one, the left one; the same seed, so that both sleeves match
            make_hand(np.random.default_rng([person, 2]), texels, 1.2, skin=look.skin, sleeve=look.sleeve, left=left)
            for left in (False, True)
        ]
        self.still: RGB = self.room
        self.still_of: tuple[object, ...] = ()
        self.rng = np.random.default_rng([spec.seed, 4])
        self.sensor = Sensor(self.rng, *size, noise=0.012, vignette=0.22)
        self.light = np.asarray(look.light, np.float32) * np.float32(self.rng.uniform(0.92, 1.06))
        self.sway = self.rng.uniform(0.0, 2 * math.pi, size=4)

    def render(self, time: float) -> Image:
        done = bisect_right(self.motion.changes, time)
        world = self.motion.worlds[done]
        current = bisect_right(self.starts, time) - 1
        segment = self.spec.segments[current] if current >= 0 and time < self.spec.segments[current].stop else None
        lifted = segment.noun if segment and segment.verb == "throw" and _within(segment, time, _LIFTED) else ""
        swing = {door: _openness(door, world, segment, time) for door in DOORS}
        if self.still_of != (done, lifted, *swing.values()):
            self.still_of = (done, lifted, *swing.values())
            self.frame.pixels[:] = self.room
            self._draw_still(world, swing, lifted)
            self.still = self.frame.pixels.copy()
        self.frame.pixels[:] = self.still
        self._draw_fluids(world, time)
        self._draw_hands(world, self.motion.sides[done if world.held() else current + 1], segment, time, lifted)
        return self.sensor.expose(self.rng, self._view(time))

    def _draw(self, name: str, at: Point) -> None:
        self.frame.draw(self.sprites[name], *at)

    def _draw_still(self, world: World, swing: dict[str, float], lifted: str) -> None:
        """Everything that rests, on top of the room; `lifted` is the waste on its way to the bin."""
        layout = self.layout
        if "hob" in world.on:
            self._draw("hot", layout.point(BURNER))
        if world.basin:
            self._draw("foam", layout.point(SINK))
        for door in DOORS:
            if swing[door] > 0.0:
                for item in sorted(world.at(door), key=lambda i: -HOME[i].slot):
                    self._draw_item(world, item, *layout.where(world, item), shadow=False)
        for door, ((x, y), (width, _), hinge) in DOOR_FRAMES.items():
            shut, at = 1.0 - 0.84 * swing[door], layout.point((x + hinge * width / 2, y))
            self.frame.draw(self.sprites[door], *at, stretch=(shut, 1.0), light=1.0 - 0.25 * swing[door])
        # the box of tea never leaves the shelf: a bag is taken from it
        self._draw("tea", layout.point(SLOTS["shelf"][1]))
        hidden = ("hand", "gone", *DOORS)
        items = [item for item, at in world.where.items() if at.place not in hidden and noun_of(item) != "tea"]
        for item in sorted(items, key=lambda item: layout.where(world, item)[1]):  # far ones first
            self._draw_item(world, item, *layout.where(world, item))
        for noun in world.waste[: len(world.waste) - (lifted in world.waste)]:
            if noun != "tea":
                self._draw(f"scraps {noun}", layout.scraps(world, noun))
        self._draw("tap", layout.point(TAP))

    def _draw_item(
        self, world: World, item: str, x: float, y: float, *, tilt: float = 0.0, shadow: bool = True
    ) -> None:
        """An object in its state, with what is inside."""
        noun, form = noun_of(item), world.form.get(item, "")
        name = f"peeled {noun}" if form == "peeled" else "tea bag" if noun == "tea" else noun
        prop = PROPS[name]
        if shadow:
            low = 0.3 * prop.height if noun in _FLAT or form == "cut" else 0.42 * prop.height
            width = 0.62 * prop.width if noun == "pan" else prop.width
            self.frame.shadow(x + 0.008, y + low, width, 0.04, 0.38, 0.7)
        self.frame.draw(self.sprites[f"pieces {noun}" if form == "cut" else name], x, y, angle=tilt)
        if noun in SURFACE:
            self._draw_inside(world, item, x, y)

    def _draw_inside(self, world: World, vessel: str, x: float, y: float) -> None:
        noun, inside = noun_of(vessel), world.contents(vessel)
        x, y = x + _FILL_AT[noun][0], y + _FILL_AT[noun][1]
        if vessel in world.dirty and not inside and noun != "cup":
            self._draw("dirt", (x, y))
        wet = [food for food in inside if food in LIQUIDS]
        if wet:
            liquid = self.sprites[f"{noun} {'tea' if 'tea' in wet and 'water' in wet else wet[0]}"]
            self.frame.draw(liquid, x, y, opacity=0.45 if wet == ["oil"] else 0.95)
        if "milk" in wet and len(wet) > 1:
            self.frame.draw(self.sprites[f"{noun} milk"], x, y, opacity=0.45)
        if wet == ["tea"]:
            self.frame.draw(self.sprites["tea bag"], x + 0.01, y - 0.005, scale=0.7)
        foods = list(dict.fromkeys(food for food in inside if food in FOODS))
        for k, food in enumerate(foods):
            spread = 0.032 * (k - (len(foods) - 1) / 2) * (1.4 if noun == "pan" else 1.0)
            pieces, scale = self.sprites[f"pieces {food}"], 1.15 if noun == "pan" else 0.8
            self.frame.draw(pieces, x + spread, y + 0.3 * abs(spread), scale=scale)

    def _draw_fluids(self, world: World, time: float) -> None:
        if "tap" in world.on:
            x, y = self.layout.point(TAP)
            flicker = 1.0 + 0.12 * math.sin(31.0 * time)
            self.frame.draw(self.sprites["water"], x + 0.002 * math.sin(47.0 * time), y, stretch=(flicker, 1.0))
        if "hob" in world.on and world.contents("pan.0") and world.place("pan.0") == "hob":
            self._draw_steam(self.layout.point(BURNER), 0.05, time, 0.34)
        if "kettle" in world.on:
            x, y = self.layout.point(SLOTS["base"][0])
            self._draw_steam((x - 0.07, y - 0.07), 0.012, time, 0.5)

    def _draw_steam(self, at: Point, spread: float, time: float, strength: float) -> None:
        for k in range(3):
            puff, age = divmod(0.55 * time + k / 3, 1.0)
            x = at[0] + spread * math.sin(2.4 * k + 1.1 * puff) + 0.015 * math.sin(6 * age + k)
            fade = strength * 4 * age * (1 - age)
            self.frame.draw(self.sprites["puff"], x, at[1] - 0.17 * age, scale=0.7 + age, opacity=fade)

    def _draw_hands(
        self, world: World, sides: tuple[Side, Side], segment: Segment | None, time: float, lifted: str
    ) -> None:
        held = {sides[world.where[item].slot]: item for item in world.held()}
        free = sides[free_slot(world)]
        for side in (LEFT, RIGHT):
            x, y = self.motion.hands[side].at(time)
            dx, dy, tilt = self.motion.oscillation(side, time)
            # a hand is never quite still
            x += dx + 0.003 * math.sin(1.9 * time + side)
            y += dy + 0.003 * math.sin(2.3 * time + 2 * side)
            acting = segment if side in held or side == free else None
            self._draw_hand(side, (x, y), world, held.get(side, ""), tilt, acting)
            if lifted and side == free:
                self._draw(f"scraps {lifted}", (x, y - 0.01))

    def _draw_hand(self, side: Side, at: Point, world: World, item: str, tilt: float, segment: Segment | None) -> None:
        x, y = at
        angle = reach_angle(at, SHOULDERS[side])
        pose: Pose = "grip" if item else "open"
        if not item and segment and segment.step.item in SWITCHES:
            pose = "point"
        hand = self.hands[side]
        self.frame.shadow(x + 0.02, y + 0.09, 0.16, 0.14, 0.25, 0.8)
        self.frame.draw(hand.back[pose], x, y, angle=angle)
        if item:
            gx, gy = GRIP.get(noun_of(item), (0.0, 0.0))
            if noun_of(item) == "pan":
                tilt *= 0.5  # its handle is long: more would move it past the plate
            cos, sin = math.cos(tilt), math.sin(tilt)
            ix, iy = x - (cos * gx - sin * gy), y - (sin * gx + cos * gy)
            if tilt < -0.4 and segment and segment.verb == "pour" and segment.noun in POURED:
                self._draw(f"stream {segment.noun}", (ix - 0.06, iy + 0.01))
            self._draw_item(world, item, ix, iy, tilt=tilt, shadow=False)
            self.frame.draw(hand.front[pose], x, y, angle=angle)

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


def _within(segment: Segment, time: float, part: tuple[float, float]) -> bool:
    return part[0] <= (time - segment.start) / (segment.stop - segment.start) < part[1]


def _openness(door: str, world: World, segment: Segment | None, time: float) -> float:
    """From 0 (shut) to 1; it changes while a hand is on the handle."""
    if segment is None or segment.step.item != door:
        return float(door in world.on)
    t = (time - segment.start) / (segment.stop - segment.start)
    t = min(max((t - SWING[0]) / (SWING[1] - SWING[0]), 0.0), 1.0)
    t = t * t * (3 - 2 * t)
    return t if segment.verb == "open" else 1.0 - t
