"""Shared by the tests of training."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_runs

from horst.data.config import DataConfig
from horst.data.source import open_source
from horst.models import save
from horst.training.fit import prepare


@pytest.fixture(scope="session")
def somethings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of 24 clips, 20 of them for training; nobody changes it."""
    folder = tmp_path_factory.mktemp("made") / "somethings"
    open_source(DataConfig.from_dict(small_runs.plain(folder)["data"]))
    return folder


@pytest.fixture(scope="session")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of four short videos; nobody changes it."""
    folder = tmp_path_factory.mktemp("made") / "kitchen"
    open_source(DataConfig.from_dict(small_runs.kitchen(folder)["data"]))
    return folder


@pytest.fixture(scope="session")
def saved(somethings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model with the labels of `somethings`."""
    _, module = prepare(small_runs.config(somethings, seed=7))
    return save(module.model, tmp_path_factory.mktemp("saved") / "model")
