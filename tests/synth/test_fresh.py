"""Fresh clips are all for validation; the training set gives the prior and the tail classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from horst.configs import find_config
from horst.configs.run_file import read_run
from horst.data.clips import ClipConfig
from horst.data.source import open_source
from horst.evaluation.measure import prior
from horst.synth import kitchen
from horst.synth.fresh import KITCHEN, Fresh, fresh_kitchen


@pytest.fixture(scope="module", autouse=True)
def short_videos() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("horst.synth.kitchen.videos.DURATION", (30.0, 40.0))
        patch.setattr("horst.data.jobs.available_cores", lambda: 1)
        yield


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    return fresh_kitchen(tmp_path_factory.mktemp("fresh") / "kitchen", videos=4, seed=5, size=(32, 48))


def test_all_are_for_validation(fresh: Fresh) -> None:
    made = open_source(fresh.data)
    assert set(made.annotations.counts()) == {"train", "val"}
    val = fresh.annotations.split("val").examples
    assert [example.id for example in val] == [example.id for example in made.annotations.examples]
    clip = ClipConfig(size=(32, 48), mode="strict")
    for mine, theirs in zip(val[::9], made.annotations.examples[::9], strict=True):
        found = made.read(theirs, clip)
        np.testing.assert_array_equal(fresh.clip(mine, clip).times, found.times)


def test_the_prior_is_that_of_the_training_set(fresh: Fresh) -> None:
    """The training set of the config; its videos are planned, not rendered."""
    data = read_run(find_config("kitchen/gpu"))["data"]
    assert (data["videos"], data.get("seed", 0)) == KITCHEN
    plan = [spec for spec in kitchen.plan(*KITCHEN) if spec.split == "train"]
    seen = Counter((s.verb, s.noun) for spec in plan for s in spec.segments)
    assert fresh.annotations.counts()["train"] == seen.total()
    often = {kitchen.action_id(*pair) for pair, _ in seen.most_common(5)}
    val = fresh.annotations.split("val").examples
    expected = np.mean([example.labels["action"] in often for example in val])
    assert prior(fresh.annotations, "val")["action/top5"] == pytest.approx(expected)


def test_tail_classes_are_rare_in_training(fresh: Fresh) -> None:
    train, val = (fresh.annotations.split(name).examples for name in ("train", "val"))
    verbs = Counter(example.labels["verb"] for example in train)
    rare = {verb for verb in range(len(kitchen.VERBS)) if verbs[verb] < 0.01 * len(train)}
    assert rare
    assert fresh.annotations.example_sets["tail verb"] == {e.id for e in val if e.labels["verb"] in rare}
    assert fresh.annotations.example_sets["tail action"] >= fresh.annotations.example_sets["tail verb"]
