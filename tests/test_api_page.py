"""docs/reference/api.md: it names everything that is public. Its examples run in test_docs.py."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import horst
from horst.models import hub, registry

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"


def test_examples_in_docstrings_run() -> None:
    for module in (hub, registry):
        failed, tried = doctest.testmod(module)
        assert tried
        assert not failed


def test_every_public_name_is_there() -> None:
    text = PAGE.read_text()
    missing = [name for name in horst.__all__ if name != "__version__" and not re.search(rf"\b{name}\b", text)]
    assert not missing
    for name in horst.__all__:
        assert getattr(horst, name) is not None
    assert {"from_pretrained", "save_pretrained", "push_to_hub", "reset_classifier"} <= set(dir(horst.Predictor))
