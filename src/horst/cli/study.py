"""`horst study`: all runs of one or more studies that are not done yet, then their tables and plots."""

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from horst.cli.options import Cpus, Entry, Flag, Gpus, Names, Numbers, Ray, Source, overrides, ray_launcher
from horst.console import Console, working
from horst.errors import ConfigError


def study(
    *names: Source,
    folder: Path | None = None,
    videos: Path | None = None,
    parallel: int = 1,
    only: Names = (),
    seeds: Numbers = (),
    devices: Numbers = (),
    ray: Ray = None,
    cpus: Cpus = 1.0,
    gpus: Gpus = None,
    report: Flag = False,
    compare: Path | None = None,
    set: Names = (),
    **entries: Entry,
) -> None:
    """Run a study: a declared grid of runs that can be resumed and ends in tables and plots.

    Args:
        names: Packaged studies, such as table1, or YAML files, run in one queue. Without any: list them.
        folder: Folder of its runs and results; runs/studies/<name> by default.
        videos: Folder of videos, for studies such as cad120: first make the data of the runs, maps or packed frames.
        parallel: Number of runs at once, on each device.
        only: Only these of its runs: --only horst conv_lstm.
        seeds: Seeds in place of the study's own: --seeds 0 1 2.
        devices: GPUs to spread runs over: --devices 0 1.
        report: Only make the tables of the finished runs.
        compare: A results.json of an earlier execution: fail if a value of the finished runs differs in any digit.
        set: Entries of all runs to change, as key=value; `--key value` is short for it.
    """
    from horst.config import check_positive
    from horst.configs import find_study
    from horst.tasks import LocalLauncher

    changes = overrides(study, set, entries)
    for name in names:
        find_study(name)
    with working("loading torch"):
        from horst.studies import runner
        from horst.studies.config import Study
        from horst.studies.repeat import EarlierResults
    check_positive(parallel=parallel)
    for option, numbers in (("--seeds", seeds), ("--devices", devices)):
        if min(numbers, default=0) < 0:
            raise ConfigError(f"{option} takes whole numbers from 0 on, such as {option} 0 1, and not {min(numbers)}")
    console = Console(highlight=False)
    if not names:
        if folder or videos or only or seeds or devices or report or compare or changes or parallel > 1 or ray:
            raise ConfigError("put the study's name first: horst study NAME --seeds 0 1 ...")
        _list(console)
        return
    asked = list(dict.fromkeys(map(str, names)))
    if len(asked) > 1 and (folder or only or compare):
        option = "--folder" if folder else "--only" if only else "--compare"
        raise ConfigError(f"{option} is for one study, and there are {', '.join(asked)}")
    if report and videos is not None:
        raise ConfigError("--report needs no --videos: the tables are of finished runs")
    if ray is not None and (devices or parallel > 1):
        raise ConfigError("--parallel and --devices are for one machine: with --ray give --cpus and --gpus of a run")
    # Read before the runs: it may be the file that their results are written to.
    earlier = None if compare is None else EarlierResults.read(compare, Study.from_file(asked[0]).name)
    if videos is not None:
        for name in asked:
            runner.make_study_data(name, videos, only, changes, console)
    planned = [runner.plan_study(name, folder, only, seeds, changes, report=report) for name in asked]
    if report:
        runner.report_studies(planned, console, earlier=earlier)
        return
    launcher = ray_launcher(ray, cpus, gpus) or LocalLauncher(parallel, devices)
    options = {"only": only, "parallel": parallel, "devices": devices, "ray": ray, "cpus": cpus, "gpus": gpus}
    again = runner.command(asked, folder, seeds, changes, **options, compare=compare and str(compare))
    runner.run_studies(planned, again, launcher=launcher, console=console, earlier=earlier)


def _list(console: Console) -> None:
    """The known studies, the question of each, and its number of runs."""
    from horst.studies.config import Study, known_studies

    columns = Column("study", no_wrap=True), Column("runs", justify="right"), "question"
    table = Table(*columns, box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name, file in known_studies().items():
        try:
            study = Study.from_file(file)
        except ConfigError as error:  # of one, which does not hide the others
            table.add_row(name, "", str(error))
            continue
        table.add_row(name, str(len(study.trained) * len(study.seeds) * max(1, len(study.folds))), study.question)
    console.print(table)
    console.print("horst study NAME runs what is left of a study, and makes its tables")
