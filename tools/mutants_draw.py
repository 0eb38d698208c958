"""Mutants by cosmic-ray, and a random sample of them. For tools/mutants.py."""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mutants_forks import ROOT, SOURCE, STORE, digest

AREAS = ("data", "video", "evaluation", "streaming", "serving", "studies", "export")
SAME = ("Eq_Is", "NotEq_IsNot", "Is_Eq", "IsNot_NotEq")
"""Comparisons that tell apart the same values here."""
MESSAGES = {"print", "warn", "debug", "info", "warning", "error", "exception", "log", "fail"}
"""Functions whose text people read."""


@dataclass(frozen=True)
class Mutant:
    module: str  # below src/horst
    operator: str
    occurrence: int  # of this operator in the module
    line: int
    text: str  # of the line
    nth: int  # of this operator in lines of that text

    @property
    def key(self) -> str:
        return f"{self.module} | {self.text} | {self.operator} {self.nth}"


def source_of(module: str) -> str:
    return (ROOT / SOURCE / module).read_text(encoding="utf-8")


def left_out(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """From where to where no mutants are made. CONTRIBUTING.md has the list."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        parts: list[Any] = []
        name = ""
        if isinstance(node, ast.arg | ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = [node.returns, *(d for d in node.decorator_list if ast.unparse(d) in ("cache", "overload"))]
        elif isinstance(node, ast.If) and re.match(r"TYPE_CHECKING|__name__ ==", ast.unparse(node.test)):
            parts = [node]
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            parts = [k.value for k in node.keywords if (name, k.arg) in (("zip", "strict"), ("dataclass", "slots"))]
            parts += [node] if name in ("kill", "killpg") else []  # a mutant must not end other processes
        if isinstance(node, ast.Raise) or name in MESSAGES:
            parts += [inner for inner in ast.walk(node) if isinstance(inner, ast.JoinedStr)]
        if isinstance(node, ast.Assign) and node in tree.body:  # a type: X = A | B
            parts = [node.value] if re.fullmatch(r"[\w.\[\], ]+(\| [\w.\[\], ]+)+", ast.unparse(node.value)) else []
        for part in filter(None, parts):
            # A decorator is mutated at its "@".
            yield (part.lineno, part.col_offset - 1), (part.end_lineno, part.end_col_offset)


def mutants_of(module: str) -> list[Mutant]:
    source, kept = source_of(module), STORE / "made" / f"{module.replace('/', '+')}.json"
    mark = digest(source, Path(__file__).read_text(encoding="utf-8"))
    if kept.exists() and (found := json.loads(kept.read_text()))["digest"] == mark:
        return [Mutant(**each) for each in found["mutants"]]
    spans, lines, seen, made = list(left_out(source)), source.splitlines(), Counter[tuple[str, str]](), []
    for item in importlib.import_module("cosmic_ray.commands.init")._all_work_items([ROOT / SOURCE / module], {}):
        spec = item.mutations[0]
        name, text = spec.operator_name.removeprefix("core/"), lines[spec.start_pos[0] - 1].strip()
        if not name.endswith(SAME) and not any(begin <= spec.start_pos < end for begin, end in spans):
            made.append(Mutant(module, name, spec.occurrence, spec.start_pos[0], text, seen[name, text]))
            seen[name, text] += 1
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"digest": mark, "mutants": [asdict(each) for each in made]}))
    return made


def mutated(mutant: Mutant) -> str | None:
    """The module's source; None where it is not another program."""
    operator = importlib.import_module("cosmic_ray.plugins").get_operator(f"core/{mutant.operator}")()
    source = source_of(mutant.module)
    code = importlib.import_module("cosmic_ray.mutating").mutate_code(source, operator, mutant.occurrence)
    with contextlib.suppress(SyntaxError):
        if code and ast.dump(ast.parse(code)) != ast.dump(ast.parse(source)):
            return str(code)
    return None


def draw(only: list[str], size: int, seed: int) -> dict[Mutant, str]:
    """Uniform over all mutants, by a hash of what each changes: edits elsewhere do not change the choice."""
    modules = [f.relative_to(ROOT / SOURCE).as_posix() for a in AREAS for f in sorted((ROOT / SOURCE / a).glob("*.py"))]
    chosen = [m for m in modules if not only or any(m == o or m.startswith(f"{o}/") for o in only)]
    drawn = sorted((m for module in chosen for m in mutants_of(module)), key=lambda m: digest(seed, m.key))
    print(f"{len(drawn)} mutants in {len(chosen)} modules", flush=True)
    found: dict[Mutant, str] = {}
    for mutant in drawn:
        if len(found) < size and (code := mutated(mutant)):
            found[mutant] = code
    return found


def change(mutant: Mutant, code: str) -> tuple[str, str]:
    """The lines before and after."""
    rows = list(difflib.ndiff(source_of(mutant.module).splitlines(), code.splitlines()))
    before, after = (" ".join(row[2:].strip() for row in rows if row.startswith(f"{sign} ")) for sign in "-+")
    return before, after
