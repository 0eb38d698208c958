"""`horst study`: all runs of a study that are not done yet, then its tables and plots."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from horst.data.tables import read_json
from horst.errors import ConfigError, StudyError
from horst.files import write_text
from horst.registry import check_positive
from horst.studies.children import Failure, Launch, hold, polite, work
from horst.studies.config import Study, find_study
from horst.studies.plan import ASKED, Job, adopt, finished, identity, plan, state
from horst.studies.prepare import prepare
from horst.studies.report import read_results, values_table, write_results
from horst.training.run import Run, commit


@dataclass(frozen=True, slots=True)
class Asked:
    """What a folder's runs are of."""

    changes: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)


def run(
    name: str,
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
    study = Study.from_file(find_study(name))
    place = Path(folder or Path("runs") / "studies" / study.name)
    console = Console(highlight=False, markup=False)
    asked = _asked(place)
    if report and not overrides:
        overrides = asked.changes
    # Seeds come one after the other. Where it was asked for something else, its runs are refused below.
    wanted = sorted({*(seeds or ([] if report and asked.seeds else study.seeds)), *asked.seeds})
    everything = plan(study, place, seeds=wanted, changes=overrides)
    command = _command(name, folder, wanted if wanted != list(study.seeds) else [], overrides)
    if report:
        finish(study, everything, place, command, console)
        return
    jobs = plan(study, place, only=only, seeds=seeds, changes=overrides)
    with hold(place) as held:
        reached = {job.name: state(job) for job in everything}  # before work starts: what is wrong is said here
        there, code = finished(place), commit()
        for job in (job for job in jobs if reached[job.name] == "new"):
            if (found := there.get(identity(job.config, code))) is not None:
                adopt(found, job.folder)
                reached[job.name] = "done"
                console.print(f"{job.name}: the same run as {found}, taken from there", soft_wrap=True)
        states = [(job, reached[job.name]) for job in jobs]
        for job in (job for job, one in states if one in ("stopped", "trained")):
            # The same run, though its workers, or where its data lie, may be others now.
            write_text(Run(job.folder).config, job.config.to_yaml())
        write_text(place / ASKED, json.dumps({"set": list(overrides), "seeds": wanted}) + "\n")
        left = sum(one != "done" for _, one in states)
        console.print(f"{study.title}: {len(jobs)} runs, {left} to do, in {place}", soft_wrap=True)
        try:
            with polite():
                prepare(job for job, one in states if one in ("new", "stopped"))
                failures = work(
                    states,
                    parallel=parallel,
                    devices=devices,
                    launch=launch,
                    say=lambda text: console.print(text, soft_wrap=True),
                    held=held,
                )
        except KeyboardInterrupt:
            done = sum(state(job) == "done" for job in jobs)
            rest = _rest(only, parallel, devices)
            console.print(f"stopped; {done} of {len(jobs)} runs are done. Go on with: {command}{rest}", soft_wrap=True)
            raise
        finish(study, everything, place, command, console)
        if failures:
            _tell(failures, console)
            names = ", ".join(failure.job.name for failure in failures)
            again = command + _rest(only, parallel, devices)
            raise StudyError(f"{len(failures)} of {len(jobs)} runs failed: {names}; once that is mended: {again}")


def finish(study: Study, jobs: Sequence[Job], folder: Path, command: str, console: Console) -> None:
    """The tables, of what is done."""
    results = read_results(study, jobs, folder, command)
    files = write_results(results, folder)
    if not files:
        console.print(f"{folder}: no run is done yet, so there is no table", soft_wrap=True)
        return
    for line in values_table(results):
        console.print(line, soft_wrap=True)
    console.print(", ".join(map(str, files)), soft_wrap=True)


def _tell(failures: Sequence[Failure], console: Console) -> None:
    for failure in failures:
        console.print(f"\n{failure.job.name} ended with status {failure.status}; {failure.job.log}", soft_wrap=True)
        for line in failure.lines:
            console.print(f"    {line}", soft_wrap=True)


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


def _command(name: str, folder: str | None, seeds: Sequence[int], overrides: Sequence[str]) -> str:
    words = ["horst", "study", name]
    words += ["--folder", folder] if folder else []
    words += ["--seeds", *map(str, seeds)] if seeds else []
    words += ["--set", *overrides] if overrides else []
    return shlex.join(words)
