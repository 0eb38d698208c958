"""Drawing what stands in the kitchen: objects in their state, what is inside of them, doors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from horst.synth.kitchen.motion import Stage
from horst.synth.kitchen.participants import Look
from horst.synth.kitchen.props import (
    KINDS,
    RAW,
    paint_dirt,
    paint_liquid,
    paint_pieces,
    paint_scraps,
    paint_stream,
    paint_thing,
)
from horst.synth.kitchen.room import (
    BURNER,
    CUPBOARD,
    CUPBOARD_SIZE,
    FRIDGE,
    FRIDGE_SIZE,
    SINK,
    SPOTS,
    TAP,
    door_sprite,
    foam_sprite,
    hot_sprite,
    puff_sprite,
    tap_sprite,
    water_sprite,
)
from horst.synth.kitchen.world import DOORS, HOME, VEGETABLES, World, noun_of
from horst.synth.render.hands import Hand, make_hand
from horst.synth.render.raster import Canvas, Sprite

FOODS = (*VEGETABLES, "pasta", "egg")
LIQUIDS = ("tea", "milk", "water", "oil")
POURED = {"kettle": "water", "milk": "milk", "oil": "oil", "pasta": "pasta"}
"""What runs out of the objects that can be poured from."""
SURFACE = {"cup": (0.066, 0.034), "pan": (0.18, 0.13), "plate": (0.09, 0.055)}
"""Width and height of what a vessel holds."""
_FILL_AT = {"cup": (-0.008, -0.028), "pan": (0.0, 0.010), "plate": (0.0, 0.0)}
_FLAT = ("plate", "pan", "carrot", "cloth", "sponge")


@dataclass(frozen=True, slots=True, eq=False)
class Sprites:
    """Everything that is drawn more than once, painted once a video."""

    things: dict[str, Sprite]
    pieces: dict[str, Sprite]
    scraps: dict[str, Sprite]
    liquids: dict[tuple[str, str], Sprite]
    streams: dict[str, Sprite]
    doors: dict[str, Sprite]
    fixed: dict[str, Sprite]
    hands: tuple[Hand, Hand]
    """The right one, the left one."""


def paint_sprites(look: Look, seed: int, texels: float) -> Sprites:
    rng = np.random.default_rng([seed, 1])
    return Sprites(
        things={name: paint_thing(name, look, rng, texels) for name in KINDS},
        pieces={noun: paint_pieces(noun, rng, texels) for noun in FOODS},
        scraps={noun: paint_scraps(noun, rng, texels) for noun in ("onion", "carrot", "egg", "tea")},
        liquids={(v, n): paint_liquid(RAW[n], *SURFACE[v], texels) for v in SURFACE for n in LIQUIDS},
        streams={noun: paint_stream(RAW[food], texels) for noun, food in POURED.items()},
        doors={door: door_sprite(look, door, texels) for door in DOORS},
        fixed={
            "tap": tap_sprite(texels), "water": water_sprite(texels), "hot": hot_sprite(texels),
            "foam": foam_sprite(rng, texels), "puff": puff_sprite(texels), "dirt": paint_dirt(rng, texels),
        },
        # the same generator twice: both sleeves are of the same cloth
        hands=(_hand(look, seed, texels, left=False), _hand(look, seed, texels, left=True)),
    )  # fmt: skip


def _hand(look: Look, seed: int, texels: float, *, left: bool) -> Hand:
    rng = np.random.default_rng([seed, 2])
    return make_hand(rng, texels, skin=look.skin, sleeve=look.sleeve, left=left, size=1.2)


def draw_standing(
    canvas: Canvas, sprites: Sprites, stage: Stage, world: World, swing: Mapping[str, float], lifted: str
) -> None:
    """All that rests, on top of the room; `lifted` is the waste that is just being carried to the bin."""
    if "hob" in world.on:
        canvas.draw(sprites.fixed["hot"], *stage.point(BURNER))
    if world.basin:
        canvas.draw(sprites.fixed["foam"], *stage.point(SINK))
    behind = {door: world.at(door) for door in DOORS}
    for door, items in behind.items():
        if swing[door] > 0.0:
            for item in sorted(items, key=lambda i: -HOME[i].slot):
                draw_item(canvas, sprites, world, item, *stage.where(world, item), shadow=False)
    _draw_doors(canvas, sprites, stage, swing)
    # the box of tea never leaves the shelf: what is taken is a bag
    canvas.draw(sprites.things["tea"], *stage.point(SPOTS["shelf"][1]))
    for item in _by_depth(stage, world):
        draw_item(canvas, sprites, world, item, *stage.where(world, item))
    for noun in world.waste[: len(world.waste) - (lifted in world.waste)]:
        if noun != "tea":
            canvas.draw(sprites.scraps[noun], *stage.scraps(world, noun))
    canvas.draw(sprites.fixed["tap"], *stage.point(TAP))


def _by_depth(stage: Stage, world: World) -> list[str]:
    """The objects that stand in the open, far ones first."""
    hidden = ("hand", "gone", *DOORS)
    items = [item for item, spot in world.where.items() if spot.place not in hidden and noun_of(item) != "tea"]
    return sorted(items, key=lambda item: stage.where(world, item)[1])


def _draw_doors(canvas: Canvas, sprites: Sprites, stage: Stage, swing: Mapping[str, float]) -> None:
    for door, (x, y), width in (
        ("fridge", FRIDGE, -FRIDGE_SIZE[0] / 2),
        ("cupboard", CUPBOARD, CUPBOARD_SIZE[0] / 2),
    ):
        shut = 1.0 - 0.84 * swing[door]
        hinge = stage.point((x + width, y))
        canvas.draw(sprites.doors[door], *hinge, stretch=(shut, 1.0), light=1.0 - 0.25 * swing[door])


def draw_item(
    canvas: Canvas,
    sprites: Sprites,
    world: World,
    item: str,
    x: float,
    y: float,
    *,
    tilt: float = 0.0,
    shadow: bool = True,
) -> None:
    """An object in its state, with what is inside of it."""
    noun = noun_of(item)
    form = world.form.get(item, "")
    name = f"peeled {noun}" if form == "peeled" else noun
    if noun == "tea":
        name = "tea bag"
    kind = KINDS[name]
    if shadow:
        low = 0.3 * kind.height if noun in _FLAT or form == "cut" else 0.42 * kind.height
        canvas.shadow(x + 0.008, y + low, 0.62 * kind.width if noun == "pan" else kind.width, 0.04, 0.38, 0.7)
    if form == "cut":
        canvas.draw(sprites.pieces[noun], x, y, angle=tilt)
        return
    canvas.draw(sprites.things[name], x, y, angle=tilt)
    if noun in SURFACE:
        _draw_inside(canvas, sprites, world, item, x, y)


def _draw_inside(canvas: Canvas, sprites: Sprites, world: World, vessel: str, x: float, y: float) -> None:
    noun, inside = noun_of(vessel), world.contents(vessel)
    dx, dy = _FILL_AT[noun]
    if vessel in world.dirty and not inside and noun != "cup":
        canvas.draw(sprites.fixed["dirt"], x + dx, y + dy)
    wet = [food for food in inside if food in LIQUIDS]
    if wet:
        opacity = 0.45 if wet == ["oil"] else 0.95
        canvas.draw(
            sprites.liquids[noun, "tea" if "tea" in wet and "water" in wet else wet[0]], x + dx, y + dy, opacity=opacity
        )
    if "milk" in wet and len(wet) > 1:
        canvas.draw(sprites.liquids[noun, "milk"], x + dx, y + dy, opacity=0.45)
    if wet == ["tea"]:
        canvas.draw(sprites.things["tea bag"], x + dx + 0.01, y + dy - 0.005, scale=0.7)
    foods = list(dict.fromkeys(food for food in inside if food in FOODS))
    for k, food in enumerate(foods):
        spread = 0.032 * (k - (len(foods) - 1) / 2) * (1.4 if noun == "pan" else 1.0)
        canvas.draw(
            sprites.pieces[food], x + dx + spread, y + dy + 0.3 * abs(spread), scale=1.15 if noun == "pan" else 0.8
        )
