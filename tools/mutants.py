"""Change the code in one place at a time and see whether a test fails.

    python tools/mutants.py                                          # 200 mutants of all areas
    python tools/mutants.py --only evaluation --sample 40 --seed 1
    python tools/mutants.py --only data/folds.py --sample 20

cosmic-ray makes the mutants. Each is tested with the tests that execute the changed line, until one fails: first those
of the same area, quick ones first, up to `--budget` seconds in all. Which test executes what is recorded once for each
file of tests, and again when that file changes. Everything is kept in .mutants/. A killed run goes on where it was, and
a mutant is not tested again while its module is the same.

Each test that noticed a mutant is run once on the original code. If it fails there too, it is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from mutants_draw import Mutant, change, draw, source_of
from mutants_forks import ROOT, STORE, Task, digest, made_copies, preload, run_pytest, run_tasks
from mutants_tests import Index, record_all

ACCEPTED = ROOT / "tools" / "accepted_mutants.toml"
LEAST = 0.9
"""The share of mutants that must be noticed."""
NOTHING = (0, 4, 5, 99)
"""Exit statuses that notice nothing: all passed, or tests were not run."""
Done = Callable[[list[str], int | None, float], None]


class Chooser:
    """Runs the given tests in their order, and names those that failed."""

    def __init__(self, tests: list[str], failed: Path) -> None:
        self.tests, self.failed = tests, failed
        failed.write_text("")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self.tests if name in found]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self.failed.open("a") as file:
                file.write(f"{report.nodeid}\n")


def task(tests: list[str], cost: float, done: Done, *flags: str, module: str = "", code: str = "") -> Task:
    """Run tests that take `cost` seconds; `done` gets those that failed, the exit status and the seconds."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))

    def run(copy: Path) -> int:
        return run_pytest(copy, [*flags, *files], Chooser(tests, copy.with_suffix(".failed")))

    def ended(copy: Path, status: int | None, seconds: float) -> None:
        failed = copy.with_suffix(".failed")
        done(failed.read_text().splitlines() if failed.exists() else [], status, seconds)
        failed.unlink(missing_ok=True)

    crowded = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # processor time is what tells, unless it waits
    return Task(run, ended, crowded * (90 + 5 * cost), 30 + 3 * cost, module, code)


class Session:
    """Results so far: one line of JSON each, the last one of a key counts."""

    def __init__(self, index: Index, options: argparse.Namespace) -> None:
        self.index, self.options, self.file = index, options, STORE / "results.jsonl"
        kept = self.file.read_text().splitlines() if self.file.exists() and not options.fresh else []
        self.results: dict[str, dict[str, Any]] = {entry["key"]: entry for entry in map(json.loads, kept)}
        controls = {key.removeprefix("control "): e for key, e in self.results.items() if key.startswith("control ")}
        self.flaky = {test for test, e in controls.items() if not e["ok"] and e["digest"] == self._file_mark(test)}
        if options.fresh:
            self.file.unlink(missing_ok=True)

    def keep(self, key: str, **about: Any) -> None:
        self.results[key] = {"key": key, **about}
        with self.file.open("a") as file:
            file.write(json.dumps(self.results[key]) + "\n")

    def known(self, mutant: Mutant, tests: list[str]) -> bool:
        """A noticed one stays so while its module is the same; a survivor is tried again with other tests."""
        entry = self.results.get(mutant.key)
        if entry is None or entry["digest"] != digest(source_of(mutant.module)) or entry["by"] in self.flaky:
            return False
        return entry["outcome"] != "survived" or entry["tests"] == self._mark(tests)

    def _mark(self, tests: list[str]) -> str:
        return digest(*sorted(tests), *sorted({self._file_mark(test) for test in tests}))

    def _file_mark(self, test: str) -> str:
        file = ROOT / test.partition("::")[0]
        return digest(file.read_text(encoding="utf-8")) if file.exists() else ""

    def run(self, mutants: dict[Mutant, str]) -> None:
        tasks = []
        for mutant, code in mutants.items():
            tests = self.index.tests(mutant, self.options.budget, self.flaky)
            if not self.known(mutant, tests):
                tasks.append(self._task(mutant, code, tests))
        print(f"{len(tasks)} of {len(mutants)} mutants to test", flush=True)
        run_tasks(tasks, self.options.jobs)
        if self._controls(mutants):
            self.run(mutants)

    def _task(self, mutant: Mutant, code: str, tests: list[str]) -> Task:
        def done(failed: list[str], status: int | None, seconds: float) -> None:
            by = failed[0] if failed else ""
            outcome = "timeout" if status is None else "survived" if status in NOTHING else "noticed"
            marks = {"digest": digest(source_of(mutant.module)), "tests": self._mark(tests)}
            times = {"seconds": round(seconds, 1), "count": len(tests)}
            self.keep(mutant.key, outcome=outcome, by=by, status=status, **times, **marks)
            print(f"{seconds:5.0f} s  {outcome:9} {mutant.module}:{mutant.line} {mutant.operator} {by}", flush=True)

        return task(tests, self.index.seconds(tests), done, "-x", module=mutant.module, code=code)

    def _controls(self, mutants: dict[Mutant, str]) -> bool:
        """Run what noticed a mutant on the original code; whether something new failed there."""
        known, due = set(self.flaky), dict[str, list[str]]()
        for test in sorted({self.results[m.key]["by"] for m in mutants} - {""}):
            if self.results.get(f"control {test}", {}).get("digest") != self._file_mark(test):
                due.setdefault(test.partition("::")[0], []).append(test)

        def done(tests: list[str], failed: list[str], status: int | None) -> None:
            for test in tests:
                ok = status is not None and test not in failed
                self.keep(f"control {test}", ok=ok, digest=self._file_mark(test))
                self.flaky |= set() if ok else {test}

        tasks = [task(t, self.index.seconds(t), lambda f, s, _, t=t: done(t, f, s)) for t in due.values()]  # type: ignore[misc]
        run_tasks(tasks, self.options.jobs)
        return self.flaky > known


def report(session: Session, mutants: dict[Mutant, str]) -> int:
    entries = tomllib.loads(ACCEPTED.read_text(encoding="utf-8")).get("accepted", []) if ACCEPTED.exists() else []
    reasons = {(e["module"], e["line"], e["mutant"]): e["reason"] for e in entries}
    counts: dict[str, Counter[str]] = {}
    table, unexplained = [], 0
    for mutant, code in sorted(mutants.items(), key=lambda pair: (pair[0].module, pair[0].line)):
        entry = session.results[mutant.key]
        counts.setdefault(mutant.module.split("/")[0], Counter())[entry["outcome"]] += 1
        before, after = change(mutant, code)
        reason = reasons.get((mutant.module, before, after), "")
        table.append(asdict(mutant) | entry | {"before": before, "after": after, "reason": reason})
    survivors = [row for row in table if row["outcome"] == "survived"]
    lines = []
    for row in survivors:
        unexplained += not row["reason"]
        lines += [f"{row['module']}:{row['line']}", f"  - {row['before']}", f"  + {row['after']}"]
        lines += [f"  {row['reason'] or 'NOT EXPLAINED'} ({row['count']} tests)", ""]
    total = sum(counts.values(), Counter())
    lines += [f"{'area':12}{'mutants':>8}{'noticed':>9}{'timeout':>9}{'survived':>10}{'share':>8}"]
    for area, row in [*sorted(counts.items()), ("all", total)]:
        share = 1 - row["survived"] / row.total()
        lines += [f"{area:12}{row.total():8}{row['noticed']:9}{row['timeout']:9}{row['survived']:10}{share:8.1%}"]
    share = 1 - total["survived"] / total.total()
    about = {"sample": total.total(), "seed": session.options.seed, "only": session.options.only, "share": share}
    (STORE / "report.json").write_text(json.dumps(about | {"mutants": table}, indent=1))
    (STORE / "report.txt").write_text("\n".join(lines) + "\n")
    print(
        "\n".join(
            ["", *lines, "", f"{unexplained} survivors not explained in {ACCEPTED.name}; {STORE / 'report.json'}"]
        )
    )
    return int(bool(unexplained) or share < LEAST)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", default=[], help="an area or a module, e.g. data/folds.py; repeatable"
    )
    parser.add_argument("--sample", type=int, default=200, help="how many mutants")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--budget", type=float, default=40.0, help="seconds of tests for a mutant that survives")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results and what tests execute")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that its processes end with it
    mutants = draw(options.only, options.sample, options.seed)
    areas = {mutant.module.split("/")[0] for mutant in mutants} if options.only else set[str]()
    preload()
    with made_copies(options.jobs):
        session = Session(Index(record_all(options.jobs, areas, options.fresh)), options)
        session.run(mutants)
    return report(session, mutants)


if __name__ == "__main__":
    sys.exit(main())
