"""Shared by the tests of data sets."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_sets
from hypothesis import settings

# A busy machine makes an example slow, which says nothing of the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """See `small_sets.write`; nobody changes it."""
    return small_sets.write(tmp_path_factory.mktemp("clips"))
