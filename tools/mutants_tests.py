"""Which test executes which line, and which tests to run for a mutant. For tools/mutants.py."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mutants_draw import Mutant, source_of
from mutants_forks import CONTEXT, ROOT, SOURCE, STORE, Task, digest, run_pytest, run_tasks

ELEMENTS = {"backbones", "benchmarks", "compat", "heads", "layers", "models", "ops"}
UNRELATED = ELEMENTS | {"synth", "viz"}
"""Folders of tests that are not of the areas that are mutated."""
FOLDERS: dict[str, str] = {}
"""Of an area's tests, where it is not called like the area."""
RECORD_LIMIT = 1200.0
"""Seconds for a file of tests while coverage is recorded."""


@dataclass(frozen=True)
class Place:
    """Where a line of source belongs to. Line numbers move, so lines are known by function and text."""

    owner: str  # the function's qualified name, "" for what runs at import
    statement: int  # its first line
    head: bool = False  # a decorator or the signature


def places(source: str) -> dict[int, Place]:
    found: dict[int, Place] = {}

    def visit(body: list[ast.stmt], prefix: str, owner: str) -> None:
        for node in body:
            begin, end = node.lineno, node.end_lineno or node.lineno
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                begin = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                name = f"{prefix}{node.name}"
                inside = "" if isinstance(node, ast.ClassDef) else name
                found.update({i: Place(inside, begin, head=True) for i in range(begin, node.body[0].lineno)})
                visit(node.body, f"{name}.", inside)
                continue
            found.update({i: Place(owner, begin) for i in range(begin, end + 1)})
            parts = [getattr(node, field, []) for field in ("body", "orelse", "finalbody")]
            parts += [part.body for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ()))]
            for part in parts:
                visit(part, prefix, owner)

    visit(ast.parse(source).body, "", "")
    return found


def line_key(place: Place, text: str) -> str:
    return f"{place.owner}|{text.strip()}"


def processor_time() -> float:
    """Seconds, with those of ended child processes. Other work on the machine does not lengthen it."""
    return sum(os.times()[:4])


def _fixture_name(made: Any, parameter: int) -> str:
    return f"{made.baseid}::{made.argname}[{parameter}]"


class Recorder:
    """What each test executes, how long it takes, and the same of fixtures that several tests share."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.tests: dict[str, dict[str, Any]] = {}
        self.fixtures: dict[str, float] = {}
        self.now = ""

    def _switch(self, name: str) -> None:
        self.now = os.environ[CONTEXT] = name
        self.coverage.switch_context(name)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            known = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
            chosen = item.callspec.indices if hasattr(item, "callspec") else {}
            shared = [made for several in known.values() for made in several if made.scope != "function"]
            names = [_fixture_name(made, chosen.get(made.argname, 0)) for made in shared]
            self.tests[item.nodeid] = {"cost": 0.0, "ok": True, "fixtures": names}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begin = processor_time()
        self._switch(item.nodeid)
        result = yield
        self._switch("")
        self.tests[item.nodeid]["cost"] += processor_time() - begin
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        before, name, begin = self.now, _fixture_name(fixturedef, request.param_index), processor_time()
        self._switch(name)
        try:
            return (yield)
        finally:
            self.fixtures[name] = processor_time() - begin
            if before in self.tests:
                self.tests[before]["cost"] -= self.fixtures[name]
            self._switch(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests[report.nodeid]["ok"] &= report.outcome == "passed"


def record(copy: Path, test_file: str, kept: Path) -> int:
    """Run a file of tests under coverage, and write what was found."""
    coverage = importlib.import_module("coverage")
    folder = Path(tempfile.mkdtemp())
    settings = folder / "rc"
    settings.write_text(
        f"[run]\nsource={copy / SOURCE}\ndata_file={folder / 'data'}\nparallel=true\ncontext=${{{CONTEXT}-}}\n"
        "disable_warnings=no-data-collected,module-not-imported,couldnt-parse\n"
    )
    os.environ["COVERAGE_PROCESS_START"] = str(settings)  # for processes that tests start
    measured = coverage.Coverage(config_file=str(settings))
    measured.start()
    recorder = Recorder(measured)
    status = run_pytest(copy, [test_file], recorder)
    measured.stop()
    measured.save()
    together = coverage.Coverage(config_file=str(settings))
    together.combine([str(folder)])
    tests = {
        name: {"cost": max(e["cost"], 0.0), "fixtures": e["fixtures"]} for name, e in recorder.tests.items() if e["ok"]
    }
    number, users = {name: i for i, name in enumerate(tests)}, dict[str, set[int]]()
    for name, entry in tests.items():
        for context in (name, *entry["fixtures"]):
            users.setdefault(context, set()).add(number[name])
    lines: dict[str, dict[str, list[int]]] = {}
    for path in together.get_data().measured_files():
        text = Path(path).read_text(encoding="utf-8")
        where, rows, found = places(text), text.splitlines(), dict[str, set[int]]()
        for line, contexts in together.get_data().contexts_by_lineno(path).items():
            if line in where and (by := set().union(*(users.get(context, ()) for context in contexts))):
                found.setdefault(line_key(where[line], rows[line - 1]), set()).update(by)
        lines[Path(path).relative_to(copy / SOURCE).as_posix()] = {key: sorted(by) for key, by in found.items()}
    shutil.rmtree(folder)
    failed = [name for name, entry in recorder.tests.items() if not entry["ok"]]
    about = {"digest": digest((copy / test_file).read_text()), "tests": tests, "unused": failed}
    temporary = kept.with_suffix(".part")
    temporary.write_text(json.dumps(about | {"fixtures": recorder.fixtures, "lines": lines}))
    temporary.replace(kept)
    return status


def _is_wanted(file: str, folders: set[str]) -> bool:
    folder = file.split("/")[1]
    return folder in folders or folder.endswith(".py") if folders else folder not in UNRELATED


def record_all(jobs: int, areas: set[str], fresh: bool = False) -> list[dict[str, Any]]:
    """Of the tests of these areas, or of all; only files that changed are run again, unless `fresh`."""
    wanted = {FOLDERS.get(area, area) for area in areas}
    files = [f.relative_to(ROOT).as_posix() for f in sorted((ROOT / "tests").rglob("test_*.py"))]
    folder = STORE / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    where = {f: folder / f"{f.replace('/', '+')}.json" for f in files if _is_wanted(f, wanted)}
    due = []
    for name, kept in where.items():
        if fresh or not kept.exists() or json.loads(kept.read_text())["digest"] != digest((ROOT / name).read_text()):
            kept.unlink(missing_ok=True)
            due.append(name)

    def done(name: str, copy: Path, status: int | None) -> None:
        print(
            f"recorded {name}" if where[name].exists() else f"could not record {name} ({status}): {copy}.log",
            flush=True,
        )

    run_tasks(
        [
            Task(lambda copy, n=name: record(copy, n, where[n]), lambda c, s, _, n=name: done(n, c, s), RECORD_LIMIT)  # type: ignore[misc]
            for name in due
        ],
        jobs,
    )
    return [json.loads(kept.read_text()) for kept in where.values() if kept.exists()]


class Index:
    """Which tests to run for a mutant."""

    def __init__(self, recorded: list[dict[str, Any]]) -> None:
        self.cost: dict[str, float] = {}
        self.fixtures: dict[str, dict[str, float]] = {}
        self.lines: dict[str, dict[str, set[str]]] = {}
        for file in recorded:
            names = list(file["tests"])
            for name, entry in file["tests"].items():
                self.cost[name] = entry["cost"]
                self.fixtures[name] = {f: file["fixtures"].get(f, 0.0) for f in entry["fixtures"]}
            for module, lines in file["lines"].items():
                for key, by in lines.items():
                    self.lines.setdefault(module, {}).setdefault(key, set()).update(names[i] for i in by)

    def tests(self, mutant: Mutant, budget: float, without: set[str]) -> list[str]:
        """By file, in the order in which they are run."""
        lines, source = self.lines.get(mutant.module, {}), source_of(mutant.module)
        place = places(source).get(mutant.line, Place("", mutant.line))
        rows, own = source.splitlines(), f"tests/{FOLDERS.get(area := mutant.module.split('/')[0], area)}/"
        near: set[str] = set()
        if place.owner and not place.head:
            near = lines.get(line_key(place, mutant.text), set())
            near = near or lines.get(line_key(place, rows[place.statement - 1]), set())
        if place.owner and not near:
            near = set().union(*(by for key, by in lines.items() if key.startswith(f"{place.owner}|")))
        every = near
        if not place.owner:  # runs at import: tests of lines that name what is defined here come first
            words = re.findall(r"^\w+", rows[place.statement - 1].strip()) + re.findall(r"^\w+", mutant.text)
            near = set().union(*(by for key, by in lines.items() if any(re.search(rf"\b{w}\b", key) for w in words)))
            every = near | set().union(*lines.values())
        every = (every or {name for name in self.cost if name.startswith(own)}) - without
        price = {t: self.cost[t] + sum(self.fixtures[t].values()) for t in every}
        spent, chosen, ready = 0.0, dict[str, list[str]](), set[str]()
        for test in sorted(every, key=lambda t: (t not in near, price[t] * (1 if t.startswith(own) else 3), t)):
            more = self.cost[test] + sum(cost for name, cost in self.fixtures[test].items() if name not in ready)
            if not chosen or spent + more <= budget:
                spent += more
                ready |= set(self.fixtures[test])
                chosen.setdefault(test.partition("::")[0], []).append(test)
        return [test for tests in chosen.values() for test in tests]

    def seconds(self, tests: list[str]) -> float:
        """Of processor time, where shared fixtures are made once."""
        shared = {name: cost for test in tests for name, cost in self.fixtures[test].items()}
        return sum(self.cost[test] for test in tests) + sum(shared.values())
