"""Planning and rendering the clips of `somethings`, with their backgrounds.

`plan` lists the clips of a data set, `render` turns one of them into pixels. A clip shows a hand that performs one of
`TEMPLATES` on objects on a table. The start does not depend on the template (see `scene`), so only the motion reveals
the class. In about a third of the clips a cloth hides the end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from horst.synth.render import textures as tx
from horst.synth.render.hands import Pose, make_hand, reach_angle
from horst.synth.render.raster import Camera, FrameBuffer, Rng, Sensor, ShapeCanvas, Sprite, blur, ease, resample
from horst.synth.render.textures import choose
from horst.synth.somethings import scene
from horst.synth.somethings.actions import ACTIONS, ActionAnimation
from horst.synth.somethings.props import PROPS, kinds, make_prop
from horst.video.frame import Image

FPS = 12
TEMPLATES: tuple[str, ...] = tuple(ACTIONS)  # the actions; the index of a template is its class
LABELS = {template: index for index, template in enumerate(TEMPLATES)}
_FLIPPED = {"left": "right", "right": "left", "clockwise": "counterclockwise", "counterclockwise": "clockwise"}
# the template after the image is flipped left to right
MIRROR = {template: " ".join(_FLIPPED.get(word, word) for word in template.split()) for template in TEMPLATES}

# ids look like those of SSv2: multiplying by a number coprime to the modulus keeps them unique and shuffles them
_IDS, _STRIDE = 999_983, 618_043
_MARGIN = 0.16  # of the background around the view, in scene units
_DRIFT = 0.16  # of the wall, at most
_NEAR, _FAR = 1.14, -0.16  # depths of the table's edges


@dataclass(frozen=True, slots=True)
class ClipSpec:
    """One clip of a data set: what `render` needs, and its entry in the label file."""

    id: str
    split: str  # "train" or "val"
    template: str
    placeholders: tuple[str, ...]  # the objects' names in the order of the template: ("red cup", "blue box")
    label: str  # the template with its placeholders filled in
    seed: int


def plan(clips: int, seed: int, *, val_fraction: float = 0.2, templates: Sequence[str] | None = None) -> list[ClipSpec]:
    """The clips of a data set, classes balanced in each split. A smaller set is a prefix of a larger one."""
    chosen = tuple(templates or TEMPLATES)
    unknown = [name for name in chosen if name not in ACTIONS]
    if unknown:
        raise ValueError(f"unknown templates {unknown}: choose from horst.synth.somethings.TEMPLATES")
    if clips < 0 or not 0.0 <= val_fraction <= 1.0:
        raise ValueError(f"clips={clips} must not be negative and val_fraction={val_fraction} must lie in [0, 1]")
    phases = np.random.default_rng([seed, 1]).random(len(chosen))
    specs = []
    for index in range(clips):
        # every block of clips holds each template once, in random order
        block, within = divmod(index, len(chosen))
        which = int(np.random.default_rng([seed, 2, block]).permutation(len(chosen))[within])
        before = block * val_fraction + phases[which]
        split = "val" if math.floor(before + val_fraction) > math.floor(before) else "train"
        clip_seed = int(np.random.default_rng([seed, 3, index]).integers(2**62))
        number = index // _IDS * _IDS + index % _IDS * _STRIDE % _IDS + 1
        template = label = chosen[which]
        animation = _animate(template, clip_seed)
        names = tuple(animation.objects[item].name for item in animation.named)
        for name in names:
            label = label.replace("[something]", name, 1)
        specs.append(ClipSpec(str(number), split, template, names, label, clip_seed))
    return specs


def _animate(template: str, seed: int) -> ActionAnimation:
    animation = ActionAnimation(scene.sample_scene(seed), np.random.default_rng([seed, 1]))
    ACTIONS[template](animation)
    return animation


def render(spec: ClipSpec, *, size: int | tuple[int, int] = 112, fractions: Sequence[float] | None = None) -> Image:
    """The frames (T, H, W, 3) of a clip at `FPS`; `size` is the side of a square, or (height, width).

    `fractions` selects frames: 0 is the first, 1 the last. They have the same pixels as in the whole clip.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 16:
        raise ValueError(f"size={size}: at least 16 pixels each way are needed")
    animation = _animate(spec.template, spec.seed)
    last = animation.scene.frames - 1
    indices = range(last + 1) if fractions is None else [round(last * fraction) for fraction in fractions]
    renderer = _ClipRenderer(animation, height, width)
    return np.stack([renderer.render(index) for index in indices])


class _ClipRenderer:
    """Renders one clip: its sprites, made once, and the frame buffer for all frames."""

    def __init__(self, animation: scene.Animation, height: int, width: int) -> None:
        self.animation, self.scene = animation, animation.scene
        rng, count = np.random.default_rng(self.scene.seed), self.scene.frames
        self.frame = FrameBuffer(height, width)
        unit = self.frame.unit
        # the background is slightly out of focus: few texels suffice
        coarse, wide, tall = 1.15 * unit, width / unit + 2 * _MARGIN, height / unit + 2 * _MARGIN
        drifting = rng.random() < 0.6
        turn, speed = rng.uniform(0, 2 * math.pi), rng.uniform(0.03, _DRIFT) if drifting else 0.0
        self.drift = (speed * math.cos(turn), speed * math.sin(turn))  # of the wall during the clip, in scene units
        self.passerby = _random_prop(rng, coarse, (0.6, 1.3)) if rng.random() < 0.55 else None
        side = 1.0 if rng.random() < 0.5 else -1.0
        self.start = (0.5 - side * rng.uniform(0.1, 0.8), rng.uniform(0.2, 0.55))  # of the passer-by
        self.way = (side * rng.uniform(0.3, 1.0), rng.uniform(-0.15, 0.15))
        self.wall = _wall(rng, wide + 2 * _DRIFT, tall + 2 * _DRIFT, coarse)
        self.floor = _floor(rng, wide, tall, coarse)
        self.hand = make_hand(rng, 1.5 * unit, rng.uniform(1.0, 1.2))
        self.cloth = make_occluder(rng, unit) if self.scene.occluder else None
        # distractors are drawn like the other objects, but never move
        self.objects = self.scene.objects + self.scene.distractors
        self.sprites = [make_prop(rng, o.kind, o.colour, 2.0 * unit, o.size) for o in self.objects]
        warm = rng.uniform(-0.06, 0.06)
        noise, vignette, tint = rng.uniform(0.006, 0.02), rng.uniform(0.1, 0.4), (1.0 + warm, 1.0, 1.0 - warm)
        self.sensor = Sensor(rng, height, width, noise=noise, vignette=vignette, tint=tint)
        self.cameras = _camera_path(rng, count)
        base, swing, rate = (rng.uniform(a, b) for a, b in ((0.85, 1.12), (0.0, 0.05), (0.2, 1.2)))
        flicker = rng.normal(0.0, rng.uniform(0.0, 0.012), size=count)
        self.gains = [base * (1.0 + swing * math.sin(rate * i) + float(flicker[i])) for i in range(count)]
        self.soften = rng.uniform(0.0, 0.4)
        self.states = animation.timeline(FPS)

    def render(self, index: int) -> Image:
        self.frame.camera = self.cameras[index]
        self._draw(self.states[index], index / (len(self.states) - 1))
        # each frame has its own noise seed, so that it does not depend on which other frames are rendered
        noise = np.random.default_rng([self.scene.seed, index])
        return self.sensor.expose(noise, self.frame.pixels, gain=self.gains[index], soften=self.soften)

    def _draw(self, state: scene.SceneState, time: float) -> None:
        # the wall is far away: it follows half of the camera's motion
        middle = zip(self.frame.camera[:2], self.drift, strict=True)
        self.frame.draw(self.wall, *(0.5 + 0.5 * (at - 0.5) + drift * (time - 0.5) for at, drift in middle))
        if self.passerby is not None:
            (x, y), (dx, dy) = self.start, self.way
            sway = 0.01 * math.sin(14.0 * time)
            self.frame.draw(self.passerby, x + dx * time, y + dy * time + sway, angle=2.0 * dx * time)
        self.frame.draw(self.floor, 0.5, 0.5)
        places = state.places + tuple(o.start for o in self.scene.distractors)
        shown = [index for index, place in enumerate(places) if place.shown]
        for index in shown:
            place = places[index]
            width = 2 * place.scale * self.objects[index].rise(place.angle + math.pi / 2)
            if place.lift == scene.SHELF_LIFT:
                self.frame.shadow(place.x, scene.SHELF_Y, width * 1.05, 0.016, 0.45)
            elif place.lift >= 0.0:
                spread, strength = 1.15 + 1.2 * place.lift, 0.1 + 0.38 * math.exp(-place.lift / 0.12)
                y = scene.ground(place.depth)
                self.frame.shadow(place.x + 0.012, y, width * spread, 0.05 * spread, strength)
        # a held object and its hand are in front of all others, unless moved behind them
        held = state.hand.target if state.hand.pose == "grip" else None
        for index in sorted(shown, key=lambda i: (i == held and not state.hand.behind, places[i].depth)):
            if index == held:
                self._draw_hand(state, self.hand.back)
            place = places[index]
            x, y = self.objects[index].centre(place)
            self.frame.draw(self.sprites[index], x, y, angle=place.angle, scale=place.scale)
            if index == held:
                self._draw_hand(state, self.hand.front)
        if held is None:
            for layer in self.hand if state.hand.pose == "grip" else self.hand[:1]:
                self._draw_hand(state, layer)
        occluder = self.scene.occluder
        if occluder and self.cloth and time > occluder.start:
            # it enters within 15% of the clip; one that does not stay leaves at the same speed on the other side
            progress = (time - occluder.start) / 0.15
            away = 1.0 - ease(min(progress, 1.0)) if occluder.stays else 1.0 - progress
            (x, y), (dx, dy) = occluder.centre, occluder.side
            reach = 1.3 * max(self.frame.width, self.frame.height) / self.frame.unit
            self.frame.draw(self.cloth, x + dx * away * reach, y + dy * away * reach)

    def _draw_hand(self, state: scene.SceneState, layer: dict[Pose, Sprite]) -> None:
        x, y = self.animation.hand_point(state)
        angle = reach_angle((x, y), self.scene.shoulder) + state.hand.turn
        scale = 0.75 + 0.35 * scene.magnification((y - scene.ground(0.0)) / (scene.ground(1.0) - scene.ground(0.0)))
        self.frame.draw(layer[state.hand.pose], x, y, angle=angle, scale=scale)


def _camera_path(rng: Rng, frames: int) -> list[Camera]:
    """A slow pan and zoom with the tremble of a hand-held camera (no roll: upright layers are drawn fast)."""
    pan, start = rng.uniform(-0.05, 0.05, size=2), rng.uniform(-0.015, 0.015, size=2)
    zoom = rng.uniform(1.0, 1.1, size=2)
    tremble = rng.normal(0.0, rng.uniform(0.0005, 0.004), size=(frames + 2, 2))
    tremble = (tremble[:-2] + tremble[1:-1] + tremble[2:]) / 2
    t = np.arange(frames) / (frames - 1)
    points = 0.5 + (start + pan * (t[:, None] - 0.5) + tremble)
    zooms = zoom[0] + (zoom[1] - zoom[0]) * t
    return [Camera(x, y, z) for (x, y), z in zip(points.tolist(), zooms.tolist(), strict=True)]


def make_occluder(rng: Rng, texels: float) -> Sprite:
    """A hanging cloth close to the camera, out of focus."""
    width, height = rng.uniform(0.85, 1.05), rng.uniform(0.75, 0.95)
    canvas = ShapeCanvas(width, height, texels * 0.5, margin=0.08)
    colour = tx.vary(rng, tx.choose_colour(rng), 0.08)
    folds = 0.82 + 0.18 * np.sin(canvas.x * rng.uniform(14, 30) + 3.0 * canvas.y + rng.uniform(0, 6.28))
    paint = tx.choose_texture(rng, canvas.h, canvas.w, colour)
    wave = 0.02 * np.sin(canvas.x * 13.0)
    canvas.fill(canvas.box(0, 0, width, height, 0.08) + wave, paint, folds)
    canvas.rgba = blur(canvas.rgba, max(round(texels * 0.012), 1))
    return canvas.sprite()


def _wall(rng: Rng, width: float, height: float, texels: float) -> Sprite:
    h, w = math.ceil(height * texels), math.ceil(width * texels)
    colour = tx.vary(rng, choose(rng, tx.WALLS), 0.08)
    layer = FrameBuffer(h, w)
    layer.camera = Camera(zoom=texels / layer.unit)
    layer.pixels[:] = tx.texture(choose(rng, tx.WALLPAPERS), rng, h, w, colour)
    for _ in range(int(rng.integers(1, 5))):
        wide, tall = rng.uniform(0.14, 0.34), rng.uniform(0.14, 0.32)
        poster = ShapeCanvas(wide, tall, texels)
        frame = tx.shade(choose(rng, tx.WOODS), rng.uniform(0.5, 1.4))
        poster.solid(poster.box(0, 0, wide, tall, 0.006), frame, 0.012, 0.0)
        colour, texture = tx.choose_colour(rng), choose(rng, tx.FABRICS)
        image = tx.texture(texture, rng, poster.h, poster.w, tx.vary(rng, colour, 0.1))
        poster.fill(poster.box(0, 0, wide - 0.04, tall - 0.04), image, rng.uniform(0.7, 1.0))
        layer.draw(poster.sprite(), rng.uniform(-0.2, 1.2), rng.uniform(-0.1, 0.5), angle=rng.normal(0, 0.04))
    # the light comes from one side
    fade = np.linspace(1.0, rng.uniform(0.7, 0.9), w, dtype=np.float32)[None, :, None]
    layer.pixels[:] *= fade if rng.random() < 0.5 else fade[:, ::-1]
    layer.pixels[:] = blur(layer.pixels, int(rng.integers(0, 2)))
    return layer.sprite()


def _floor(rng: Rng, width: float, height: float, texels: float) -> Sprite:
    canvas = ShapeCanvas(width, height, texels, margin=0.0)
    y, line = canvas.y + 0.5, rng.uniform(0.60, 0.68)
    texture = choose(rng, ("wood", "tiles", "plaster"))
    colour = tx.vary(rng, tx.shade(choose(rng, tx.WOODS), 0.6), 0.05)
    image = tx.texture(texture, rng, canvas.h, canvas.w, colour)
    canvas.fill(line - y, image, 0.55 + 0.5 * np.clip(y - line, 0, 1))
    canvas.fill(np.maximum(line - 0.025 - y, y - line), (0.86, 0.84, 0.80), 0.75)
    _paint_table(rng, canvas)
    plank = rng.uniform(0.6, 0.8)
    colour, shelf = tx.vary(rng, choose(rng, tx.WOODS), 0.06), scene.SHELF_Y - 0.5
    canvas.fill(canvas.box(0, shelf + 0.028, plank, 0.022), tx.shade(colour, 0.35), 1.0, 0.35)
    canvas.fill(canvas.box(0, shelf, plank, 0.018), tx.shade(colour, 1.1))
    canvas.fill(canvas.box(0, shelf + 0.015, plank, 0.018), tx.shade(colour, 0.7))
    for side in (-0.4, 0.4):
        canvas.fill(canvas.box(side * plank, shelf + 0.045, 0.014, 0.05, 0.004), (0.25, 0.25, 0.27))
    layer = FrameBuffer(canvas.h, canvas.w, alpha=True)
    layer.camera = Camera(zoom=texels / layer.unit)
    layer.pixels[:] = canvas.rgba
    _clutter(rng, layer, plank, texels)
    return layer.sprite()


def _paint_table(rng: Rng, canvas: ShapeCanvas) -> None:
    x, y = canvas.x + 0.5, canvas.y + 0.5
    depth = (y - scene.ground(0.0)) / (scene.ground(1.0) - scene.ground(0.0))
    texture = choose(rng, tx.TABLES)
    named = tx.choose_colour(rng)
    # a cloth is paler than the objects on it, so that they stand out
    colour = choose(rng, tx.WOODS) if texture == "wood" else tx.shade(named, rng.uniform(1.15, 1.5))
    colour = tx.vary(rng, colour, 0.06)
    flat_top = tx.texture(texture, rng, canvas.h, canvas.w, colour)
    # perspective: the far side is narrower
    u = (x - 0.5) / (0.86 + 0.15 * depth) + 0.5
    v = 0.08 + 0.62 * np.log1p(np.maximum(depth - _FAR, 0.0) * 0.9)
    top = resample(flat_top.transpose(2, 0, 1), u * canvas.w, v * canvas.h).transpose(1, 2, 0)
    left, right = ((scene.table_edge(_FAR, s) - 0.5, scene.table_edge(_NEAR, s) - 0.5) for s in (-1, 1))
    back, front = scene.ground(_FAR) - 0.5, scene.ground(_NEAR) - 0.5
    for leg in (left[1] + 0.03, right[1] - 0.03):
        canvas.fill(canvas.box(leg, front + 0.3, 0.045, 0.6), tx.shade(colour, 0.35))
    low = front + 0.035
    apron = canvas.convex((left[1], front), (right[1], front), (right[1] - 0.004, low), (left[1] + 0.004, low))
    canvas.fill(apron, tx.shade(colour, 0.5))
    board = canvas.convex((left[0], back), (right[0], back), (right[1], front), (left[1], front))
    light = 0.80 + 0.22 * np.clip(depth, 0, 1) - 0.12 * (x - 0.5)
    canvas.fill(board, top, light)


def _clutter(rng: Rng, layer: FrameBuffer, plank: float, texels: float) -> None:
    """Small objects that nobody touches: at the ends of the shelf, at the back of the table, on the floor."""
    for _ in range(int(rng.integers(3, 7))):
        sprite = _random_prop(rng, texels, (0.4, 0.7))
        where = int(rng.integers(4))
        if where == 0:
            x, y = 0.5 + (0.5 if rng.random() < 0.5 else -0.5) * (plank - 0.12), scene.SHELF_Y + 0.004
        elif where == 1:
            x, y = float(rng.choice([0.03, 0.97])) + rng.normal(0, 0.02), rng.uniform(0.76, 0.98)
        else:
            x, y = rng.uniform(0.15, 0.85), scene.ground(rng.uniform(-0.13, -0.02))
        layer.shadow(x, y, sprite.width * 1.2, 0.02, 0.3)
        layer.draw(sprite, x, y - sprite.height / 2, light=0.85)


def _random_prop(rng: Rng, texels: float, sizes: tuple[float, float]) -> Sprite:
    kind = str(rng.choice(kinds("roller", "thing")))
    return make_prop(rng, kind, str(rng.choice(list(PROPS[kind].colours))), texels, rng.uniform(*sizes))
