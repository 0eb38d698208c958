"""Names from users. A label may be any line of text and never becomes a path; a model's name becomes a folder."""

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
"""Names of devices on Windows."""
UNPRINTABLE = ("Cc", "Cs", "Cn", "Zl", "Zp")
"""Unicode categories that a label must not have: control characters, surrogates, unassigned, line breaks."""


def check_label(label: str) -> str:
    """The label, stripped and in Unicode's form NFC; InputError unless it is one line of printable text."""
    if not isinstance(label, str):
        raise InputError(f"the label is a {type(label).__name__}; it must be text")
    kept = unicodedata.normalize("NFC", label).strip()
    if not kept or len(kept) > LONGEST_LABEL:
        raise InputError(f"the label has {len(kept)} characters; it must have 1 to {LONGEST_LABEL}")
    strange = [c for c in kept if unicodedata.category(c) in UNPRINTABLE]
    if strange:
        raise InputError(f"the label holds the character U+{ord(strange[0]):04X}; it must be one printable line")
    if not any(unicodedata.category(c)[0] in "LNSP" for c in kept):
        raise InputError("the label has no visible character")
    return kept


def label_folder(label: str) -> str:
    """The folder of a label: a digest, so that no label leads to another folder, on any file system."""
    return hashlib.sha256(label.encode()).hexdigest()[:16]


def check_model_name(name: str, taken: list[str]) -> str:
    """InputError unless it is a valid folder name on every system, and not one of `taken`."""
    if not isinstance(name, str) or not MODEL_NAME.fullmatch(name):
        raise InputError(
            f"the model's name is {name!r}; it takes 1 to 48 letters, digits, - and _, and neither - nor _ at its ends"
        )
    if name.lower() in DEVICES or name.lower() in taken:
        raise InputError(f"the name {name!r} is taken: choose another one for the model")
    return name


def finetuned_models(folder: Path) -> list[str]:
    """Names of the finetuned models in a folder."""
    if not folder.is_dir():
        return []
    there = (entry.name for entry in folder.iterdir() if (entry / "config.json").is_file())
    return sorted(name for name in there if MODEL_NAME.fullmatch(name))
