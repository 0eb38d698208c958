"""Names that people choose: a label is any line of text and never a path; a model's name becomes one, and is plain."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import Path

from horst.errors import InputError

LONGEST_LABEL = 80
"""Characters."""
MODEL_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,46}[A-Za-z0-9])?")
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
"""What Windows takes for devices in every folder."""
UNPRINTED = ("Cc", "Cs", "Cn", "Zl", "Zp")
"""Kinds of characters that no label holds: control characters and line breaks, halves of pairs, what means nothing."""


def check_label(label: str) -> str:
    """The label as it is kept: one line without spaces around it, in the one of its spellings that Unicode composes."""
    if not isinstance(label, str):
        raise InputError(f"the label is a {type(label).__name__}; text is needed")
    kept = unicodedata.normalize("NFC", label).strip()
    if not kept or len(kept) > LONGEST_LABEL:
        raise InputError(f"the label has {len(kept)} characters; 1 to {LONGEST_LABEL} are needed")
    strange = [c for c in kept if unicodedata.category(c) in UNPRINTED]
    if strange:
        raise InputError(f"the label holds the character U+{ord(strange[0]):04X}; one line of printed text is needed")
    if not any(unicodedata.category(c)[0] in "LNSP" for c in kept):
        raise InputError("the label shows nothing; text is needed")
    return kept


def label_folder(label: str) -> str:
    """The name of a label's folder: a digest, so that no text leads anywhere and no two file systems disagree."""
    return hashlib.sha256(label.encode()).hexdigest()[:16]


def check_model_name(name: str, taken: list[str]) -> str:
    """A name that is a folder's on every system and nobody else's; `taken`: those of the package's models."""
    if not isinstance(name, str) or not MODEL_NAME.fullmatch(name):
        raise InputError(
            f"the model's name is {name!r}; 1 to 48 letters, digits, - and _ are needed, a letter or digit at both ends"
        )
    if name.lower() in DEVICES or name.lower() in taken:
        raise InputError(f"the name {name!r} is taken: choose another one for the model")
    return name


def taught_models(folder: Path) -> list[str]:
    """The names of the models that were taught into a folder."""
    if not folder.is_dir():
        return []
    there = (entry.name for entry in folder.iterdir() if (entry / "config.json").is_file())
    return sorted(name for name in there if MODEL_NAME.fullmatch(name))
