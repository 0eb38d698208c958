"""Runs with CSV, TensorBoard, W&B (offline) and MLflow (SQLite). One that was killed and resumed has all steps once."""

from __future__ import annotations

import csv
import io
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import small_runs
import yaml

from horst.cli import main
from horst.config import from_dict
from horst.data.module import lightning
from horst.errors import ConfigError, LoggerError, MissingExtraError
from horst.training.config import RunConfig, TrainerOptions
from horst.training.fit import resume, train
from horst.training.loggers import BATCH, EPOCH, CSVFileLogger

pytestmark = pytest.mark.integration

ALL = ["csv", "tensorboard", "wandb", "mlflow"]
STEPS = [(step, BATCH) for step in range(1, 11)]  # 2 epochs of 5 steps
ROWS = sorted([*STEPS, (5, EPOCH), (10, EPOCH)])


def config(root: Path, **trainer: Any) -> RunConfig:
    options = {"wandb": {"offline": True}, "mlflow": {"tracking_uri": f"sqlite:///{root / 'mlflow.db'}"}}
    given = {"loggers": ALL, "logger_options": options, "log_every": 1, "checkpoint_minutes": 0.0, "threads": 1}
    return small_runs.config(root / "made", trainer={**given, "epochs": 2, **trainer})


class KilledAt(lightning.Callback):
    """A SIGKILL after a batch, two batches after the last checkpoint."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step - 2:
            next(c for c in trainer.callbacks if type(c).__name__ == "CheckpointCallback").minutes = 1e9
        if trainer.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed within an epoch and resumed."""
    root = tmp_path_factory.mktemp("loggers")
    if (pid := os.fork()) == 0:
        sys.stdout = sys.stderr = open(root / "said", "w")  # noqa: SIM115, the process ends by a signal
        train(config(root), root / "run", callbacks=[KilledAt(8)], console=small_runs.silent())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_SILENT", "true")
        resume(root / "run", console=small_runs.silent())
    return root


def metrics(run: Path) -> dict[tuple[int, int], float]:
    """What the run's own metrics.csv has of the epochs."""
    return {(int(row["step"]), EPOCH): float(row["train/loss"]) for row in small_runs.metrics(run)}


def test_csv(resumed: Path) -> None:
    run = resumed / "run"
    with (run / "csv" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    keys = [(int(row["step"]), EPOCH if row["epoch"] else BATCH) for row in rows]
    assert keys == ROWS
    losses = {key: float(row["train/loss"]) for key, row in zip(keys, rows, strict=True) if key[1] == EPOCH}
    assert losses == pytest.approx(metrics(run), rel=1e-5)
    assert yaml.safe_load((run / "csv" / "hparams.yaml").read_text())["optimiser"]["lr"] == 0.002


def test_tensorboard(resumed: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(resumed / "run" / "tensorboard"))
    events.Reload()
    assert [(e.step, BATCH) for e in events.Scalars("batch/loss")] == STEPS
    assert [(e.step, EPOCH) for e in events.Scalars("train/loss")] == [(5, EPOCH), (10, EPOCH)]
    assert "lr: 0.002" in (resumed / "run" / "tensorboard" / "hparams.yaml").read_text()


def test_mlflow(resumed: Path) -> None:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{resumed / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("horst")
    (found,) = client.search_runs([experiment.experiment_id])  # one, though two processes logged
    assert (found.info.run_name, found.info.status) == ("small", "FINISHED")
    assert found.data.params["optimiser/lr"] == "0.002"
    ident = found.info.run_id
    assert [(m.step, BATCH) for m in client.get_metric_history(ident, "batch/loss")] == STEPS
    assert [m.step for m in client.get_metric_history(ident, "val/action/top1_at_25pct")] == [5, 10]


def test_wandb(resumed: Path) -> None:
    folders = sorted((resumed / "run" / "wandb").glob("offline-run-*"))
    idents = {folder.name.rpartition("-")[2] for folder in folders}
    assert (len(folders), len(idents)) == (2, 1)  # a folder for each process, of one run
    rows: dict[int, dict[str, str]] = {}
    for folder in folders:
        (file,) = folder.glob("*.wandb")
        records = wandb_records(file.read_bytes())
        history = [{i.nested_key[0]: i.value_json for i in r.history.item} for r in records if r.HasField("history")]
        steps = [int(row["trainer/global_step"]) for row in history]
        assert steps == [int(row["_step"]) for row in history]  # by which W&B knows a row that it has already
        assert steps == sorted(set(steps))
        for step, row in zip(steps, history, strict=True):
            rows[step] = {**rows.get(step, {}), **row}
    assert sorted(rows) == list(range(1, 11))
    assert all("batch/loss" in row for row in rows.values())
    assert [step for step, row in rows.items() if "train/loss" in row] == [5, 10]
    assert any(update.key == "optimiser" for record in records for update in record.config.update)


def wandb_records(data: bytes) -> list[Any]:
    """The records of a .wandb file: LevelDB's log format, in blocks of 32 KiB after a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    found, at, parts = [], 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or its last part
            found.append(Record.FromString(parts))
            parts = b""
    return found


def test_the_run_ends_as_one_that_was_not_killed(resumed: Path) -> None:
    train(config(resumed, loggers="csv", logger_options={}), resumed / "whole", console=small_runs.silent())
    small_runs.assert_same(small_runs.weights(resumed / "whole/last"), small_runs.weights(resumed / "run/last"))
    texts = [(resumed / run / "csv" / "metrics.csv").read_text() for run in ("whole", "run")]
    one, other = (list(csv.DictReader(io.StringIO(text))) for text in texts)
    assert [{**row, "seconds": 0} for row in one] == [{**row, "seconds": 0} for row in other]
    assert not (resumed / "whole" / "tensorboard").exists()


def test_rows_that_nobody_confirmed_are_removed(tmp_path: Path) -> None:
    """A process that is killed between its row and `loggers.json`, or within the row."""
    log = CSVFileLogger(tmp_path, (-1, BATCH))
    log.log_metrics({"batch/loss": 1.0}, 5)
    log.log_metrics({"epoch": 0, "train/loss": 2.0}, 5)
    log.log_metrics({"batch/loss": 3.0}, 10)
    with log.file.open("a") as file:
        file.write("15,0.")
    for last, left in (((10, BATCH), 3), ((5, EPOCH), 2), ((5, BATCH), 1)):
        again = CSVFileLogger(tmp_path, last)
        again.log_metrics({"batch/loss": 9.0}, 99)
        with log.file.open() as file:
            rows = list(csv.DictReader(file))
        assert Counter(row["step"] for row in rows)["99"] == 1
        assert len(rows) == left + 1


@pytest.mark.parametrize(("name", "module"), [("wandb", "wandb"), ("mlflow", "mlflow"), ("mlflow", "sqlalchemy")])
def test_a_missing_package_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    run = config(tmp_path, loggers=name, logger_options={})
    with pytest.raises(MissingExtraError, match=rf"{module} .* pip install 'horst-video\[{name}\]'"):
        train(run, tmp_path / "run", console=small_runs.silent())
    assert not (tmp_path / "run").exists()


def test_wrong_names_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="there is no logger 'tensorbord', did you mean 'tensorboard'"):
        TrainerOptions(loggers="csv, tensorbord")
    with pytest.raises(ConfigError, match=r"logger_options has wandb: .*a logger in trainer.loggers"):
        TrainerOptions(loggers="csv", logger_options={"wandb": {}})
    with pytest.raises(ConfigError, match="log_every is 0"):
        TrainerOptions(log_every=0)
    assert TrainerOptions(loggers="csv, wandb").loggers == ("csv", "wandb")
    assert from_dict(TrainerOptions, {"loggers": ["csv"]}).loggers == ("csv",)
    with pytest.raises(ConfigError, match=r"logger_options.csv does not fit: .*nothing"):
        train(config(tmp_path, loggers="csv", logger_options={"csv": {"nothing": 1}}), tmp_path / "run")
    file = {"mlflow": {"tracking_uri": "nowhere://x"}}
    with pytest.raises(LoggerError, match=r"the logger mlflow cannot be opened: .*; check MLFLOW_TRACKING_URI"):
        train(config(tmp_path, loggers="mlflow", logger_options=file), tmp_path / "run")


def test_one_line_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any logger of Lightning by its path, beside others."""
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(small_runs.plain("made", trainer={"epochs": 1})))
    other = "lightning.pytorch.loggers:CSVLogger"
    options = f"{{'{other}': {{save_dir: {tmp_path / 'other'}}}}}"
    args = ["--trainer.loggers", f"csv,{other}", "--trainer.logger_options", options, "--trainer.log_every", "2"]
    assert main(["train", str(file), "--folder", str(tmp_path / "run"), *args]) == 0
    with (tmp_path / "run" / "csv" / "metrics.csv").open() as rows:
        assert [row["step"] for row in csv.DictReader(rows)] == ["2", "4", "5"]
    assert list((tmp_path / "other").rglob("hparams.yaml"))
