"""When a run is kept: every few minutes, after whole steps only, and by all processes together; epochs as they end."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import small_runs
import torch
from hypothesis import given
from hypothesis import strategies as st

from horst.evaluation.measure import is_better
from horst.training.callbacks import AveragedWeights, CompletionCallback
from horst.training.checkpoints import SAVE_EVERY, SYNC_EVERY, CheckpointCallback, metrics_csv
from horst.training.fit import prepare, train
from horst.training.run import Run


def kept_after(batches: int, accumulate: int, processes: int, minutes: float) -> list[int]:
    """The batches of an epoch after which a checkpoint is written."""
    config = small_runs.config("made", trainer={"accumulate": accumulate})
    strategy = SimpleNamespace(broadcast=lambda due: due)
    trainer: Any = SimpleNamespace(world_size=processes, num_training_batches=batches, strategy=strategy)
    module: Any = SimpleNamespace(run=config)
    callback = CheckpointCallback(Run(Path("nowhere")), AveragedWeights(None), minutes=minutes)
    callback._saved -= 1
    return [n for n in range(1, batches + 1) if callback._is_checkpoint_due(trainer, module, n)]


@given(batches=st.integers(1, 200), accumulate=st.integers(1, 30), processes=st.integers(1, 3), minutes=st.just(0.0))
def test_a_checkpoint_is_of_a_whole_step(batches: int, accumulate: int, processes: int, minutes: float) -> None:
    """Gradients that are waiting for others would be lost. After the last batch the epoch's own follows."""
    steps = 1 if processes == 1 else SYNC_EVERY
    assert kept_after(batches, accumulate, processes, minutes) == list(
        range(accumulate * steps, batches, accumulate * steps)
    )


def test_no_checkpoint_before_its_time() -> None:
    assert kept_after(100, 1, 1, minutes=10) == []


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("epoch", "found", "seconds", "minutes", "kept"),
    [
        (3, {}, 0.0, 10.0, False),
        (3, {}, SAVE_EVERY + 1, 10.0, True),
        (3, {}, 0.0, 0.0, True),
        (3, {"area": 0.5}, 0.0, 10.0, True),
        (9, {}, 0.0, 10.0, True),
    ],
)
def test_which_epochs_are_kept(
    epoch: int, found: dict[str, float], seconds: float, minutes: float, kept: bool, processes: int
) -> None:
    """What was measured, the end, and others from time to time, as the first process says."""
    callback = CheckpointCallback(Run(Path("nowhere")), AveragedWeights(None), minutes=minutes)
    callback._saved -= seconds
    strategy = SimpleNamespace(broadcast=lambda due: due)
    trainer: Any = SimpleNamespace(world_size=processes, current_epoch=epoch, max_epochs=10, strategy=strategy)
    module: Any = SimpleNamespace(metrics=found)
    assert callback._is_saved(trainer, module) is kept


def test_a_run_ends_the_same_whatever_was_kept_on_its_way(
    somethings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_runs.config(somethings, trainer={"epochs": 3, "validate_every": 0, "ema": 0.9})
    checkpoint = CheckpointCallback._checkpoint
    runs, written = [], []
    for every in (0.0, 1e9):
        count: list[int] = []
        monkeypatch.setattr("horst.training.checkpoints.SAVE_EVERY", every)
        monkeypatch.setattr(
            CheckpointCallback,
            "_checkpoint",
            lambda self, trainer, count=count: (count.append(1), checkpoint(self, trainer)),
        )
        runs.append(train(config, tmp_path / str(every), console=small_runs.silent()))
        written.append(len(count))
    assert written == [3, 1]
    one, other = runs
    assert small_runs.metrics(one.folder) == small_runs.metrics(other.folder)
    for which in ("best", "last"):
        small_runs.assert_same(*(small_runs.weights(run.folder / which) for run in runs))
    states = [torch.load(run.checkpoint, weights_only=True)["state_dict"] for run in runs]
    small_runs.assert_same(*states)


def test_an_epoch_without_a_number_is_never_the_best() -> None:
    assert not is_better("area", math.nan, None)
    assert not is_better("area", math.nan, 0.1)
    assert not is_better("area", None, None)
    assert is_better("area", 0.0, None)
    assert not is_better("area", 0.5, 0.5)  # the first of equal ones stays
    assert is_better("area", 0.6, 0.5)


def test_the_lowest_edit_distance_is_the_best() -> None:
    for metric in ("action/ed@4", "action/ed@4/greedy"):
        assert is_better(metric, 0.5, 0.6)
        assert not is_better(metric, 0.6, 0.5)
        assert not is_better(metric, 0.5, 0.5)
        assert not is_better(metric, math.nan, 0.5)


def test_columns_that_an_epoch_does_not_have_are_empty() -> None:
    text = metrics_csv([{"epoch": 0, "loss": 0.1234567}, {"epoch": 1, "loss": 2.0, "val/area": 0.5}])
    assert text.splitlines() == ["epoch,loss,val/area", "0,0.123457,", "1,2,0.5"]


def test_state_is_plain_data(tmp_path: Path) -> None:
    callback = CheckpointCallback(Run(tmp_path), AveragedWeights(None), minutes=1)
    callback.history, callback.best, callback._sums = [{"epoch": 0}], 0.5, {"loss": 1.5, "batches": 3}
    other = CheckpointCallback(Run(tmp_path), AveragedWeights(None), minutes=1)
    other.load_state_dict(callback.state_dict())
    assert (other.history, other.best, other._sums) == (callback.history, 0.5, {"loss": 1.5, "batches": 3.0})
    assert other.state_dict() == callback.state_dict()


def test_checkpoints_of_earlier_versions_restore_their_callbacks(somethings: Path) -> None:
    _, module = prepare(small_runs.config(somethings))
    states = {"Keeper": {"best": 0.5}, "Averages": {}, "Completion": {}, "Other": {}}
    checkpoint: dict[str, Any] = {"callbacks": states}
    module.on_load_checkpoint(checkpoint)
    callbacks = (CheckpointCallback, AveragedWeights, CompletionCallback)
    assert list(checkpoint["callbacks"]) == [*(callback.__name__ for callback in callbacks), "Other"]
    assert checkpoint["callbacks"]["CheckpointCallback"] == {"best": 0.5}
