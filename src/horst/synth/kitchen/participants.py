"""The participants: how each works, and how each one's kitchen, hands and objects look."""

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from horst.synth.render.raster import Colour

SEEN = ("P01", "P02", "P03", "P04", "P05", "P06", "P07", "P08")
UNSEEN = ("P09", "P10", "P11")  # participants of validation videos only


class Habits(NamedTuple):
    """Probabilities that distinguish one participant's way of working from another's."""

    basin: float  # washes up in a filled sink and dries each dish at once; otherwise under the running tap
    one_by_one: float  # finishes one vegetable or dish before the next one
    closes: float  # closes a door right after taking something out
    tidy: float  # puts objects back where they belong rather than down
    rinses: float  # washes vegetables
    switches: float  # changes to another recipe where there is a choice


class Appearance(NamedTuple):
    """The colours and materials of one participant's kitchen."""

    wall: tuple[str, Colour]  # the texture and its colour
    counter: tuple[str, Colour]
    cloth: tuple[str, Colour]
    cabinet: Colour
    fridge: Colour
    board: Colour
    plate: Colour
    cup: Colour
    pan: Colour
    kettle: Colour
    skin: Colour
    sleeve: Colour
    light: Colour = (1.0, 1.0, 1.0)  # the gain of the lamps in each channel
    mirror: float = 1.0  # -1 for a mirrored kitchen, with the fridge on the right


def _load() -> tuple[dict[str, Habits], dict[str, Appearance]]:
    data = yaml.safe_load(Path(__file__).with_name("participants.yaml").read_text())

    def read(value: Any) -> Any:
        """A number, a colour by name or as RGB, or a texture with its colour."""
        if isinstance(value, str):
            value = data["colours"][value]
        if isinstance(value, list) and isinstance(value[0], str):
            return value[0], read(value[1])
        return tuple(value) if isinstance(value, list) else value

    habits = {name: Habits(**person.pop("habits")) for name, person in data["participants"].items()}
    looks = {name: {k: read(v) for k, v in person.items()} for name, person in data["participants"].items()}
    return habits, {name: Appearance(**look) for name, look in looks.items()}


HABITS, APPEARANCES = _load()
