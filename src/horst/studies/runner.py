"""Run what is left of one or more studies, and write their tables: what `horst study` does."""

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from horst.console import Console
from horst.data.config import DataConfig
from horst.errors import ConfigError, StudyError
from horst.io import read_json, write_text
from horst.studies.config import Study, Videos
from horst.studies.launcher import lock_study, run_jobs
from horst.studies.plan import (
    ASKED,
    Job,
    State,
    check_data,
    finished,
    group_folds,
    identity,
    plan,
    prepare_data,
    reuse,
    state,
)
from horst.studies.repeat import EarlierResults
from horst.studies.report import StudyResults, values_table, write_results
from horst.studies.videos import check_data_exists, make_data
from horst.tasks import Launcher, sigterm_interrupts
from horst.training.run import Run, commit


@dataclass(frozen=True, slots=True)
class PlannedStudy:
    """One study, and which of its runs are asked for."""

    study: Study
    folder: Path
    everything: list[Job]  # all runs that its tables are of
    jobs: list[Job]  # those that were asked for
    changes: list[str]  # entries of all runs that are changed
    seeds: list[int]
    command: str  # makes its tables


def make_study_data(name: str, videos: Path, only: Sequence[str], changes: Sequence[str], console: Console) -> None:
    """Make the data of a study's runs from a folder of videos. What is finished stays."""
    study = Study.from_file(name)
    if study.videos is None:
        raise ConfigError(f"{study.name} does not say how its data are made from videos: leave --videos out")
    make_data(Videos.from_file(study.videos), videos, _data(study, only, changes), console)


def plan_study(
    name: str, folder: Path | None, only: Sequence[str], seeds: Sequence[int], changes: Sequence[str], *, report: bool
) -> PlannedStudy:
    """`report`: without changes and seeds, those that the folder's runs were asked with are meant."""
    study = Study.from_file(name)
    place = folder or Path("runs") / "studies" / study.name
    asked_changes, asked_seeds = _asked(place)
    if report and not changes:
        changes = asked_changes
    if study.videos is not None and not report:  # a report reads the data of finished runs only
        check_data_exists(command([name], None, [], changes, videos="FOLDER"), _data(study, only, changes))
    study = group_folds(study, changes)
    # Seeds add up. Runs of other changes are refused before work starts.
    wanted = sorted({*(seeds or ([] if report and asked_seeds else study.seeds)), *asked_seeds})
    everything = plan(study, place, seeds=wanted, changes=changes)
    jobs = plan(study, place, only=only, seeds=seeds, changes=changes)
    shown = command([name], folder, wanted if wanted != list(study.seeds) else [], changes)
    return PlannedStudy(study, place, everything, jobs, list(changes), wanted, shown)


def run_studies(
    studies: Sequence[PlannedStudy],
    again: str,
    *,
    launcher: Launcher,
    console: Console,
    earlier: EarlierResults | None = None,
) -> None:
    """Do the runs that are left, in one queue, and write the tables.

    Args:
        studies: What to run.
        again: The command that continues it.
        launcher: Where to run it.
        console: For tables and messages.
        earlier: Values that the results must repeat.
    """
    with ExitStack() as stack:
        launcher.locks = [stack.enter_context(lock_study(one.folder)).fileno() for one in studies]
        # What is wrong is reported before work starts.
        reached = {job.folder: state(job) for one in studies for job in one.everything}
        check_data(job for one in studies for job in one.everything)
        jobs = [job for one in studies for job in one.jobs]
        for one in studies:
            _reuse(one, reached, console)
            write_text(one.folder / ASKED, json.dumps({"set": one.changes, "seeds": one.seeds}) + "\n")
            left = sum(reached[job.folder] != "done" for job in one.jobs)
            console.print(f"{one.study.title}: {len(one.jobs)} runs, {left} to do, in {one.folder}")
        for job in (job for job in jobs if reached[job.folder] in ("stopped", "trained")):
            # The same run, though its workers, or where its data lie, may be others now.
            write_text(Run(job.folder).config, job.config.to_yaml())
        duplicates = _duplicates(jobs, reached)
        states = [(job, reached[job.folder]) for job in jobs if job.folder not in duplicates]
        try:
            with sigterm_interrupts():
                prepare_data(job for job, one in states if one in ("new", "stopped"))
                failed = run_jobs(states, launcher=launcher, report=console.print)
        except KeyboardInterrupt:
            for one in studies:
                _reuse(one, reached, console)
            done = sum(state(job) == "done" for job in jobs)
            console.print(f"stopped; {done} of {len(jobs)} runs are done. Continue with: {again}")
            raise
        found = []
        for one in studies:
            if any(job.folder in duplicates for job in one.jobs):
                _reuse(one, reached, console)
            found.append(_write_tables(one, console))
        for failure in failed:
            console.print(f"\n{failure.job.title} ended with status {failure.status}; {failure.job.log}")
            for line in failure.lines:
                console.print(f"    {line}")
        if failed:
            names = ", ".join(failure.job.title for failure in failed)
            raise StudyError(f"{len(failed)} of {len(jobs)} runs failed: {names}; once that is fixed: {again}")
        if earlier is not None:
            for results in found:
                console.print(earlier.compare(results))


def report_studies(studies: Sequence[PlannedStudy], console: Console, *, earlier: EarlierResults | None = None) -> None:
    """The tables of the finished runs. `earlier`: values that they must repeat."""
    for one in studies:
        if one.folder.is_dir():
            with suppress(ConfigError), lock_study(one.folder):  # unless runs are active there
                _reuse(one, {job.folder: state(job) for job in one.jobs}, console)
        results = _write_tables(one, console)
        if earlier is not None:
            console.print(earlier.compare(results))


def command(
    names: Sequence[str], folder: Path | None, seeds: Sequence[int], changes: Sequence[str], **others: Any
) -> str:
    """The command line. `others`: options that change no result."""
    words = ["horst", "study", *names, *(["--folder", str(folder)] if folder else [])]
    for name, value in {"seeds": seeds, "set": changes, **others}.items():
        if value and value != 1:
            words += [f"--{name}", *map(str, [value] if isinstance(value, int | float | str) else value)]
    return shlex.join(words)


def _data(study: Study, only: Sequence[str], changes: Sequence[str]) -> list[DataConfig]:
    """What the runs read that were asked for, and the first one, whose data tell the groups to leave out."""
    names = [*only, study.trained[0].name] if only else ()
    jobs = plan(replace(study, leave_out=None, seeds=study.seeds[:1]), Path(), only=names, changes=changes)
    return [job.config.data for job in jobs]


def _reuse(one: PlannedStudy, reached: dict[Path, State], console: Console) -> None:
    """Copy the runs that other studies beside this one have done."""
    there, code = finished(one.folder), commit()
    for job in (job for job in one.jobs if reached[job.folder] == "new"):
        if (found := there.get(identity(job.config, code))) is not None and reuse(found, job):
            reached[job.folder] = "done"
            console.print(f"{job.title}: the same run as {found}, copied from there")


def _duplicates(jobs: Sequence[Job], reached: Mapping[Path, State]) -> set[Path]:
    """The folders of new runs that are the same as an earlier or begun one of another study: that one is enough."""
    first: dict[str, Path] = {}
    left = sorted((job for job in jobs if reached[job.folder] != "done"), key=lambda job: reached[job.folder] == "new")
    places = [(job, first.setdefault(identity(job.config, None), job.folder)) for job in left]
    return {job.folder for job, one in places if one.parent != job.folder.parent and reached[job.folder] == "new"}


def _write_tables(one: PlannedStudy, console: Console) -> StudyResults:
    results = StudyResults.read(one.study, one.everything, one.folder, one.command)
    files = write_results(results, one.folder)
    if not files:
        console.print(f"{one.folder}: no run is done yet, so there is no table")
        return results
    for line in values_table(results):
        console.print(line)
    console.print(", ".join(map(str, files)))
    return results


def _asked(folder: Path) -> tuple[list[str], list[int]]:
    """The changes and seeds that a folder's runs were asked with."""
    if not (folder / ASKED).is_file():
        return [], []
    found = read_json(folder / ASKED)
    try:
        return [str(change) for change in found["set"]], [int(seed) for seed in found["seeds"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{folder / ASKED} is damaged: delete it, and give --set and --seeds as before") from error
