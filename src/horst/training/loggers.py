"""Where a run's metrics go while it trains: CSV, TensorBoard, Weights & Biases, MLflow, or any logger of Lightning.

    trainer: {loggers: [csv, wandb], logger_options: {wandb: {project: gestures}}}

`loggers.json` in the run's folder has the ids of the runs at W&B and MLflow and the last step that was logged. A
resumed run continues there, and does not log the steps again that it repeats since its last checkpoint.
"""

import csv
import importlib.util
import io
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from horst.data.module import lightning
from horst.errors import ConfigError, DataError, HorstError, LoggerError
from horst.extras import require
from horst.io import read_json, write_text
from horst.training.checkpoints import CheckpointCallback
from horst.training.config import LOGGERS, RunConfig
from horst.training.run import Run

published = lightning.pytorch.loggers
BATCH, EPOCH = 0, 1  # of one step, the row of the batch is logged before that of the epoch
UNCERTAIN = 60.0  # seconds after which W&B has written a row: a process that is killed loses those of its last 15 s
PROJECT = "horst"
REMEDIES = {
    "wandb": "log in with `wandb login`, or set WANDB_MODE=offline",
    "mlflow": "check MLFLOW_TRACKING_URI or logger_options.mlflow.tracking_uri",
}


class RunLoggers:
    """The loggers of a run. Only the first process has any: the others pass a dummy to Lightning."""

    def __init__(self, run: Run, config: RunConfig, *, first: bool) -> None:
        """MissingExtraError, ConfigError: before anything is written, if a package is missing or an option is wrong."""
        self.run, self.config = run, config
        self._file = run.folder / "loggers.json"
        self._kept: dict[str, Any] = {"last": [-1, BATCH], "ids": {}, "recent": []}
        with suppress(DataError):
            self._kept |= read_json(self._file)
        step, kind = self._kept["last"]
        self.last: tuple[int, int] = (step, kind)
        self._used: dict[str, Any] = {}
        for name in logger_names(config) if first else ():
            options, ids = dict(config.trainer.logger_options.get(name, {})), self._kept["ids"].setdefault(name, {})
            try:
                make = LOGGERS[name]
                found = make(self, ids, **options) if make in BUILTIN else make(**options)
            except TypeError as error:
                raise ConfigError(f"trainer.logger_options.{name} does not fit: {error}") from error
            except HorstError:
                raise
            except Exception as error:
                raise self._failed(name, error, "cannot be opened") from error
            self._used[name] = found

    @property
    def loggers(self) -> list[Any]:
        """For Lightning's trainer."""
        return list(self._used.values()) or [published.logger.DummyLogger()]

    def start(self) -> None:
        """Begin, with the config as hyperparameters, or continue. Before Lightning starts, which saves them."""
        resumed = self.last[0] >= 0
        for name, logger in self._used.items():
            try:
                if not resumed or name == "wandb":  # an offline run at W&B gets a new folder; others have them already
                    logger.log_hyperparams(self.config.to_dict())
                if name == "wandb":
                    for _, step, values in self._kept["recent"]:
                        logger.log_metrics(values, step)
                if name == "mlflow":
                    self._kept["ids"][name]["run_id"] = logger.run_id
                    logger.experiment.update_run(logger.run_id, status="RUNNING")
            except Exception as error:
                raise self._failed(name, error, "cannot start") from error
        self._keep()

    def log(self, values: Mapping[str, float], step: int, kind: int) -> None:
        """One row, unless it was logged before the run was killed and resumed."""
        if (step, kind) <= self.last or not self._used:
            return
        for name, logger in self._used.items():
            try:
                logger.log_metrics(dict(values), step)
                if callable(flush := getattr(logger.experiment, "flush", None)):
                    flush()
            except Exception as error:
                remedy = f"is not reachable any more; `horst train --resume {self.run.folder}` continues the run"
                raise self._failed(name, error, remedy) from error
        self.last = (step, kind)
        if "wandb" in self._used:
            now = time.time()
            rows = [*self._kept["recent"], [now, step, dict(values)]]
            self._kept["recent"] = [row for row in rows if now - row[0] < UNCERTAIN]
        self._keep()

    def close(self) -> None:
        if "wandb" in self._used and (wandb := require("wandb", "wandb")).run is not None:
            wandb.finish()  # else the next run of this process would continue it
            self._kept["recent"] = []
            self._keep()

    def _keep(self) -> None:
        if self._used:
            write_text(self._file, json.dumps({**self._kept, "last": list(self.last)}) + "\n")

    def _failed(self, name: str, error: Exception, what: str) -> LoggerError:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        remedy = f"; {REMEDIES[name]}, or leave it out of trainer.loggers" if name in REMEDIES else ""
        return LoggerError(f"the logger {name} {what}: {reason}{remedy}")


class LoggingCallback(lightning.Callback):
    """Logs the loss every `trainer.log_every` steps, and the metrics of each epoch as metrics.csv has them."""

    def __init__(self, loggers: RunLoggers, checkpoints: CheckpointCallback) -> None:
        self.loggers, self.checkpoints = loggers, checkpoints

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.global_step
        if not outputs or step % pl_module.run.trainer.log_every or (batch_idx + 1) % pl_module.run.trainer.accumulate:
            return
        loss = trainer.strategy.reduce(outputs["mean_loss"], reduce_op="mean")  # of the clips of all processes
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        self.loggers.log({"batch/loss": float(loss), "batch/lr": rate}, step, BATCH)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        row = self.checkpoints.history[-1]
        self.loggers.log({name: value for name, value in row.items() if name != "step"}, int(row["step"]), EPOCH)


def logger_names(config: RunConfig) -> tuple[str, ...]:
    if config.trainer.loggers is None:
        return ("tensorboard",) if importlib.util.find_spec("tensorboard") else ()
    assert not isinstance(config.trainer.loggers, str)  # it was split
    return config.trainer.loggers


def tensorboard_logger(loggers: RunLoggers, ids: dict[str, Any], **options: Any) -> Any:
    """In RUN/tensorboard."""
    require("tensorboard", "train")
    if loggers.last[0] >= 0:  # what was logged after it, by a process that was killed before it could say so
        options.setdefault("purge_step", loggers.last[0] + 1)
    options = {"default_hp_metric": False, **options}
    return TensorBoardLogger(loggers.run.folder, name="", version="tensorboard", **options)


class TensorBoardLogger(published.TensorBoardLogger):
    def save(self) -> None:
        """As Lightning's, but hparams.yaml is written atomically."""
        self.experiment.flush()
        file = Path(self.log_dir) / self.NAME_HPARAMS_FILE
        if not file.exists():
            write_text(file, yaml.safe_dump(dict(self.hparams)))


def wandb_logger(loggers: RunLoggers, ids: dict[str, Any], **options: Any) -> Any:
    """Files in RUN/wandb; options of Lightning's WandbLogger, such as project and offline."""
    require("wandb", "wandb")
    ids.setdefault("id", secrets.token_hex(4))
    options = {"name": loggers.config.name, "project": os.environ.get("WANDB_PROJECT", PROJECT), **options}
    return WandbLogger(save_dir=loggers.run.folder, id=ids["id"], **options)


def mlflow_logger(loggers: RunLoggers, ids: dict[str, Any], **options: Any) -> Any:
    """In mlflow.db of the current folder, where `mlflow ui` looks, unless the environment or an option differs."""
    require("mlflow", "mlflow")
    uri = options.pop("tracking_uri", None) or os.environ.get("MLFLOW_TRACKING_URI")
    if uri is None:
        uri = ids.setdefault("tracking_uri", f"sqlite:///{Path('mlflow.db').absolute()}")
    if uri.startswith("sqlite:"):
        for module in ("sqlalchemy", "alembic"):
            require(module, "mlflow")
    options = {"experiment_name": os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT), **options}
    return MLFlowLogger(run_name=loggers.config.name, tracking_uri=uri, run_id=ids.get("run_id"), **options)


class WandbLogger(published.WandbLogger):
    """With the step as W&B's own: it ignores a row that it has."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.experiment.log({**metrics, "trainer/global_step": step}, step=step)


class MLFlowLogger(published.MLFlowLogger):
    """With names of metrics that MLflow accepts: action/top1@25% is action/top1_at_25pct."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        named = {name.replace("@", "_at_").replace("%", "pct"): value for name, value in metrics.items()}
        super().log_metrics({re.sub(r"[^\w/. -]", "_", name): value for name, value in named.items()}, step)


def csv_logger(loggers: RunLoggers, ids: dict[str, Any]) -> Any:
    """RUN/csv/metrics.csv."""
    return CSVFileLogger(loggers.run.folder / "csv", loggers.last)


class CSVFileLogger(published.Logger):
    """A row per step, appended. Lightning's CSVLogger deletes the file when a run is resumed.

    Rows after `last`, logged by a process that was killed before it could say so, are removed.
    """

    def __init__(self, folder: Path, last: tuple[int, int]) -> None:
        super().__init__()
        self.file = folder / "metrics.csv"
        self._columns: list[str] = ["step"]
        self._last = last
        self._open = False

    @property
    def name(self) -> str:
        return "csv"

    @property
    def version(self) -> str:
        return ""

    @property
    def experiment(self) -> "CSVFileLogger":
        return self

    def log_hyperparams(self, params: Any, *args: Any, **options: Any) -> None:
        text = yaml.safe_dump(params, sort_keys=False, allow_unicode=True)
        write_text(self.file.with_name("hparams.yaml"), text)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        if not self._open:
            self._rewrite(self._rows())
            self._open = True
        new = [name for name in metrics if name not in self._columns]
        if new:
            self._columns += new
            self._rewrite(self._rows())
        with self.file.open("a", newline="", encoding="utf-8") as file:
            file.write(self._text([{"step": step, **metrics}]))

    def _rows(self) -> list[dict[str, Any]]:
        if not self.file.is_file():
            return []
        text = self.file.read_text(encoding="utf-8")
        reader = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())  # without a line that was being written
        rows = list(reader)
        self._columns = list(dict.fromkeys([*(reader.fieldnames or ()), *self._columns]))
        keys = [(int(row["step"]), EPOCH if row.get("epoch") else BATCH) for row in rows]
        return [row for row, key in zip(rows, keys, strict=True) if self._open or key <= self._last]

    def _rewrite(self, rows: list[dict[str, Any]]) -> None:
        write_text(self.file, ",".join(self._columns) + "\n" + self._text(rows))

    def _text(self, rows: list[dict[str, Any]]) -> str:
        text = io.StringIO(newline="")
        csv.DictWriter(text, self._columns, lineterminator="\n").writerows(rows)
        return text.getvalue()


BUILTIN: tuple[Callable[..., Any], ...] = (csv_logger, tensorboard_logger, wandb_logger, mlflow_logger)
