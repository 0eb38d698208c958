"""Planning and rendering the clips of `somethings`.

`plan` lists the clips of a data set, `render` turns one of them into pixels. A clip shows a hand that performs one of
`TEMPLATES` on objects on a table. The start does not depend on the template (see `scene`), so only the motion reveals
the class. In about a third of the clips a cloth hides the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from horst.synth.render.hands import Pose, make_hand, reach_angle
from horst.synth.render.raster import Camera, FrameBuffer, Sensor, Sprite
from horst.synth.render.textures import Rng, uniform
from horst.synth.somethings.actions import ACTIONS, MIRRORED
from horst.synth.somethings.animation import Animation, SceneState, smooth
from horst.synth.somethings.background import draw_background, make_background, make_occluder
from horst.synth.somethings.props import make_prop
from horst.synth.somethings.scene import SHELF_LIFT, SHELF_Y, Occluder, Placement, ground, magnification, sample_scene
from horst.video.frame import Image

FPS = 12
TEMPLATES: tuple[str, ...] = tuple(ACTIONS)  # the actions; the index of a template is its class
LABELS: dict[str, int] = {template: index for index, template in enumerate(TEMPLATES)}
MIRROR: dict[str, str] = {template: template for template in TEMPLATES}
"""The template after the image is flipped left to right."""
MIRROR |= {one: other for pair in MIRRORED for one, other in (pair, pair[::-1])}

# ids look like those of SSv2: multiplying by a number coprime to the modulus keeps them unique and shuffles them
_IDS, _STRIDE = 999_983, 618_043


@dataclass(frozen=True, slots=True)
class ClipSpec:
    """One clip of a data set: what `render` needs, and its entry in the label file."""

    id: str
    split: str  # "train" or "val"
    template: str
    placeholders: tuple[str, ...]
    """The objects' names in the order of the template, for instance ("red cup", "blue box")."""
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
        animation, named = _animate(template, clip_seed)
        names = tuple(animation.object(item).name for item in named)
        for name in names:
            label = label.replace("[something]", name, 1)
        specs.append(ClipSpec(str(number), split, template, names, label, clip_seed))
    return specs


def _animate(template: str, seed: int) -> tuple[Animation, tuple[int, ...]]:
    """The animation of a clip and the objects that its label names."""
    animation = Animation(sample_scene(seed), np.random.default_rng([seed, 1]))
    return animation, ACTIONS[template](animation)


def render(spec: ClipSpec, *, size: int | tuple[int, int] = 112, fractions: Sequence[float] | None = None) -> Image:
    """The frames (T, H, W, 3) of a clip at `FPS`; `size` is the side of a square, or (height, width).

    `fractions` selects frames: 0 is the first, 1 the last. They have the same pixels as in the whole clip.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 16:
        raise ValueError(f"size={size}: at least 16 pixels each way are needed")
    animation, _ = _animate(spec.template, spec.seed)
    last = animation.scene.frames - 1
    frames = range(last + 1) if fractions is None else [round(last * fraction) for fraction in fractions]
    return _ClipRenderer(animation, height, width).frames(frames)


class _ClipRenderer:
    """Renders one clip: its sprites, made once, and the frame buffer for all frames."""

    def __init__(self, animation: Animation, height: int, width: int) -> None:
        self.animation, self.scene = animation, animation.scene
        self.rng = rng = np.random.default_rng(self.scene.seed)
        self.frame = FrameBuffer(height, width)
        unit = self.frame.unit
        self.background = make_background(rng, height, width)
        self.hand = make_hand(rng, 1.5 * unit, uniform(rng, 1.0, 1.2))
        self.cloth = make_occluder(rng, unit) if self.scene.occluder else None
        # distractors are drawn like the other objects, but never move
        self.objects = self.scene.objects + self.scene.distractors
        self.sprites = [make_prop(rng, o.kind, o.colour, 2.0 * unit, o.size) for o in self.objects]
        warm = uniform(rng, -0.06, 0.06)
        noise, vignette, tint = uniform(rng, 0.006, 0.02), uniform(rng, 0.1, 0.4), (1.0 + warm, 1.0, 1.0 - warm)
        self.sensor = Sensor(rng, height, width, noise=noise, vignette=vignette, tint=tint)

    def frames(self, indices: Sequence[int]) -> Image:
        cameras, gains = _camera_path(self.rng, self.scene.frames), _light(self.rng, self.scene.frames)
        soften = uniform(self.rng, 0.0, 0.4)
        states = self.animation.timeline(FPS)
        frames = []
        for index in indices:
            self.frame.camera = cameras[index]
            self._draw(states[index], index / (len(states) - 1))
            # each frame has its own noise seed, so that it does not depend on which other frames are rendered
            noise = np.random.default_rng([self.scene.seed, index])
            frames.append(self.sensor.expose(noise, self.frame.pixels, gain=gains[index], soften=soften))
        return np.stack(frames)

    def _draw(self, state: SceneState, time: float) -> None:
        draw_background(self.frame, self.background, time)
        places = state.places + tuple(o.start for o in self.scene.distractors)
        shown = [index for index, place in enumerate(places) if place.shown]
        for index in shown:
            self._shadow(index, places[index])
        grasp = state.hand.grasp
        # a held object and its hand are in front of all others, unless moved behind them
        held = grasp.target if grasp is not None and state.hand.pose == "grip" else None
        over = grasp is not None and not grasp.behind
        for index in sorted(shown, key=lambda i: (i == held and over, places[i].depth)):
            if index == held:
                self._draw_hand(state, self.hand.back)
            place = places[index]
            x, y = self.objects[index].centre(place)
            self.frame.draw(self.sprites[index], x, y, angle=place.angle, scale=magnification(place.depth))
            if index == held:
                self._draw_hand(state, self.hand.front)
        if held is None:
            self._draw_hand(state, self.hand.back)
            if state.hand.pose == "grip":
                self._draw_hand(state, self.hand.front)
        if self.scene.occluder is not None and self.cloth is not None:
            _draw_occluder(self.frame, self.cloth, self.scene.occluder, time)

    def _draw_hand(self, state: SceneState, layer: dict[Pose, Sprite]) -> None:
        x, y = self.animation.hand_point(state)
        angle = reach_angle((x, y), self.scene.shoulder) + state.hand.turn
        scale = 0.75 + 0.35 * magnification((y - ground(0.0)) / (ground(1.0) - ground(0.0)))
        self.frame.draw(layer[state.hand.pose], x, y, angle=angle, scale=scale)

    def _shadow(self, index: int, place: Placement) -> None:
        width = 2 * magnification(place.depth) * self.objects[index].rise(place.angle + math.pi / 2)
        if place.lift == SHELF_LIFT:
            self.frame.shadow(place.x, SHELF_Y, width * 1.05, 0.016, 0.45)
        elif place.lift >= 0.0:
            far = math.exp(-place.lift / 0.12)
            spread = 1.15 + 1.2 * place.lift
            self.frame.shadow(place.x + 0.012, ground(place.depth), width * spread, 0.05 * spread, 0.1 + 0.38 * far)


def _camera_path(rng: Rng, frames: int) -> list[Camera]:
    """A slow pan and zoom with the tremble of a hand-held camera (no roll: upright layers are drawn fast)."""
    pan, start = rng.uniform(-0.05, 0.05, size=2), rng.uniform(-0.015, 0.015, size=2)
    zoom = rng.uniform(1.0, 1.1, size=2)
    tremble = rng.normal(0.0, uniform(rng, 0.0005, 0.004), size=(frames + 2, 2))
    tremble = (tremble[:-2] + tremble[1:-1] + tremble[2:]) / 2
    path = []
    for index in range(frames):
        t = index / (frames - 1)
        x, y = (float(start[k] + pan[k] * (t - 0.5) + tremble[index, k]) for k in (0, 1))
        path.append(Camera(0.5 + x, 0.5 + y, float(zoom[0] + (zoom[1] - zoom[0]) * t)))
    return path


def _light(rng: Rng, frames: int) -> list[float]:
    base, swing, rate = (uniform(rng, a, b) for a, b in ((0.85, 1.12), (0.0, 0.05), (0.2, 1.2)))
    flicker = rng.normal(0.0, uniform(rng, 0.0, 0.012), size=frames)
    return [base * (1.0 + swing * math.sin(rate * index) + float(flicker[index])) for index in range(frames)]


def _draw_occluder(frame: FrameBuffer, cloth: Sprite, occluder: Occluder, time: float) -> None:
    """It enters within 15% of the clip; one that does not stay leaves at the same speed on the other side."""
    progress = (time - occluder.start) / 0.15
    if progress <= 0.0:
        return
    away = 1.0 - smooth(min(progress, 1.0)) if occluder.stays else 1.0 - progress
    dx, dy = {"left": (-1, 0), "right": (1, 0), "top": (0, -1), "bottom": (0, 1)}[occluder.side]
    reach = 1.3 * max(frame.width, frame.height) / frame.unit
    frame.draw(cloth, occluder.centre[0] + dx * away * reach, occluder.centre[1] + dy * away * reach)
