"""Train a run from its config, or resume one that was stopped."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from horst.console import Console
from horst.data.augmenter import mirror_table
from horst.data.identity import DataIdentity
from horst.data.loader import world_and_rank
from horst.data.module import ClipDataModule, lightning
from horst.data.segments import WHOLE_VIDEOS, evaluated
from horst.errors import CheckpointError, ConfigError, HorstError, did_you_mean
from horst.evaluation.measure import metric_names
from horst.evaluation.report import value_with_unit
from horst.io import DISK_FULL
from horst.training.build import build_model, loss_for, notices
from horst.training.callbacks import AveragedWeights, CompletionCallback
from horst.training.checkpoints import CheckpointCallback, check_checkpoint
from horst.training.config import RunConfig
from horst.training.loggers import LoggingCallback, RunLoggers
from horst.training.module import TrainingModule
from horst.training.progress import ProgressCallback
from horst.training.run import Run, is_first
from horst.training.speed import be_deterministic, cpu_threads, resolve

MisconfigurationException = lightning.fabric.utilities.exceptions.MisconfigurationException
EXPECTED_WARNINGS = (
    ".*does not have many workers.*",  # the user's choice
    ".*resuming training from a mid-epoch.*",  # exact here
    ".*number of training batches.*",
    ".*LeafSpec.*",
    ".*training_step. returned .None.*",  # all clips of a batch were bad
    ".*in eval mode at the start of training.*",  # a frozen backbone
    ".*AccumulateGrad node's stream.*",  # while CUDA graphs are captured, on a stream of their own
    ".*no current CUDA context.*",
)


def train(
    config: RunConfig,
    folder: str | Path | None = None,
    *,
    data: ClipDataModule | None = None,
    console: Console | None = None,
    callbacks: Sequence[Any] = (),
) -> Run:
    """A new run, in runs/<name> by default. Errors in its config and data are raised before any work starts.

    `data` is its `data_module`, for callers that use it again; `callbacks` are additional ones of Lightning.
    """
    run = Run(folder or Path("runs") / config.name)
    if is_first():
        run.check_new()
    return _fit(run, config, data, console, callbacks, new=True)


def resume(folder: str | Path, *, console: Console | None = None) -> Run:
    """Continue a run from its last checkpoint, or from its start if there is none."""
    run = Run(folder)
    if not run.config.is_file():
        raise ConfigError(f"{run.place} is no run: it has no {run.config.name}; pass a folder of `horst train`")
    check_checkpoint(run.checkpoint)
    config = RunConfig.from_file(run.config, resumed=True)
    if run.checkpoint.exists():  # it has all weights
        config = replace(config, model=replace(config.model, init=None, init_backbone=None, tsn=None))
    data = data_module(config)
    if is_first():
        now, before = DataIdentity.of(data.source), DataIdentity.read(run.folder)
        if before is None:  # a run of an earlier version
            now.write(run.folder)
        else:
            before.check(now, run.folder)
    return _fit(run, config, data, console, (), new=False)


def data_module(config: RunConfig, *, planned: bool = False) -> ClipDataModule:
    """The data of a run, not opened yet. `planned`: see `open_source`."""
    options = {**asdict(config.batches), "planned": planned}
    size = options.pop("size")
    return ClipDataModule(config.data, batch_size=size, seed=config.seed, augment=config.augment, **options)


def check_validation(config: RunConfig, clips: int, name: str) -> None:
    """ConfigError if a process of a distributed run would have no batch for validation, at which Lightning stops."""
    devices, size = config.trainer.devices, config.batches.size
    processes = max(world_and_rank()[0], (devices if isinstance(devices, int) else 1) * config.trainer.nodes)
    if clips and (batches := -(-clips // size)) < processes:
        remedy = f"set batches.size to {clips // processes} or less" if clips >= processes else "use fewer processes"
        made = f"{clips} validation clips, which are {batches} batches of {size} for {processes} processes"
        raise ConfigError(f"{name} has {made}: {remedy}")


def prepare(config: RunConfig, data: ClipDataModule | None = None) -> tuple[ClipDataModule, TrainingModule]:
    """Open the data and build the model: everything that can be checked without training."""
    data = data or data_module(config)
    annotations, name = data.annotations, config.model.name
    _ = data.bad_clips  # checks its limit
    counts = annotations.counts()
    if "train" not in counts:
        raise ConfigError(f"{annotations.name} has no training examples: its splits are {', '.join(counts)}")
    if config.loss.steps == "anticipation" and annotations.task != "anticipation":
        what = f"loss.steps is anticipation and the task of {annotations.name} is {annotations.task}"
        raise ConfigError(f"{what}: use {'every' if annotations.task in WHOLE_VIDEOS else 'last or every'}")
    if annotations.task == "detection" and (config.loss.near is not None or config.loss.balance):
        raise ConfigError("loss.near and loss.balance are for the task online: leave them out for detection")
    model = build_model(config, annotations)
    config = replace(config, loss=loss_for(config.loss, model))
    if (monitor := config.trainer.monitor) is not None:
        if "val" not in counts:
            raise ConfigError(f"trainer.monitor is {monitor} and {annotations.name} has no validation clips: omit it")
        known = metric_names(evaluated(annotations), "val", config.data.clip, model.head.classes)
        if monitor not in known:
            close = did_you_mean(monitor, known, "There are")
            raise ConfigError(f"trainer.monitor is {monitor!r}, which validation does not give{close}")
    if config.trainer.window is not None:
        if annotations.task not in WHOLE_VIDEOS:
            raise ConfigError(
                f"trainer.window is for whole videos; the task of {annotations.name} is {annotations.task}"
            )
        if world_and_rank()[0] > 1 or config.trainer.devices not in (1, "auto") or config.trainer.nodes > 1:
            raise ConfigError("trainer.window is for one device: set trainer.devices to 1, or leave window out")
    check_validation(config, counts.get("val", 0), annotations.name)
    if config.trainer.completion_epochs and not model.head.unrolls:
        raise ConfigError(f"trainer.completion_epochs is for unrolling heads; {name} has none")
    if config.loss.features and not (model.core.predicts_features or model.head.predicts_features):
        raise ConfigError(f"loss.features is {config.loss.features}; {name} predicts no features: set it to 0")
    mirrors = config.augment.mirror and bool(mirror_table(annotations.split("train")))
    changes_images = config.augment.operations or config.augment.zoom
    if model.config.backbone.name == "maps" and (changes_images or (mirrors and model.size[1] == 1)):
        raise ConfigError(
            "augment.operations and augment.zoom are for images, and augment.mirror is not for vectors: "
            "set the first two to 0 and mirror to false"
        )
    if config.model.freeze_backbone and model.backbone.finetuned is not model.backbone:
        name = model.config.backbone.name
        raise ConfigError(f"model.freeze_backbone would freeze all of {name}: set frozen: true for its encoder instead")
    stored, wanted = data.source.map, (model.backbone.input_channels, *model.size)
    if stored is not None and stored != wanted:
        raise ConfigError(
            f"{annotations.name} has maps of {list(stored)} and the model takes {list(wanted)}: "
            f"set data.clip.size to {list(stored[1:])}, and channels of the backbone to {stored[0]}"
        )
    return data, TrainingModule(model, config, annotations)


def _fit(
    run: Run, config: RunConfig, data: ClipDataModule | None, console: Console | None, more: Sequence[Any], *, new: bool
) -> Run:
    config, choices = resolve(config)
    if config.trainer.deterministic:
        be_deterministic()
    data, module = prepare(config, data)
    console, options, counts = console or Console(), config.trainer, data.annotations.counts()
    averages = AveragedWeights(options.ema)
    checkpoints = CheckpointCallback(run, averages, minutes=options.checkpoint_minutes)
    loggers = RunLoggers(run, config, first=is_first())
    callbacks = [averages, ProgressCallback(console), checkpoints, LoggingCallback(loggers, checkpoints), *more]
    if options.completion_epochs and options.completion_from == "best":
        callbacks.insert(2, CompletionCallback(options.completion_epochs, averages))
    validate_every = (options.validate_every or options.epochs) if "val" in counts else None
    trainer = create_trainer(config, callbacks=callbacks, validate_every=validate_every, loggers=loggers.loggers)
    module.model.core.use_backend(options.backend)
    module.model.backbone.use_backend(options.backend)
    backend = module.model.core.backend(trainer.strategy.root_device)
    clips, size = counts["train"], config.batches.size * trainer.world_size
    if config.batches.drop_last and clips < size:
        raise ConfigError(f"batches.size makes {size} on all devices and there are {clips} training clips: lower it")
    with run.lock() if is_first() else nullcontext():
        if new and is_first():  # the last thing before work starts
            run.create(config, DataIdentity.of(data.source))
        if trainer.is_global_zero:
            if data.workers < config.batches.workers:
                cores = f"{data.workers} core{'s are' if data.workers > 1 else ' is'} available"
                choices.append(f"workers {data.workers}: batches.workers is {config.batches.workers}, and {cores}")
            for line in _introduction(run, module, [f"backend {backend}", *choices]):
                console.print(line)
        try:
            loggers.start()
            with cpu_threads(options.threads):
                _run_trainer(trainer, module, data, run)
        finally:
            loggers.close()
    if trainer.is_global_zero:
        name, value = module.monitor, checkpoints.best
        best = "" if value is None else f", best {name} {value_with_unit(name, value)}"
        console.print(f"done{best}. Next: horst evaluate {run.place}")
    return run


def create_trainer(
    config: RunConfig, *, callbacks: list[Any], validate_every: int | None, loggers: Sequence[Any] = ()
) -> Any:
    """Lightning's trainer without its own checkpoints and progress bar. `validate_every`: None for never."""
    options = resolve(config)[0].trainer
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        return lightning.Trainer(
            max_epochs=options.epochs,
            accelerator="gpu" if options.accelerator == "cuda" else options.accelerator,
            devices=options.devices,
            num_nodes=options.nodes,
            precision=options.precision,  # type: ignore[arg-type]  # resolved
            accumulate_grad_batches=options.accumulate,
            gradient_clip_val=options.clip_gradient,
            check_val_every_n_epoch=validate_every or 1,
            limit_val_batches=0 if validate_every is None else None,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            logger=list(loggers) or False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=callbacks,
        )
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        raise ConfigError(f"trainer: {error}") from error


def _run_trainer(trainer: Any, module: TrainingModule, data: ClipDataModule, run: Run) -> None:
    checkpoint = run.checkpoint if run.checkpoint.exists() else None
    with warnings.catch_warnings():
        for message in EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message)
        try:
            trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
        except HorstError:
            raise
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            what = error.filename or f"a file of {run.place}"
            raise CheckpointError(f"{what} cannot be written: {error.strerror}; {run.remedy}") from error
        except SystemExit as error:
            if trainer.interrupted:  # how Lightning ends after Ctrl-C
                raise KeyboardInterrupt from error
            raise
        except (KeyError, ValueError, RuntimeError, EOFError, UnpicklingError) as error:
            if checkpoint is None or trainer.global_step:
                raise
            raise CheckpointError(
                f"{checkpoint} cannot be resumed from: {error}; it is of another config or damaged"
            ) from error


def _introduction(run: Run, module: TrainingModule, choices: list[str]) -> Iterator[str]:
    annotations, counts = module.annotations, module.annotations.counts()
    size = sum(p.numel() for p in module.model.parameters() if p.requires_grad)
    classes = ", ".join(f"{n} {task}s" for task, n in module.model.head.classes.items())
    clips = f"{counts['train']:,} training and {counts.get('val', 0):,} validation clips, {classes}"
    yield f"{run.place}: {module.run.model.name}, {size / 1e6:.2f} M trained parameters"
    yield f"{annotations.name}: {clips}"
    yield from choices
    if "val" in counts:
        yield f"best epoch by validation {module.monitor}"
    for notice in (*annotations.notices, *notices(module.run, module.model, annotations)):
        yield f"note: {notice}"
