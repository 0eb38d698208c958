"""`horst train`: a new run, or on with one that was stopped."""

from __future__ import annotations

from collections.abc import Sequence

from horst.data.module import ClipDataModule
from horst.errors import ConfigError
from horst.training.config import RunConfig
from horst.training.fit import data_module, is_first, prepare, resume, train
from horst.training.run import Run


def run(
    config: str | None,
    *,
    folder: str | None,
    resumed: str | None,
    init: str | None,
    dry_run: bool,
    evaluated: bool,
    overrides: Sequence[str],
) -> None:
    if resumed is not None:
        given = {"a config": config, "--folder": folder, "--init": init, "options": " ".join(overrides)}
        if others := [name for name, value in given.items() if value]:
            raise ConfigError(f"--resume goes on with a run as it was: leave out {', '.join(others)}")
        done = resume(resumed)
        if evaluated:
            _evaluate(done)
        return
    if config is None:
        raise ConfigError("name a run, such as somethings/cpu or a YAML file, or --resume RUN")
    chosen = RunConfig.from_file(config, [*overrides, *([f"model.init={init}"] if init is not None else [])])
    if dry_run:
        prepare(chosen)
        print(chosen.to_yaml(), end="")
        return
    data = data_module(chosen)
    done = train(chosen, folder, data=data)
    if evaluated:
        _evaluate(done, data)


def _evaluate(run: Run, data: ClipDataModule | None = None) -> None:
    """By the first process of a distributed run alone, when the others no longer count on it.

    `data`: those of the run, as training left them.
    """
    import torch.distributed as dist

    from horst.cli.evaluate import run as evaluate

    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
    if is_first():
        evaluate(str(run.folder), training=data)
