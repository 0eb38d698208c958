"""`somethings`: early recognition in the spirit of Something-Something v2, rendered in numpy alone.

`plan` says what a data set holds, `render` turns one entry into pixels. A clip shows a hand that does one of
`TEMPLATES` to objects on a table. What is there at the start knows nothing of the template (see somethings_scene), so
the class is told by what happens, not by what is there; in about a third of the clips a cloth hides the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from horst.synth.render.hands import Hand, make_hand, reach_angle
from horst.synth.render.raster import Camera, Canvas, Frame, Sensor, Sprite
from horst.synth.somethings import actions as acts
from horst.synth.somethings.animation import Place, Script, State, on_screen, smooth
from horst.synth.somethings.background import Room, draw_room, make_occluder, make_room
from horst.synth.somethings.props import make_object
from horst.synth.somethings.scene import SHELF_Y, Occluder, ground, magnification, sample_scene

FPS = 12

_ACTS: dict[str, acts.Act] = {
    "Moving [something] up": acts.move_up,
    "Moving [something] down": acts.move_down,
    "Pushing [something] from left to right": acts.push_left_to_right,
    "Pushing [something] from right to left": acts.push_right_to_left,
    "Moving [something] closer": acts.move_closer,
    "Moving [something] away": acts.move_away,
    "Turning [something] clockwise": acts.turn_clockwise,
    "Turning [something] counterclockwise": acts.turn_counterclockwise,
    "Dropping [something]": acts.drop,
    "Lifting [something] up and putting it back": acts.lift_and_return,
    "Throwing [something] up and catching it": acts.throw,
    "Rolling [something] to the left": acts.roll_left,
    "Rolling [something] to the right": acts.roll_right,
    "Covering [something] with [something]": acts.cover,
    "Uncovering [something] by lifting [something]": acts.uncover,
    "Putting [something] on [something]": acts.put_on,
    "Putting [something] next to [something]": acts.put_next_to,
    "Pretending to put [something] on [something]": acts.pretend_to_put_on,
    "Hiding [something] behind [something]": acts.hide_behind,
    "Pushing [something] so that it falls off the table": acts.fall_off,
    "Pushing [something] so that it almost falls off but doesn't": acts.almost_fall_off,
    "Picking [something] up": acts.pick_up,
    "Pretending to pick [something] up": acts.pretend_to_pick_up,
    "Swapping [something] and [something]": acts.swap,
}

TEMPLATES: tuple[str, ...] = tuple(_ACTS)
"""What can happen; the index of a template is its class."""
LABELS: dict[str, int] = {template: index for index, template in enumerate(TEMPLATES)}
MIRROR: dict[str, str] = {template: template for template in TEMPLATES}
"""What a template becomes when the picture is flipped left to right."""
for _one, _other in (
    ("Pushing [something] from left to right", "Pushing [something] from right to left"),
    ("Turning [something] clockwise", "Turning [something] counterclockwise"),
    ("Rolling [something] to the left", "Rolling [something] to the right"),
):
    MIRROR[_one], MIRROR[_other] = _other, _one

# ids look like those of SSv2; multiplying by a number prime to the modulus makes them unique and unordered
_IDS, _STRIDE = 999_983, 618_043


@dataclass(frozen=True, slots=True)
class ClipSpec:
    """One clip of a data set: all that `render` needs, and what the label file says about it."""

    id: str
    split: str
    """ "train" or "val"."""
    template: str
    placeholders: tuple[str, ...]
    """The objects' names in the order of the template, for instance ("red cup", "blue box")."""
    label: str
    """The template with its placeholders filled in."""
    seed: int


def plan(clips: int, seed: int, *, val_fraction: float = 0.2, templates: Sequence[str] | None = None) -> list[ClipSpec]:
    """The clips of a data set: classes balanced in each split; a smaller set is the beginning of a larger one."""
    chosen = tuple(templates or TEMPLATES)
    unknown = [name for name in chosen if name not in _ACTS]
    if unknown:
        raise ValueError(f"unknown templates {unknown}: choose from horst.synth.somethings.TEMPLATES")
    if clips < 0 or not 0.0 <= val_fraction <= 1.0:
        raise ValueError(f"clips={clips} must not be negative and val_fraction={val_fraction} must lie in [0, 1]")
    phases = np.random.default_rng([seed, 1]).random(len(chosen))
    return [_entry(index, seed, chosen, val_fraction, phases) for index in range(clips)]


def _entry(
    index: int, seed: int, templates: tuple[str, ...], val_fraction: float, phases: np.typing.NDArray[np.float64]
) -> ClipSpec:
    # every block of clips holds each template once, in an order of its own
    block, within = divmod(index, len(templates))
    which = int(np.random.default_rng([seed, 2, block]).permutation(len(templates))[within])
    before = block * val_fraction + phases[which]
    split = "val" if math.floor(before + val_fraction) > math.floor(before) else "train"
    clip_seed = int(np.random.default_rng([seed, 3, index]).integers(2**62))
    names = _names(templates[which], clip_seed)
    identity = index // _IDS * _IDS + index % _IDS * _STRIDE % _IDS + 1
    return ClipSpec(str(identity), split, templates[which], names, _filled(templates[which], names), clip_seed)


def _names(template: str, seed: int) -> tuple[str, ...]:
    script, items = _write(template, seed)
    return tuple(script.scene.items[item].name for item in items)


def _filled(template: str, names: tuple[str, ...]) -> str:
    for name in names:
        template = template.replace("[something]", name, 1)
    return template


def _write(template: str, seed: int) -> tuple[Script, tuple[int, ...]]:
    """The script of a clip and the objects that its label names."""
    script = Script(sample_scene(seed), np.random.default_rng([seed, 1]))
    return script, _ACTS[template](script)


def render(spec: ClipSpec, *, size: int | tuple[int, int] = 112, fractions: Sequence[float] | None = None) -> Frame:
    """The frames (T, H, W, 3) of a clip at `FPS`; `size` is the side of a square, or (height, width).

    With `fractions` only the frames there: 0 is the first, 1 the last, with the very pixels that they have in the clip.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 16:
        raise ValueError(f"size={size}: nothing can be seen below 16 pixels")
    script, _ = _write(spec.template, spec.seed)
    last = script.scene.frames - 1
    frames = range(last + 1) if fractions is None else [round(last * fraction) for fraction in fractions]
    return _Shoot(script, height, width).film(frames)


class _Shoot:
    """A clip being rendered: its sprites, made once, and the canvas every frame is drawn on."""

    def __init__(self, script: Script, height: int, width: int) -> None:
        self.script, self.scene = script, script.scene
        self.rng = np.random.default_rng(self.scene.seed)
        self.canvas = Canvas(height, width)
        texels = 2.0 * self.canvas.unit
        self.room: Room = make_room(self.rng, height, width)
        self.hand: Hand = make_hand(self.rng, 1.5 * self.canvas.unit, size=float(self.rng.uniform(1.0, 1.2)))
        self.cloth: Sprite | None = make_occluder(self.rng, self.canvas.unit) if self.scene.occluder else None
        # decoys are props like the others, but always in the same place
        self.props = self.scene.items + self.scene.decoys
        self.decoys = tuple(Place(item.x, item.depth, item.lift, item.angle) for item in self.scene.decoys)
        self.sprites = [make_object(self.rng, i.kind, i.colour, texels, size=i.size) for i in self.props]
        warm = float(self.rng.uniform(-0.06, 0.06))
        self.sensor = Sensor(
            self.rng,
            height,
            width,
            noise=float(self.rng.uniform(0.006, 0.02)),
            vignette=float(self.rng.uniform(0.1, 0.4)),
            tint=(1.0 + warm, 1.0, 1.0 - warm),
        )

    def film(self, indices: Sequence[int]) -> Frame:
        cameras, gains = _camera_path(self.rng, self.scene.frames), _light(self.rng, self.scene.frames)
        soften = float(self.rng.uniform(0.0, 0.4))
        states = self.script.timeline(FPS)
        frames = []
        for index in indices:
            self.canvas.camera = cameras[index]
            self._draw(states[index], index / (len(states) - 1))
            # noise of its own for each frame, so that a frame is the same whichever others are asked for
            noise = np.random.default_rng([self.scene.seed, index])
            frames.append(self.sensor.expose(noise, self.canvas.pixels, gain=gains[index], soften=soften))
        return np.stack(frames)

    def _draw(self, state: State, time: float) -> None:
        draw_room(self.canvas, self.room, time)
        places = state.places + self.decoys
        shown = [prop for prop, place in enumerate(places) if place.shown]
        for prop in shown:
            self._shadow(prop, places[prop])
        grasp = state.hand.grasp
        # a held object goes over all others, with its hand, unless it is brought behind them
        held = grasp.item if grasp is not None and state.hand.pose == "grip" else None
        over = grasp is not None and not grasp.behind
        for prop in sorted(shown, key=lambda i: (i == held and over, places[i].depth)):
            if prop == held:
                self._draw_hand(state, "back")
            x, y = on_screen(self.props[prop], places[prop])
            scale = magnification(places[prop].depth)
            self.canvas.draw(self.sprites[prop], x, y, angle=places[prop].angle, scale=scale)
            if prop == held:
                self._draw_hand(state, "front")
        if held is None:
            self._draw_hand(state, "back")
            if state.hand.pose == "grip":
                self._draw_hand(state, "front")
        if self.scene.occluder is not None and self.cloth is not None:
            _draw_occluder(self.canvas, self.cloth, self.scene.occluder, time)

    def _draw_hand(self, state: State, layer: str) -> None:
        x, y = self.script.hand_point(state)
        angle = reach_angle((x, y), self.scene.shoulder) + state.hand.turn
        scale = 0.75 + 0.35 * magnification((y - ground(0.0)) / (ground(1.0) - ground(0.0)))
        self.hand.draw(self.canvas, "back" if layer == "back" else "front", state.hand.pose, x, y, angle, scale)

    def _shadow(self, prop: int, place: Place) -> None:
        item, scale = self.props[prop], magnification(place.depth)
        width = 2 * scale * item.rise(place.angle + math.pi / 2)
        if place.lift == ground(0.0) - SHELF_Y:
            self.canvas.shadow(place.x, SHELF_Y, width * 1.05, 0.016, 0.45)
        elif place.lift >= 0.0:
            far = math.exp(-place.lift / 0.12)
            spread = 1.15 + 1.2 * place.lift
            self.canvas.shadow(place.x + 0.012, ground(place.depth), width * spread, 0.05 * spread, 0.1 + 0.38 * far)


def _camera_path(rng: np.random.Generator, frames: int) -> list[Camera]:
    """A slow pan and zoom, and the tremble of a hand that holds the camera (no roll: upright layers draw fast)."""
    pan, start = rng.uniform(-0.05, 0.05, size=2), rng.uniform(-0.015, 0.015, size=2)
    zoom = rng.uniform(1.0, 1.1, size=2)
    tremble = rng.normal(0.0, float(rng.uniform(0.0005, 0.004)), size=(frames + 2, 2))
    tremble = (tremble[:-2] + tremble[1:-1] + tremble[2:]) / 2
    path = []
    for index in range(frames):
        t = index / (frames - 1)
        x, y = (float(start[k] + pan[k] * (t - 0.5) + tremble[index, k]) for k in (0, 1))
        path.append(Camera(0.5 + x, 0.5 + y, float(zoom[0] + (zoom[1] - zoom[0]) * t)))
    return path


def _light(rng: np.random.Generator, frames: int) -> list[float]:
    base, swing, rate = (float(rng.uniform(a, b)) for a, b in ((0.85, 1.12), (0.0, 0.05), (0.2, 1.2)))
    flicker = rng.normal(0.0, float(rng.uniform(0.0, 0.012)), size=frames)
    return [base * (1.0 + swing * math.sin(rate * index) + float(flicker[index])) for index in range(frames)]


def _draw_occluder(canvas: Canvas, cloth: Sprite, occluder: Occluder, time: float) -> None:
    """In within 15 % of the clip; one that does not stay goes on at the same pace, out on the other side."""
    progress = (time - occluder.start) / 0.15
    if progress <= 0.0:
        return
    away = 1.0 - smooth(min(progress, 1.0)) if occluder.stays else 1.0 - progress
    dx, dy = {"left": (-1, 0), "right": (1, 0), "top": (0, -1), "bottom": (0, 1)}[occluder.side]
    reach = 1.3 * max(canvas.width, canvas.height) / canvas.unit
    canvas.draw(cloth, occluder.middle[0] + dx * away * reach, occluder.middle[1] + dy * away * reach)
