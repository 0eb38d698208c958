"""Whole runs of a small model: what goes wrong, what they start from, what they leave behind."""

from __future__ import annotations

import io
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
import yaml
from rich.console import Console

import horst
from horst.config import from_dict
from horst.data.module import lightning
from horst.errors import CheckpointError, ConfigError, DivergedError
from horst.models import create_model
from horst.models.hub import model_folder
from horst.training.build import build_model, initialise
from horst.training.callbacks import CompletionCallback
from horst.training.checkpoints import CheckpointCallback
from horst.training.config import RunConfig
from horst.training.evaluated import open_evaluated
from horst.training.fit import check_validation, create_trainer, prepare, resume, train
from horst.training.module import TrainingModule
from horst.training.network import TrainingNetwork
from horst.training.progress import ProgressCallback
from horst.training.run import processor
from horst.training.speed import resolve

silent = small_runs.silent
SMALL = {"clip": {"size": [16, 24]}}


def poison(monkeypatch: pytest.MonkeyPatch, value: float, *, epoch: int, batch: int, after: bool = False) -> None:
    """One weight becomes `value` before a batch, or after it."""
    hook = "on_train_batch_end" if after else "on_train_batch_start"
    before = getattr(ProgressCallback, hook)

    def put(self: ProgressCallback, trainer: Any, pl_module: TrainingModule, *args: Any) -> None:
        before(self, trainer, pl_module, *args)
        if (trainer.current_epoch, args[-1]) == (epoch, batch):
            pl_module.model.core.cells[0].ff_x[0].weight.data[0, 0, 0, 0] = value

    monkeypatch.setattr(ProgressCallback, hook, put)


def test_a_loss_that_is_not_a_number_stops_the_run(
    somethings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said where; what the epoch before left is whole."""
    poison(monkeypatch, math.nan, epoch=1, batch=2)
    with pytest.raises(DivergedError, match=r"epoch 1, batch 2 \(clips \d+, \d+, \d+, \d+\): lower optimiser.lr"):
        train(small_runs.config(somethings), tmp_path / "run", console=silent())
    for which in ("best", "last"):
        assert all(p.isfinite().all() for p in horst.open_model(tmp_path / "run" / which).parameters())
    assert len(small_runs.metrics(tmp_path / "run")) == 1
    state = torch.load(tmp_path / "run/checkpoint.ckpt", weights_only=True)
    assert state["global_step"] == 5
    assert all(value.isfinite().all() for value in state["state_dict"].values())


@pytest.mark.parametrize("validate_every", [1, 0])
def test_weights_that_are_not_numbers_are_not_saved(
    somethings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validate_every: int
) -> None:
    """The last step of an epoch may make them: no loss tells."""
    poison(monkeypatch, math.inf, epoch=0, batch=4, after=True)
    config = small_runs.config(
        somethings,
        trainer={"validate_every": validate_every},
        optimiser={"name": "adamw", "lookahead": False},
    )
    with pytest.raises(DivergedError, match="not numbers after epoch 0"):
        train(config, tmp_path / "run", console=silent())
    assert not (tmp_path / "run/last").exists()
    with pytest.raises(CheckpointError, match="no best model yet"):
        model_folder(tmp_path / "run")


def test_accumulated_batches_are_one_large_one(somethings: Path, tmp_path: Path) -> None:
    """All clips of an epoch make one step. The loss that is shown is that of a clip either way."""
    found = []
    for accumulate in (1, 2):
        config = small_runs.config(
            somethings,
            model={"options": {**small_runs.TINY, "norm": "none"}},
            batches={"size": 20 // accumulate},
            optimiser={"name": "sgd", "lr": 0.1, "lookahead": False},
            trainer={"accumulate": accumulate},
        )
        run = train(config, tmp_path / str(accumulate), console=silent())
        found.append((small_runs.weights(run.last), small_runs.metrics(run.folder)))
    (one, rows), (two, others) = found
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-4, atol=1e-5)
    for a, b in zip(rows, others, strict=True):
        assert float(b["train/loss"]) == pytest.approx(float(a["train/loss"]), rel=1e-3)
        assert a["step"] == b["step"]


def test_the_learning_rate_falls_to_the_end_of_the_run(somethings: Path, tmp_path: Path) -> None:
    """The steps that the schedule counts are those that are made."""
    for batches, accumulate in (({"size": 3}, 4), ({"size": 3, "drop_last": False}, 1)):
        config = small_runs.config(
            somethings, batches=batches, trainer={"accumulate": accumulate, "epochs": 2}, schedule={"decay": 1.0}
        )
        seen: list[float] = []

        class Watch(lightning.Callback):
            def on_train_batch_end(self, trainer: Any, *args: Any, seen: list[float] = seen) -> None:
                seen.append(trainer.optimizers[0].param_groups[0]["lr"])

        data, module = prepare(config)
        trainer = create_trainer(config, callbacks=[Watch()], validate_every=None)
        trainer.fit(module, data)
        assert trainer.global_step == 2 * module.epoch_steps()
        assert seen[-1] == pytest.approx(0, abs=1e-9)
        assert seen[-2] > 0 or accumulate > 1
        assert seen == sorted(seen, reverse=True)


@pytest.mark.parametrize(("every", "looked"), [(2, [2, 3]), (0, [3]), (1, [1, 2, 3])])
def test_the_last_epoch_is_always_looked_at(somethings: Path, tmp_path: Path, every: int, looked: list[int]) -> None:
    config = small_runs.config(somethings, batches={"size": 20}, trainer={"epochs": 3, "validate_every": every})
    train(config, tmp_path / "run", console=silent())
    rows = small_runs.metrics(tmp_path / "run")
    assert [i + 1 for i, row in enumerate(rows) if row.get("val/area")] == looked


def test_without_validation_clips_the_best_is_the_last(
    somethings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horst.training.fit.ClipDataModule.val_dataloader", lambda self: [])
    run = train(small_runs.config(somethings, batches={"size": 10}), tmp_path / "run", console=silent())
    small_runs.assert_same(small_runs.weights(run.best), small_runs.weights(run.last))


def test_sequence_completion_comes_first(kitchen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And in the middle of it a run can be stopped."""
    plain = small_runs.kitchen(kitchen, data=SMALL, trainer={"completion_epochs": 1, "checkpoint_minutes": 0.0})
    seen: list[bool] = []
    forward = horst.heads.UnrollingHead.forward

    def look(self: Any, **inputs: Any) -> Any:
        if self.training:
            seen.append(inputs["complete"])
        return forward(self, **inputs)

    monkeypatch.setattr(horst.heads.UnrollingHead, "forward", look)
    whole = train(from_dict(RunConfig, plain), tmp_path / "whole", console=silent())
    assert seen == [True] * 3 + [False] * 3
    assert len(small_runs.metrics(whole.folder)) == 2
    assert "val/action/top5@1s" in small_runs.metrics(whole.folder)[1]

    seen.clear()
    stop = TrainingModule.training_step

    def stopped(self: TrainingModule, batch: Any, index: int) -> Any:
        if (self.current_epoch, index) == (0, 2):
            raise InterruptedError
        return stop(self, batch, index)

    monkeypatch.setattr(TrainingModule, "training_step", stopped)
    with pytest.raises(InterruptedError):
        train(from_dict(RunConfig, plain), tmp_path / "stopped", console=silent())
    monkeypatch.setattr(TrainingModule, "training_step", stop)
    resume(tmp_path / "stopped", console=silent())
    assert seen == [True] * 3 + [False] * 3
    small_runs.assert_same(small_runs.weights(tmp_path / "stopped/last"), small_runs.weights(whole.last))


def measured(monkeypatch: pytest.MonkeyPatch, values: dict[str, list[float]]) -> None:
    """What each look at the validation clips is said to find."""
    looks = iter(range(99))

    def found(*args: Any) -> dict[str, float]:
        look = next(looks)
        return {name: by_look[look] for name, by_look in values.items()}

    monkeypatch.setattr("horst.training.module.measure", found)


@pytest.mark.parametrize(
    ("monitor", "said"), [(None, "area 30.0%"), ("action/top1@25%", "action/top1@25% 90.0%")], ids=["protocol", "named"]
)
def test_the_best_epoch_is_that_of_the_monitor(
    monitor: str | None, said: str, somethings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"area": [0.1, 0.3, 0.2], "action/top1@25%": [0.9, 0.1, 0.2]}
    measured(monkeypatch, values)
    text = io.StringIO()
    config = small_runs.config(somethings, batches={"size": 10}, trainer={"epochs": 3, "monitor": monitor})
    saved: list[dict[str, Any]] = []
    keep = CheckpointCallback._checkpoint

    def kept(self: CheckpointCallback, *args: Any) -> None:
        saved.append(small_runs.weights(self.run.last))
        keep(self, *args)

    monkeypatch.setattr(CheckpointCallback, "_checkpoint", kept)
    run = train(config, tmp_path / "run", console=Console(file=text, width=200))
    name = monitor or "area"
    assert f"best epoch by validation {name}" in text.getvalue().splitlines()[5]
    assert RunConfig.from_file(run.config).trainer.precision == "32-true"  # what `auto` was
    assert f"best {said}" in text.getvalue()
    best = values[name].index(max(values[name]))
    small_runs.assert_same(small_runs.weights(run.best), saved[best])
    assert any(not torch.equal(saved[0][name], saved[1][name]) for name in saved[0])


def test_a_run_goes_on_from_the_best_epoch_of_completion(
    kitchen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a new optimiser; and the best epoch is one of those after completion."""
    measured(monkeypatch, {"action/top5@1s": [0.9, 0.8, 0.5, 0.4]})
    options = {"name": "sgd", "lr": 0.1, "lookahead": False}
    trainer = {"epochs": 4, "completion_epochs": 2}
    config = from_dict(RunConfig, small_runs.kitchen(kitchen, data=SMALL, trainer=trainer, optimiser=options))
    begins: dict[int, tuple[dict[str, Any], int]] = {}
    ends: dict[int, dict[str, Any]] = {}
    step = TrainingModule.training_step

    def weights(module: TrainingModule) -> dict[str, Any]:
        return {name: p.detach().clone() for name, p in module.network.named_parameters()}

    def look(self: TrainingModule, batch: Any, index: int) -> Any:
        if index == 0:
            begins[self.current_epoch] = weights(self), len(self.trainer.optimizers[0].state)
        return step(self, batch, index)

    def end(self: CompletionCallback, trainer: Any, module: Any) -> None:
        ends[trainer.current_epoch] = weights(module)
        finish(self, trainer, module)

    finish = CompletionCallback.on_train_epoch_end
    monkeypatch.setattr(CompletionCallback, "on_train_epoch_end", end)
    monkeypatch.setattr(TrainingModule, "training_step", look)
    text = io.StringIO()
    train(config, tmp_path / "run", console=Console(file=text, width=200))
    small_runs.assert_same(begins[1][0], ends[0])
    small_runs.assert_same(begins[2][0], ends[0])  # not ends[1]
    small_runs.assert_same(begins[3][0], ends[2])
    assert [begins[epoch][1] > 0 for epoch in range(4)] == [False, True, False, True]
    assert "best action/top5@1s 50.0%" in text.getvalue()


def test_a_run_of_before_goes_on_as_it_did(tmp_path: Path) -> None:
    """Options that it did not have keep what was done then; those that it says are kept."""
    plain = small_runs.plain(tmp_path, loss={"steps": "last"})
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(plain))
    found, new = RunConfig.from_file(file, resumed=True), RunConfig.from_file(file)
    assert (found.loss.times, found.optimiser.rectify, found.trainer.completion_from) == ("mean", False, "last")
    assert (new.loss.times, new.optimiser.rectify, new.trainer.completion_from) == ("sum", True, "best")
    file.write_text(new.to_yaml())
    assert RunConfig.from_file(file, resumed=True) == RunConfig.from_file(file)


def test_a_run_starts_from_another(somethings: Path, saved: Path, tmp_path: Path) -> None:
    """With its head where the labels are the same, and with a head of its own where they are not."""
    given = small_runs.weights(saved)
    config = small_runs.config(somethings, model={"init": str(saved)})
    _, module = prepare(config)
    small_runs.assert_same(dict(module.model.state_dict()), given)

    other = create_model("horst_tiny", **small_runs.TINY, num_classes=24, size=(32, 32), fps=4)
    other.labels = {"action": [f"action {i}" for i in range(24)]}
    fresh = {name: value.clone() for name, value in other.head.state_dict().items()}
    assert not initialise(other, saved)
    for part, weights in ((other.backbone, "backbone."), (other.core, "core.")):
        small_runs.assert_same(
            dict(part.state_dict()), {n.removeprefix(weights): v for n, v in given.items() if n.startswith(weights)}
        )
    small_runs.assert_same(dict(other.head.state_dict()), fresh)


def test_a_run_starts_from_the_backbone_of_another(somethings: Path, saved: Path) -> None:
    given = small_runs.weights(saved)
    options = {**small_runs.TINY, "order": 2}  # another core
    _, module = prepare(small_runs.config(somethings, model={"init_backbone": str(saved), "options": options}))
    _, fresh = prepare(small_runs.config(somethings, model={"options": options}))
    found, random = dict(module.model.state_dict()), dict(fresh.model.state_dict())
    small_runs.assert_same(found, {n: given[n] if n.startswith("backbone.") else v for n, v in random.items()})
    wider = {**small_runs.TINY, "backbone": {"name": "stem", "widths": [8, 16]}}
    config = small_runs.config(somethings, model={"init_backbone": str(saved), "options": wider})
    with pytest.raises(CheckpointError, match="another backbone"):
        prepare(config)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"order": 2}, "another core: order is 3 there and 2 here"),
        ({"hidden": [16, 8]}, r"another core: hidden is \(16, 16\) there and \(16, 8\) here"),
        ({"backbone": {"name": "stem", "widths": [8, 16]}}, "another backbone: options"),
    ],
)
def test_a_run_cannot_start_from_another_model(
    somethings: Path, saved: Path, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    options = {**small_runs.TINY, **change}
    with pytest.raises(CheckpointError, match=says):
        train(small_runs.config(somethings, model={"init": str(saved), "options": options}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_needs_nothing_that_it_started_from(somethings: Path, saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "init")
    config = small_runs.config(
        somethings, model={"init": str(tmp_path / "init")}, batches={"size": 20}, trainer={"epochs": 1}
    )
    run = train(config, tmp_path / "run", console=silent())
    before = small_runs.weights(run.last)
    shutil.rmtree(tmp_path / "init")
    resume(run.folder, console=silent())  # it is at its end: nothing happens
    small_runs.assert_same(small_runs.weights(run.last), before)
    assert len(small_runs.metrics(run.folder)) == 1


def test_a_checkpoint_of_something_else(somethings: Path, tmp_path: Path) -> None:
    config = small_runs.config(somethings, batches={"size": 20}, trainer={"epochs": 1})
    run = train(config, tmp_path / "run", console=silent())
    whole = run.checkpoint.read_bytes()
    changed = yaml.safe_load(run.config.read_text())
    changed["model"]["options"]["hidden"] = [16, 8]
    texts = {"damaged": run.config.read_text(), "changed": yaml.safe_dump(changed)}
    for text, content in ((texts["damaged"], whole[:1000]), (texts["damaged"], b"x"), (texts["changed"], whole)):
        run.config.write_text(text)
        run.checkpoint.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"checkpoint.ckpt cannot be resumed from"):
            resume(run.folder, console=silent())


def test_the_folder_says_what_was_run(somethings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_runs.config(somethings, batches={"size": 20, "workers": 3}, trainer={"epochs": 1}, seed=3)
    monkeypatch.setattr("sys.argv", ["/some/where/horst/__main__.py", "train", "run.yaml"])
    monkeypatch.setattr("horst.data.loader.available_cores", lambda: 1)
    text = io.StringIO()
    run = train(config, tmp_path / "run", console=Console(file=text, width=200))
    assert "workers 1: batches.workers is 3, and 1 core is available\n" in text.getvalue()
    assert RunConfig.from_file(run.config) == resolve(config)[0]
    about = json.loads((run.folder / "environment.json").read_text())
    assert about["horst"] == horst.__version__
    assert about["command"] == ["python -m horst", "train", "run.yaml"]
    assert about["processor"] == processor() != ""
    assert run.machine() == ", ".join([about["processor"], *about["devices"]])
    assert about["packages"]["torch"].startswith(torch.__version__.split("+")[0])
    for model in (run.best, run.last):
        assert "\n# small\n" in (model / "README.md").read_text()  # the run's name, not the folder's
    assert horst.open_model(run.best).labels == build_model(config, prepare(config)[0].annotations).labels
    with pytest.raises(ConfigError, match="holds a run already: continue it with `horst train --resume"):
        train(config, run.folder, console=silent())
    assert RunConfig.from_file(run.config) == resolve(config)[0]


def test_a_seed_decides_everything(somethings: Path, tmp_path: Path) -> None:
    config = small_runs.config(somethings, batches={"prefix": [0.2, 1.0], "size": 10}, trainer={"epochs": 1})
    runs = [train(replace(config, seed=s), tmp_path / str(i), console=silent()) for i, s in enumerate((1, 1, 2))]
    first, again, other = (small_runs.weights(run.last) for run in runs)
    small_runs.assert_same(first, again)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize(("clips", "remedy"), [(8, "set batches.size to 4 or less"), (1, "use fewer processes")])
def test_every_process_has_a_batch_for_validation(clips: int, remedy: str) -> None:
    config = from_dict(
        RunConfig,
        {
            "name": "two",
            "model": {"name": "horst_tiny"},
            "data": {"source": "somethings"},
            "batches": {"size": 16},
            "trainer": {"devices": 2},
        },
    )
    with pytest.raises(ConfigError, match=f"which are 1 batches of 16 for 2 processes: {remedy}"):
        check_validation(config, clips, "made")
    check_validation(config, 17, "made")
    check_validation(config, 0, "made")


def test_the_threads_of_a_run_are_those_of_its_config(
    somethings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In training and evaluation, whatever the machine has: rounding depends on them."""
    used: list[int] = []
    forward = TrainingNetwork.forward

    def counted(self: TrainingNetwork, *args: Any) -> Any:
        used.append(torch.get_num_threads())
        return forward(self, *args)

    monkeypatch.setattr(TrainingNetwork, "forward", counted)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        config = small_runs.config(somethings, trainer={"epochs": 1, "threads": 1})
        run = train(config, tmp_path / "run", console=silent())
        opened = open_evaluated(run.folder)
        head = type(opened.model.head)
        measured = head.forward
        monkeypatch.setattr(
            head, "forward", lambda *args, **maps: (used.append(torch.get_num_threads()), measured(*args, **maps))[1]
        )
        training = len(used)
        opened.evaluate("val")
        assert set(used) == {1}
        assert len(used) > training > 0
        assert torch.get_num_threads() == 2
        replace(opened, config=None).evaluate("val")  # not a run
        assert used[-1] == 2
    finally:
        torch.set_num_threads(before)
    with pytest.raises(ConfigError, match=r"trainer.threads is 0"):
        small_runs.config(somethings, trainer={"threads": 0})
