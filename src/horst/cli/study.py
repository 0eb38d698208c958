"""`horst study`: all runs of one or more studies that are not done yet, then their tables and plots."""

from __future__ import annotations

from pathlib import Path

from horst.cli.options import Entry, Flag, Names, Numbers, Source, overrides
from horst.console import Console
from horst.errors import ConfigError


def study(
    *names: Source,
    folder: Path | None = None,
    parallel: int = 1,
    only: Names = (),
    seeds: Numbers = (),
    devices: Numbers = (),
    report: Flag = False,
    set: Names = (),
    **entries: Entry,
) -> None:
    """Run a study: a declared grid of runs that can be resumed and ends in tables and plots.

    Args:
        names: Packaged studies, such as table1, or YAML files, run in one queue. Without any: list them.
        folder: Folder of its runs and results; runs/studies/<name> by default.
        parallel: Number of runs at once, on each device.
        only: Only these of its runs: --only horst conv_lstm.
        seeds: Seeds in place of the study's own: --seeds 0 1 2.
        devices: GPUs to spread runs over: --devices 0 1.
        report: Only make the tables of the finished runs.
        set: Entries of all runs to change, as key=value; `--key value` is short for it.
    """
    from horst.cli import studies
    from horst.config import check_positive

    changes = overrides(study, set, entries)
    check_positive(parallel=parallel)
    for option, numbers in (("--seeds", seeds), ("--devices", devices)):
        if min(numbers, default=0) < 0:
            raise ConfigError(f"{option} takes whole numbers from 0 on, such as {option} 0 1, and not {min(numbers)}")
    console = Console(highlight=False)
    if not names:
        if folder or only or seeds or devices or report or changes or parallel > 1:
            raise ConfigError("put the study's name first: horst study NAME --seeds 0 1 ...")
        studies.list_studies(console)
        return
    asked = list(dict.fromkeys(map(str, names)))
    if len(asked) > 1 and (folder or only):
        raise ConfigError(f"{'--folder' if folder else '--only'} is for one study, and there are {', '.join(asked)}")
    planned = [studies.plan_study(name, folder, only, seeds, changes, report=report) for name in asked]
    if report:
        studies.report_studies(planned, console)
        return
    command = studies.command(asked, folder, seeds, changes, only=only, parallel=parallel, devices=devices)
    studies.run_studies(planned, command, parallel=parallel, devices=devices, console=console)
