"""When a run is kept: every few minutes, after whole steps only, and by all processes together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import small_runs
from hypothesis import given
from hypothesis import strategies as st

from horst.training.averages import Averages
from horst.training.keeper import ASK_EVERY, Keeper, _csv
from horst.training.run import Run


def kept_after(batches: int, accumulate: int, processes: int, minutes: float) -> list[int]:
    """The batches of an epoch after which a checkpoint is written."""
    config = small_runs.config("made", trainer={"accumulate": accumulate})
    strategy = SimpleNamespace(broadcast=lambda due: due)
    trainer: Any = SimpleNamespace(world_size=processes, num_training_batches=batches, strategy=strategy)
    module: Any = SimpleNamespace(run=config)
    keeper = Keeper(Run(Path("nowhere")), Averages(None), minutes=minutes)
    keeper._kept -= 1
    return [n for n in range(1, batches + 1) if keeper._is_time(trainer, module, n)]


@given(batches=st.integers(1, 200), accumulate=st.integers(1, 30), processes=st.integers(1, 3), minutes=st.just(0.0))
def test_a_checkpoint_is_of_a_whole_step(batches: int, accumulate: int, processes: int, minutes: float) -> None:
    """Gradients that are waiting for others would be lost. After the last batch the epoch's own follows."""
    steps = 1 if processes == 1 else ASK_EVERY
    assert kept_after(batches, accumulate, processes, minutes) == list(
        range(accumulate * steps, batches, accumulate * steps)
    )


def test_no_checkpoint_before_its_time() -> None:
    assert kept_after(100, 1, 1, minutes=10) == []


def test_columns_that_an_epoch_does_not_have_are_empty() -> None:
    text = _csv([{"epoch": 0, "loss": 0.1234567}, {"epoch": 1, "loss": 2.0, "val/area": 0.5}])
    assert text.splitlines() == ["epoch,loss,val/area", "0,0.123457,", "1,2,0.5"]


def test_state_is_plain_data(tmp_path: Path) -> None:
    keeper = Keeper(Run(tmp_path), Averages(None), minutes=1)
    keeper.history, keeper.best, keeper._sums = [{"epoch": 0}], 0.5, {"loss": 1.5, "batches": 3}
    other = Keeper(Run(tmp_path), Averages(None), minutes=1)
    other.load_state_dict(keeper.state_dict())
    assert (other.history, other.best, other._sums) == (keeper.history, 0.5, {"loss": 1.5, "batches": 3.0})
    assert other.state_dict() == keeper.state_dict()
