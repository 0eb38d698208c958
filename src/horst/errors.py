"""The typed errors of the package: each message names the value at fault and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HorstError(Exception):
    """Base of every error that the package raises on purpose."""


class InputError(HorstError, ValueError):
    """A tensor, length or argument that a call cannot work with."""


class StateError(HorstError, ValueError):
    """A recurrent state that does not belong to this model, batch, device or dtype."""


class ConfigError(HorstError, ValueError):
    """An option with an unknown name, a wrong type or an impossible value."""


class CheckpointError(HorstError, ValueError):
    """A model folder or weights file that is missing, damaged or of another model."""


class MissingExtraError(HorstError, ImportError):
    """A feature that needs an optional package which is not installed."""


def near(name: str, known: Iterable[str]) -> str:
    """', did you mean a, b?' for the known names closest to `name`; empty when none is close."""
    matches = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f", did you mean {', '.join(map(repr, matches))}?" if matches else ""
