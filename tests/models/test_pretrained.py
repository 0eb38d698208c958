"""The models in the package: small, loadable, and better than guessing on clips that were drawn just now."""

from __future__ import annotations

from pathlib import Path

import pytest

import horst
from horst.data.config import DataConfig
from horst.data.synthetic import somethings
from horst.errors import ConfigError
from horst.evaluation.evaluate import Clips, evaluate
from horst.models import pretrained


def test_they_are_small(root: Path) -> None:
    assert pretrained()
    weights = list((root / "src/horst/assets/models").glob("*/weights.safetensors"))
    assert len(weights) == len(pretrained())
    assert sum(file.stat().st_size for file in weights) <= 6e6


def test_somethings_is_far_above_chance_on_fresh_clips(tmp_path: Path) -> None:
    model = horst.load_pretrained("somethings")
    assert model.labels is not None
    assert model.labels["action"] == [t.replace("[", "").replace("]", "") for t in somethings.TEMPLATES]
    data = {"source": "somethings", "folder": str(tmp_path), "clips": 60, "seed": 77, "clip": {"size": [112, 112]}}
    found = evaluate(model, Clips(DataConfig.from_dict(data)), progress=False)
    chance = 1 / len(somethings.TEMPLATES)
    assert found.counts["examples"] > 8
    assert found.metrics["action/top5@100%"] > 2 * 5 * chance


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(ConfigError, match="did you mean 'somethings'"):
        horst.load_pretrained("something")
