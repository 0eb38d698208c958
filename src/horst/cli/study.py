"""`horst study`: all runs of one or more studies that are not done yet, then their tables and plots."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from horst.cli.studies import show
from horst.config import check_positive
from horst.console import Console
from horst.errors import ConfigError, StudyError
from horst.io import read_json, write_text
from horst.studies.config import Study, find_study
from horst.studies.launcher import Failure, Launch, hold, polite, work
from horst.studies.plan import ASKED, Job, State, adopt, check_data, finished, identity, plan, same_data, state
from horst.studies.prepare import prepare
from horst.studies.report import read_results, values_table, write_results
from horst.training.run import Run, commit


@dataclass(frozen=True, slots=True)
class Asked:
    """What a folder's runs are of."""

    changes: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Planned:
    """One study, and what is to be done of it."""

    study: Study
    folder: Path
    everything: list[Job]
    """All runs that its tables are of."""
    jobs: list[Job]
    """Those that were asked for."""
    asked: Asked
    command: str
    """The one that makes its tables."""


def run(
    names: Sequence[str],
    *,
    folder: str | None,
    parallel: int,
    only: Sequence[str],
    seeds: Sequence[int],
    devices: Sequence[int],
    report: bool,
    overrides: Sequence[str],
    launch: Launch | None = None,
) -> None:
    check_positive(parallel=parallel)  # before any data are drawn
    if len(names) > 1 and (folder or only):
        raise ConfigError(f"{'--folder' if folder else '--only'} is for one study, and there are {', '.join(names)}")
    console = Console(highlight=False)
    if not names:
        show(console)
        return
    again = _command(names, folder, seeds, overrides) + _rest(only, parallel, devices)
    studies = [planned(name, folder, only, seeds, overrides, report=report) for name in dict.fromkeys(names)]
    if report:
        for one in studies:
            if one.folder.is_dir():
                with suppress(ConfigError), hold(one.folder):  # unless runs are at work there
                    take_over(one, {job.folder: state(job) for job in one.jobs}, console)
            finish(one, console)
        return
    with ExitStack() as stack:
        held = [stack.enter_context(hold(one.folder)) for one in studies]
        # Before work starts: what is wrong is said here.
        reached = {job.folder: state(job) for one in studies for job in one.everything}
        check_data(job for one in studies for job in one.everything)
        jobs = [job for one in studies for job in one.jobs]
        for one in studies:
            take_over(one, reached, console)
            write_text(one.folder / ASKED, json.dumps({"set": one.asked.changes, "seeds": one.asked.seeds}) + "\n")
            left = sum(reached[job.folder] != "done" for job in one.jobs)
            console.print(f"{one.study.title}: {len(one.jobs)} runs, {left} to do, in {one.folder}")
        for job in (job for job in jobs if reached[job.folder] in ("stopped", "trained")):
            # The same run, though its workers, or where its data lie, may be others now.
            write_text(Run(job.folder).config, job.config.to_yaml())
        twins = doubled(jobs, reached)
        states = [(job, reached[job.folder]) for job in jobs if job.folder not in twins]
        try:
            with polite():
                prepare(job for job, one in states if one in ("new", "stopped"))
                failures = work(
                    states,
                    parallel=parallel,
                    devices=devices,
                    launch=launch,
                    say=lambda text: console.print(text),
                    held=held,
                )
        except KeyboardInterrupt:
            for one in studies:
                take_over(one, reached, console)
            done = sum(state(job) == "done" for job in jobs)
            console.print(f"stopped; {done} of {len(jobs)} runs are done. Go on with: {again}")
            raise
        for one in studies:
            if any(job.folder in twins for job in one.jobs):
                take_over(one, reached, console)
            finish(one, console)
        if failures:
            _tell(failures, console)
            told = ", ".join(failure.job.called for failure in failures)
            raise StudyError(f"{len(failures)} of {len(jobs)} runs failed: {told}; once that is mended: {again}")


def planned(
    name: str,
    folder: str | None,
    only: Sequence[str],
    seeds: Sequence[int],
    overrides: Sequence[str],
    *,
    report: bool,
) -> Planned:
    study = Study.from_file(find_study(name))
    place = Path(folder or Path("runs") / "studies" / study.name)
    asked = _asked(place)
    if report and not overrides:
        overrides = asked.changes
    # Seeds come one after the other. Where it was asked for something else, its runs are refused before work starts.
    wanted = sorted({*(seeds or ([] if report and asked.seeds else study.seeds)), *asked.seeds})
    return Planned(
        study,
        place,
        plan(study, place, seeds=wanted, changes=overrides),
        plan(study, place, only=only, seeds=seeds, changes=overrides),
        Asked(list(overrides), wanted),
        _command([name], folder, wanted if wanted != list(study.seeds) else [], overrides),
    )


def take_over(one: Planned, reached: dict[Path, State], console: Console) -> None:
    """Copy the runs that other studies beside this one have done."""
    there, code = finished(one.folder), commit()
    for job in (job for job in one.jobs if reached[job.folder] == "new"):
        if (found := there.get(identity(job.config, code))) is not None and same_data(found, job.config):
            adopt(found, job.folder)
            reached[job.folder] = "done"
            console.print(f"{job.called}: the same run as {found}, taken from there")


def doubled(jobs: Sequence[Job], reached: Mapping[Path, State]) -> set[Path]:
    """The folders of new runs that are the same as one of another study, begun or before them: that one is enough."""
    first: dict[str, Path] = {}
    left = sorted((job for job in jobs if reached[job.folder] != "done"), key=lambda job: reached[job.folder] == "new")
    places = [(job, first.setdefault(identity(job.config, None), job.folder)) for job in left]
    return {job.folder for job, one in places if one.parent != job.folder.parent and reached[job.folder] == "new"}


def finish(one: Planned, console: Console) -> None:
    """The tables, of what is done."""
    results = read_results(one.study, one.everything, one.folder, one.command)
    files = write_results(results, one.folder)
    if not files:
        console.print(f"{one.folder}: no run is done yet, so there is no table")
        return
    for line in values_table(results):
        console.print(line)
    console.print(", ".join(map(str, files)))


def _tell(failures: Sequence[Failure], console: Console) -> None:
    for failure in failures:
        console.print(f"\n{failure.job.called} ended with status {failure.status}; {failure.job.log}")
        for line in failure.lines:
            console.print(f"    {line}")


def _asked(folder: Path) -> Asked:
    if not (folder / ASKED).is_file():
        return Asked()
    found = read_json(folder / ASKED)
    try:
        return Asked([str(change) for change in found["set"]], [int(seed) for seed in found["seeds"]])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{folder / ASKED} is damaged: delete it, and give --set and --seeds as before") from error


def _rest(only: Sequence[str], parallel: int, devices: Sequence[int]) -> str:
    """Of the command, what does not change a result."""
    words = [*(["--only", *only] if only else []), *(["--parallel", str(parallel)] if parallel > 1 else [])]
    words += ["--devices", *map(str, devices)] if devices else []
    return f" {shlex.join(words)}" if words else ""


def _command(names: Sequence[str], folder: str | None, seeds: Sequence[int], overrides: Sequence[str]) -> str:
    words = ["horst", "study", *names]
    words += ["--folder", folder] if folder else []
    words += ["--seeds", *map(str, seeds)] if seeds else []
    words += ["--set", *overrides] if overrides else []
    return shlex.join(words)
