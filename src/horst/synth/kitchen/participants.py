"""The participants: how each works, and how each one's kitchen, hands and things look."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from horst.synth.kitchen.agent import Habits
from horst.synth.render.raster import RGB, blur
from horst.synth.render.textures import (
    Colour,
    Texture,
    checks,
    plain,
    plaster,
    stripes,
    tiles,
    tinted,
    value_noise,
    wood,
)

SEEN = ("P01", "P02", "P03", "P04", "P05", "P06", "P07", "P08")
UNSEEN = ("P09", "P10", "P11")
"""Participants of validation videos only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The colours and materials of one participant's kitchen."""

    wall: tuple[Texture, Colour]
    counter: tuple[Texture, Colour]
    cabinet: Colour
    fridge: Colour
    board: Colour
    plate: Colour
    cup: Colour
    pan: Colour
    kettle: Colour
    cloth: tuple[Texture, Colour]
    skin: Colour
    sleeve: Colour
    mirror: float = 1.0
    """-1 where the kitchen is the other way round: the fridge on the right."""
    light: Colour = (1.0, 1.0, 1.0)
    """What the lamps do to each of the three channels."""


def granite(rng: np.random.Generator, height: int, width: int, colour: Colour) -> RGB:
    """A stone worktop: fine dark and light grains over faint clouds."""
    grain = blur(rng.random((height, width), dtype=np.float32), 1)
    clouds = value_noise(rng, height, width, 7.0, 3)
    spots = (grain > np.quantile(grain, 0.93)) * np.float32(0.28) - (grain < np.quantile(grain, 0.08)) * np.float32(
        0.34
    )
    return tinted(colour, (0.90 + 0.16 * clouds + blur(spots.astype(np.float32), 1) * 1.6).astype(np.float32))


_HABITS = {
    "P01": Habits(basin=0.9, one_by_one=0.2, closes=0.8, tidy=0.8, rinses=0.7, switches=0.3),
    "P02": Habits(basin=0.1, one_by_one=0.8, closes=0.4, tidy=0.3, rinses=0.5, switches=0.7),
    "P03": Habits(basin=0.2, one_by_one=0.3, closes=0.7, tidy=0.6, rinses=0.8, switches=0.5),
    "P04": Habits(basin=0.8, one_by_one=0.7, closes=0.5, tidy=0.4, rinses=0.3, switches=0.6),
    "P05": Habits(basin=0.1, one_by_one=0.5, closes=0.9, tidy=0.9, rinses=0.6, switches=0.4),
    "P06": Habits(basin=0.7, one_by_one=0.9, closes=0.3, tidy=0.2, rinses=0.9, switches=0.5),
    "P07": Habits(basin=0.3, one_by_one=0.4, closes=0.6, tidy=0.5, rinses=0.2, switches=0.8),
    "P08": Habits(basin=0.5, one_by_one=0.6, closes=0.7, tidy=0.7, rinses=0.5, switches=0.3),
    "P09": Habits(basin=0.6, one_by_one=0.5, closes=0.6, tidy=0.6, rinses=0.6, switches=0.5),
    "P10": Habits(basin=0.2, one_by_one=0.3, closes=0.8, tidy=0.4, rinses=0.7, switches=0.6),
    "P11": Habits(basin=0.8, one_by_one=0.8, closes=0.4, tidy=0.7, rinses=0.4, switches=0.4),
}

_OAK, _WALNUT, _BEECH = (0.74, 0.55, 0.35), (0.50, 0.33, 0.20), (0.86, 0.72, 0.52)
_WHITE, _CREAM, _STEEL, _INK = (0.93, 0.92, 0.90), (0.93, 0.88, 0.76), (0.70, 0.72, 0.74), (0.17, 0.18, 0.21)
_FAIR, _LIGHT, _TAN = (0.95, 0.78, 0.67), (0.89, 0.69, 0.55), (0.78, 0.57, 0.42)
_BROWN, _DARK, _DEEP = (0.62, 0.43, 0.31), (0.45, 0.30, 0.22), (0.33, 0.22, 0.17)

_LOOKS = {
    "P01": Look(
        wall=(tiles, (0.80, 0.86, 0.86)), counter=(wood, _OAK), cabinet=(0.36, 0.50, 0.47), fridge=_WHITE, board=_BEECH,
        plate=_WHITE, cup=(0.83, 0.24, 0.20), pan=_INK, kettle=_STEEL, cloth=(checks, (0.78, 0.20, 0.20)),
        skin=_LIGHT, sleeve=(0.22, 0.36, 0.62),
    ),
    "P02": Look(
        wall=(plaster, (0.90, 0.83, 0.70)), counter=(granite, (0.46, 0.47, 0.50)), cabinet=_CREAM, fridge=_STEEL,
        board=_WALNUT, plate=(0.62, 0.76, 0.86), cup=(0.95, 0.78, 0.25), pan=(0.62, 0.16, 0.14),
        kettle=(0.86, 0.84, 0.80), cloth=(stripes, (0.20, 0.42, 0.68)),
        skin=_DARK, sleeve=(0.88, 0.87, 0.82), light=(1.04, 1.0, 0.93),
    ),
    "P03": Look(
        wall=(tiles, (0.90, 0.89, 0.84)), counter=(plain, (0.86, 0.85, 0.83)), cabinet=(0.24, 0.33, 0.46),
        fridge=_WHITE, board=_OAK, plate=(0.88, 0.86, 0.80), cup=(0.16, 0.52, 0.56), pan=_STEEL, kettle=_INK,
        cloth=(stripes, (0.35, 0.58, 0.36)), skin=_TAN, sleeve=(0.25, 0.25, 0.28), mirror=-1.0,
    ),
    "P04": Look(
        wall=(plaster, (0.62, 0.72, 0.62)), counter=(wood, _BEECH), cabinet=_WHITE, fridge=(0.55, 0.75, 0.72),
        board=_WALNUT, plate=(0.93, 0.66, 0.55), cup=(0.90, 0.88, 0.84), pan=_INK, kettle=(0.75, 0.22, 0.18),
        cloth=(checks, (0.86, 0.62, 0.20)), skin=_FAIR, sleeve=(0.70, 0.25, 0.22), light=(1.03, 1.0, 0.95),
    ),
    "P05": Look(
        wall=(tiles, (0.58, 0.68, 0.78)), counter=(granite, (0.72, 0.69, 0.64)), cabinet=_OAK, fridge=_STEEL,
        board=_BEECH, plate=_WHITE, cup=(0.22, 0.34, 0.66), pan=(0.25, 0.34, 0.30), kettle=_WHITE,
        cloth=(plain, (0.84, 0.80, 0.70)), skin=_DEEP, sleeve=(0.93, 0.72, 0.20), light=(0.97, 1.0, 1.04),
    ),
    "P06": Look(
        wall=(plain, (0.86, 0.74, 0.68)), counter=(plain, (0.34, 0.35, 0.38)), cabinet=(0.72, 0.45, 0.36),
        fridge=_CREAM, board=_OAK, plate=(0.86, 0.86, 0.62), cup=(0.45, 0.62, 0.34), pan=_STEEL, kettle=_STEEL,
        cloth=(checks, (0.28, 0.52, 0.56)), skin=_LIGHT, sleeve=(0.38, 0.56, 0.42), mirror=-1.0,
    ),
    "P07": Look(
        wall=(tiles, (0.92, 0.92, 0.93)), counter=(wood, _WALNUT), cabinet=(0.82, 0.82, 0.80),
        fridge=(0.24, 0.26, 0.29), board=_BEECH, plate=(0.45, 0.52, 0.60), cup=_WHITE,
        pan=(0.78, 0.44, 0.18), kettle=(0.30, 0.44, 0.56),
        cloth=(stripes, (0.75, 0.30, 0.42)), skin=_BROWN, sleeve=(0.55, 0.60, 0.66), light=(0.96, 1.0, 1.03),
    ),
    "P08": Look(
        wall=(plaster, (0.78, 0.76, 0.84)), counter=(tiles, (0.80, 0.74, 0.64)), cabinet=(0.52, 0.60, 0.40),
        fridge=_WHITE, board=_OAK, plate=_WHITE, cup=(0.92, 0.54, 0.18), pan=_INK, kettle=(0.62, 0.70, 0.45),
        cloth=(plain, (0.36, 0.44, 0.66)), skin=_FAIR, sleeve=(0.46, 0.28, 0.50),
    ),
    "P09": Look(
        wall=(stripes, (0.80, 0.70, 0.52)), counter=(plain, (0.55, 0.30, 0.24)), cabinet=(0.92, 0.84, 0.56),
        fridge=(0.80, 0.30, 0.26), board=(0.93, 0.92, 0.90), plate=(0.28, 0.56, 0.50), cup=(0.66, 0.36, 0.60),
        pan=(0.88, 0.84, 0.74), kettle=(0.90, 0.70, 0.20), cloth=(checks, (0.42, 0.30, 0.62)),
        skin=_TAN, sleeve=(0.16, 0.50, 0.50), light=(1.04, 0.99, 0.92),
    ),
    "P10": Look(
        wall=(plain, (0.42, 0.56, 0.60)), counter=(granite, (0.72, 0.62, 0.52)), cabinet=(0.30, 0.22, 0.18),
        fridge=(0.62, 0.70, 0.82), board=(0.40, 0.52, 0.40), plate=(0.94, 0.84, 0.48), cup=(0.20, 0.20, 0.22),
        pan=(0.30, 0.48, 0.66), kettle=(0.84, 0.56, 0.48), cloth=(plain, (0.90, 0.46, 0.30)),
        skin=_DARK, sleeve=(0.84, 0.44, 0.56), mirror=-1.0, light=(0.95, 1.0, 1.05),
    ),
    "P11": Look(
        wall=(wood, (0.80, 0.70, 0.58)), counter=(granite, (0.24, 0.34, 0.32)), cabinet=(0.60, 0.24, 0.24),
        fridge=(0.42, 0.46, 0.42), board=(0.20, 0.20, 0.22), plate=(0.80, 0.60, 0.74), cup=(0.62, 0.80, 0.72),
        pan=(0.52, 0.34, 0.46), kettle=(0.36, 0.24, 0.20), cloth=(stripes, (0.20, 0.26, 0.34)),
        skin=_BROWN, sleeve=(0.93, 0.92, 0.90), light=(1.0, 1.0, 0.97),
    ),
}  # fmt: skip


def habits_of(participant: str) -> Habits:
    return _HABITS[participant]


def look_of(participant: str) -> Look:
    return _LOOKS[participant]
