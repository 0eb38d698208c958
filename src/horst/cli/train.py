"""`horst train`: a new run, or on with one that was stopped; `horst configs`; and `horst teach`, for a few clips."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from horst.cli.options import Cpus, Entry, Flag, Gpus, Names, Ray, RunFolder, Source, overrides
from horst.console import Console, progress, working
from horst.errors import ConfigError, DataError, TaskError, did_you_mean

if TYPE_CHECKING:
    from horst.data.module import ClipDataModule
    from horst.finetune import FinetuneProgress
    from horst.training.run import Run


def train(
    run: Source | None = None,
    /,
    *,
    folder: RunFolder | None = None,
    resume: RunFolder | None = None,
    init: Source | None = None,
    dry_run: Flag = False,
    evaluate: Flag = False,
    ray: Ray = None,
    cpus: Cpus = 1.0,
    gpus: Gpus = None,
    set: Names = (),
    **entries: Entry,
) -> None:
    """Train a model as a config file says; any entry of it can be changed: --trainer.epochs 3 --seed 1.

    Args:
        run: A YAML file, or the name of a packaged config, such as somethings/cpu.
        folder: Folder of the new run, or an address of fsspec such as s3://bucket/run; runs/<name> by default.
        resume: Folder or address of a run that was stopped, to continue it.
        init: A model to start from: a saved model, a run or hf://user/name. With other labels the head is reset.
        dry_run: Open the data, build the model, print the resolved config, and stop. No synthetic data is made.
        evaluate: Run `horst evaluate` after training.
        set: Entries to change, as key=value; `--key value` is short for it.
    """
    from horst.configs.run_file import check_paths
    from horst.extras import require
    from horst.io import is_url
    from horst.places import RUN

    changes = overrides(train, set, entries)
    if ray is not None:
        _train_on_ray(run, folder, resume, init, evaluate, changes, RayOptions(ray, cpus, gpus))
        return
    if resume is not None:
        given = {"a config": run, "--folder": folder, "--init": init, "options": changes}
        if others := [name for name, value in given.items() if value]:
            raise ConfigError(f"--resume continues a run as it was: leave out {', '.join(others)}")
        if not is_url(resume) and not (Path(resume) / RUN).is_file():
            raise ConfigError(f"{resume} is no run: it has no {RUN}; pass a folder of `horst train`")
        with working("loading the packages for training"):
            from horst.training import fit
        done = fit.resume(resume)
        if evaluate:
            _evaluate(done)
        return
    if run is None:
        raise ConfigError("name a run, such as somethings/cpu or a YAML file, or --resume RUN")
    changes += [f"model.init={init}"] if init is not None else []
    check_paths(run, changes)
    with working("loading torch"):
        from horst.training.config import RunConfig
        from horst.training.run import Run, is_first
        from horst.training.speed import resolve

    config = RunConfig.from_file(run, changes)
    for name in ("wandb", "mlflow"):
        if name in (config.trainer.loggers or ()):
            require(name, name)  # before any data is made
    if not dry_run and is_first():
        Run(folder or Path("runs") / config.name).check_new()
    with working("loading the packages for training"):
        from horst.training import fit
    if dry_run:
        with working("opening the data and building the model"):
            data, _ = fit.prepare(config, fit.data_module(config, planned=True))
        if (notice := data.source.not_made) is not None:
            Console(stderr=True).print(notice, highlight=False)
        print(resolve(config)[0].to_yaml(), end="")
        return
    data = fit.data_module(config)
    done = fit.train(config, folder, data=data)
    if evaluate:
        _evaluate(done, data)


class RayOptions(NamedTuple):
    address: str
    cpus: float
    gpus: float | None


def _train_on_ray(
    run: Source | None,
    folder: RunFolder | None,
    resume: RunFolder | None,
    init: Source | None,
    evaluate: bool,
    changes: list[str],
    ray: RayOptions,
) -> None:
    """The same command on trainer.nodes machines of a Ray cluster; it is resumed when one of them is lost."""
    from horst.cluster import RayGroupLauncher
    from horst.io import is_url
    from horst.remote import forget
    from horst.tasks import Task, run_tasks, sigterm_interrupts
    from horst.training.config import RunConfig
    from horst.training.run import Run

    if (run is None) == (resume is None):
        raise ConfigError("name a run, such as somethings/cpu or a YAML file, or --resume RUN")
    config = RunConfig.from_file(run, changes) if run is not None else RunConfig.from_file(Run(resume or "").config)
    if not isinstance(config.trainer.devices, int):
        raise ConfigError("with --ray, trainer.devices is the number of processes on each machine: set it")
    place = str(resume or folder or Path("runs") / config.name)
    if resume is None:
        Run(place).check_new()
    resumed = ["train", "--resume", place, *(["--evaluate"] if evaluate else [])]
    new = ["train", str(run), "--folder", place, *(["--init", str(init)] if init is not None else [])]
    new += [*(["--evaluate"] if evaluate else []), *(f"--{change}" for change in changes)]

    def again() -> list[str]:
        if is_url(place):
            forget(place)
        return resumed if Run(place).config.is_file() else new

    nodes, devices = config.trainer.nodes, config.trainer.devices
    launcher = RayGroupLauncher(ray.address, nodes=nodes, devices=devices, cpus=ray.cpus, gpus=ray.gpus)
    log = (Path("runs") / config.name if is_url(place) else Path(place)).with_suffix(".log")
    task = Task(config.name, log, resumed if resume is not None else new, again, None if is_url(place) else Path(place))
    with sigterm_interrupts():
        failed = run_tasks([task], launcher, Console(highlight=False).print)
    if failed:
        first = failed[0]
        raise TaskError(f"the run ended with status {first.status}: {first.log}: {' / '.join(first.lines[-3:])}")


def _evaluate(run: Run, data: ClipDataModule | None = None) -> None:
    """Evaluate in the first process of a distributed run. `data`: those of the run, as training left them."""
    import torch.distributed as dist

    from horst.cli.evaluate import show_evaluation
    from horst.training.evaluated import open_evaluated
    from horst.training.run import is_first

    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
    if is_first():
        show_evaluation(open_evaluated(run.place, training=data))


def configs(pattern: str = "*", /, *, copy: Path | None = None) -> None:
    """List the packaged configs, which `horst train` and `horst study` take by name, or copy them for editing.

    Args:
        pattern: Names to list, such as 'somethings/*'.
        copy: Copy them into this folder, with the files that they are based on.
    """
    from rich.table import Table
    from rich.text import Text

    from horst.configs import copy_configs, described, list_configs

    names = list_configs(pattern)
    if not names:
        raise ConfigError(f"no packaged config matches {pattern!r}{did_you_mean(pattern, list_configs())}")
    console = Console(highlight=False)
    if copy is None and console.is_terminal:
        table = Table("config", "", box=None, padding=(0, 2, 0, 0), show_header=False)
        for name in names:
            table.add_row(Text(name, no_wrap=True), described(name))
        console.print(table)
        return
    for file in names if copy is None else copy_configs(pattern, copy):
        console.print(str(file))


def teach(clips: Path, model: Path, /, *, base: Source = "motion_pool", overwrite: Flag = False) -> None:
    """Teach a model your own actions from a few video clips of each, and save it.

    Args:
        clips: A folder CLIPS/<label>/*.mp4 with a few clips of 2 to 4 s for each label, or a CSV file with the columns
            path and label.
        model: Folder that the model is saved to.
        base: The model that gets a new head: motion_pool (videos of people), a saved model, a run or hf://user/name.
        overwrite: Replace an existing model.
    """
    from rich.table import Table

    from horst.places import find_model

    if base != "motion_pool":
        find_model(base)
    if not clips.exists():
        remedy = "it takes one with a folder of clips for each label, or a CSV file"
        raise DataError(f"{clips}: there is no such folder; {remedy}")
    with working("loading torch"):
        from horst.finetune import finetune
    with progress(transient=True) as bar:
        task = bar.add_task("reading", total=100)

        def report(now: FinetuneProgress) -> None:
            bar.update(task, completed=round(100 * now.fraction), description=now.message)

        result = finetune(clips, model, base=base, overwrite=overwrite, report=report)
    console = Console(highlight=False)
    if held_out := result.held_out:
        table = Table("label", "held out", "correct", "taken for", title="Clips that the model was not trained on")
        for label in held_out.labels:
            others = ", ".join(f"{other} ({count})" for other, count in label.confused.items())
            table.add_row(label.label, str(label.clips), f"{label.correct / label.clips:.0%}", others)
        console.print(table)
        half, end = held_out.correct_at_half / held_out.clips, held_out.accuracy
        console.print(f"correct: {half:.0%} after half of the clip, {end:.0%} at its end")
    for sentence in result.advice:
        console.print(f"- {sentence}")
    console.print(f"{result.path}: {result.clips} clips of {len(result.labels)} labels, {result.seconds:.0f} s")
    console.print(f"Try it: horst predict {result.path} camera:0")
