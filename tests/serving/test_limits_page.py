"""The limits are those that the documentation says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from horst.serving import Limits


def test_the_page_has_every_limit_with_its_default(root: Path) -> None:
    text = (root / "docs" / "guides" / "serving.md").read_text(encoding="utf-8")
    told = {}
    for names, values in re.findall(r"^\| (`[a-z_]+`[^|]*)\| ([^|]*\d[^|]*) \|", text.partition("## Limits")[2], re.M):
        told |= dict(zip(re.findall(r"`([a-z_]+)`", names), values.split(", "), strict=True))
    assert set(told) == {field.name for field in fields(Limits)}
    scales = {"MiB": 1 << 20, "million": 1e6}
    for name, words in told.items():
        number, _, unit = words.partition(" ")
        wanted, is_ = float(number) * scales.get(unit, 1), getattr(Limits(), name)
        assert abs(is_ - wanted) < (0.005 * wanted if unit == "million" else 1e-9), name
    assert Limits().to_dict() == {field.name: getattr(Limits(), field.name) for field in fields(Limits)}
