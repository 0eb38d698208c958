"""Train: from a config to a run folder, or on from where a run was stopped."""

from __future__ import annotations

import logging
import os
import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from horst.console import Console
from horst.data.augmenter import mirror_table
from horst.data.example import Annotations
from horst.data.identity import DataIdentity
from horst.data.module import ClipDataModule, lightning
from horst.errors import CheckpointError, ConfigError, HorstError, did_you_mean
from horst.evaluation.measure import metric_names
from horst.models import Predictor
from horst.ops.backend import BackendChoice
from horst.training.averages import Averages
from horst.training.build import build_model, learnt_loss, notices
from horst.training.checkpoints import Keeper, check_whole
from horst.training.completion import Completion
from horst.training.config import RunConfig
from horst.training.module import TrainingModule
from horst.training.progress import Bar
from horst.training.run import Run

MisconfigurationException = lightning.fabric.utilities.exceptions.MisconfigurationException


def train(
    config: RunConfig,
    folder: str | Path | None = None,
    *,
    data: ClipDataModule | None = None,
    console: Console | None = None,
) -> Run:
    """A new run in `folder`, runs/<name> by default. Whatever is wrong with it is said before any work starts.

    `data`: its `data_module`, for callers who go on with what it has opened and read.
    """
    folder = Path(folder or Path("runs") / config.name)
    if (folder / "config.yaml").exists() and is_first():
        Run.create(folder, config)  # raises
    data, module = prepare(config, data)
    return _fit(Run(folder), config, data, module, console or Console(), new=True)


def resume(folder: str | Path, *, console: Console | None = None) -> Run:
    """Go on with a run that was stopped, from its last checkpoint; from its start where there is none."""
    run = Run.open(folder)
    check_whole(run.checkpoint)
    config = RunConfig.from_run(run.config)
    if run.checkpoint.exists():  # all weights are in it, wherever they came from at first
        config = replace(config, model=replace(config.model, init=None, tsn=None))
    data = data_module(config)
    if is_first():
        _check_data(run, data)
    data, module = prepare(config, data)
    return _fit(run, config, data, module, console or Console(), new=False)


def _check_data(run: Run, data: ClipDataModule) -> None:
    """A run goes on with the data that it began with."""
    now, before = DataIdentity.of(data.source), DataIdentity.read(run.folder)
    if before is None:  # a run of an earlier version
        now.write(run.folder)
    else:
        before.check(now, run.folder)


def data_module(config: RunConfig) -> ClipDataModule:
    """The data of a run, not opened yet."""
    batches = config.batches
    return ClipDataModule(
        config.data,
        batch_size=batches.size,
        workers=batches.workers,
        seed=config.seed,
        augment=config.augment,
        prefix=batches.prefix,
        bad_limit=batches.bad_limit,
        drop_last=batches.drop_last,
        cache=batches.cache,
        preload="device" if batches.resident else None,
    )


def prepare(config: RunConfig, data: ClipDataModule | None = None) -> tuple[ClipDataModule, TrainingModule]:
    """The data, opened, and the model: all that can be checked without a step of training."""
    data = data or data_module(config)
    annotations = data.annotations
    _ = data.bad_clips  # its limit is looked at here
    counts = annotations.counts()
    if "train" not in counts:
        raise ConfigError(f"{annotations.name} has no training examples: its splits are {', '.join(counts)}")
    if config.loss.steps == "anticipation" and annotations.task != "anticipation":
        raise ConfigError(f"loss.steps is anticipation and {annotations.name} is for recognition: use last or every")
    model = build_model(config, annotations)
    config = replace(config, loss=learnt_loss(config.loss, model))
    if config.trainer.monitor is not None:
        _check_monitor(config.trainer.monitor, config, annotations, model)
    if config.trainer.completion_epochs and not model.head.unrolls:
        raise ConfigError(f"trainer.completion_epochs is for unrolling heads; {config.model.name} has none")
    if config.loss.features and not (model.core.predicts_features or model.head.predicts_features):
        raise ConfigError(
            f"loss.features is {config.loss.features}; {config.model.name} foretells no features: set it to 0"
        )
    mirrors = config.augment.mirror and bool(mirror_table(annotations.split("train")))
    if model.config.backbone.name == "maps" and (config.augment.operations or mirrors):
        raise ConfigError("augment is for pictures, and the model reads maps: set operations to 0 and mirror to false")
    stored = data.source.map
    taken = (model.backbone.channels, *model.size)
    if stored is not None and stored != taken:
        raise ConfigError(
            f"{annotations.name} has maps of {list(stored)} and the model takes {list(taken)}: "
            f"set data.clip.size to {list(stored[1:])}, and channels of the backbone to {stored[0]}"
        )
    return data, TrainingModule(model, config, annotations)


def _check_monitor(monitor: str, config: RunConfig, annotations: Annotations, model: Predictor) -> None:
    if "val" not in annotations.counts():
        raise ConfigError(f"trainer.monitor is {monitor} and {annotations.name} has no validation clips: leave it out")
    known = metric_names(annotations, "val", config.data.clip, model.head.classes)
    if monitor not in known:
        raise ConfigError(
            f"trainer.monitor is {monitor!r}, which validation does not give{did_you_mean(monitor, known, 'There are')}"
        )


def _fit(
    run: Run, config: RunConfig, data: ClipDataModule, module: TrainingModule, console: Console, *, new: bool
) -> Run:
    options = config.trainer
    averages = Averages(options.ema)
    keeper = Keeper(run, averages, minutes=options.checkpoint_minutes)
    has_val = "val" in data.annotations.counts()
    starts_anew = bool(options.completion_epochs) and options.completion_from == "best"
    completion = [Completion(options.completion_epochs, averages)] if starts_anew else []
    trainer = create_trainer(
        config,
        callbacks=[averages, Bar(console), *completion, keeper],
        validate_every=(options.validate_every or options.epochs) if has_val else None,
    )
    module.model.core.use_backend(options.backend)
    module.model.backbone.use_backend(options.backend)
    choice = module.model.core.backend(trainer.strategy.root_device)
    clips, size = data.annotations.counts()["train"], config.batches.size * trainer.world_size
    if config.batches.drop_last and clips < size:
        raise ConfigError(f"batches.size makes {size} on all devices and there are {clips} training clips: lower it")
    with run.hold() if is_first() else nullcontext():
        if new and is_first():  # the last thing before work starts
            Run.create(run.folder, config, DataIdentity.of(data.source))
        if trainer.is_global_zero:
            _introduce(console, run, module, data, choice)
        checkpoint = run.checkpoint if run.checkpoint.exists() else None
        _fit_quietly(trainer, module, data, checkpoint)
    if trainer.is_global_zero:
        told = "" if keeper.best is None else f", best {module.monitor} {100 * keeper.best:.1f}%"
        console.print(f"done{told}. Next: horst evaluate {run.folder}")
    return run


def create_trainer(config: RunConfig, *, callbacks: list[Any], validate_every: int | None) -> Any:
    """Lightning's trainer, without what the run folder does better."""
    options = config.trainer
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)  # what it says is said here in fewer words
    try:
        return lightning.Trainer(
            max_epochs=options.epochs,
            accelerator="gpu" if options.accelerator == "cuda" else options.accelerator,
            devices=options.devices,
            num_nodes=options.nodes,
            precision=options.precision,
            accumulate_grad_batches=options.accumulate,
            gradient_clip_val=options.clip_gradient,
            check_val_every_n_epoch=validate_every or 1,
            limit_val_batches=0 if validate_every is None else None,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=callbacks,
        )
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        raise ConfigError(f"trainer: {error}") from error


def _fit_quietly(trainer: Any, module: TrainingModule, data: ClipDataModule, checkpoint: Path | None) -> None:
    with warnings.catch_warnings():
        # These speak of what is as it should be: workers are the user's choice, resuming inside an epoch is exact here.
        warnings.filterwarnings("ignore", ".*does not have many workers.*")
        warnings.filterwarnings("ignore", ".*resuming training from a mid-epoch.*")
        warnings.filterwarnings("ignore", ".*number of training batches.*")
        warnings.filterwarnings("ignore", ".*LeafSpec.*")
        warnings.filterwarnings("ignore", ".*training_step. returned .None.*")  # all clips of a batch were bad
        try:
            trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
        except HorstError:
            raise
        except SystemExit as error:
            if trainer.interrupted:  # so does Lightning end after ctrl-c
                raise KeyboardInterrupt from error
            raise
        except (KeyError, ValueError, RuntimeError, EOFError, UnpicklingError) as error:
            if checkpoint is None or trainer.global_step:
                raise
            raise CheckpointError(
                f"{checkpoint} cannot be resumed from: {error}; it is of another config or damaged"
            ) from error


def _introduce(
    console: Console, run: Run, module: TrainingModule, data: ClipDataModule, backend: BackendChoice
) -> None:
    counts = data.annotations.counts()
    size = sum(p.numel() for p in module.model.parameters() if p.requires_grad)
    classes = ", ".join(f"{n} {task}s" for task, n in module.model.head.classes.items())
    clips = f"{counts['train']:,} training and {counts.get('val', 0):,} validation clips, {classes}"
    console.print(f"{run.folder}: {module.run.model.name}, {size / 1e6:.2f} M trained parameters")
    console.print(f"{data.annotations.name}: {clips}")
    console.print(f"backend {backend}")
    if "val" in counts:
        console.print(f"best epoch by validation {module.monitor}")
    for notice in (*data.annotations.notices, *notices(module.run, module.model, data.annotations)):
        console.print(f"note: {notice}")


def is_first() -> bool:
    """Whether this is the process that writes; before Lightning starts, the launcher's variables tell."""
    return all(int(os.environ.get(name, "0")) == 0 for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))
