"""Print the lowest version that pyproject.toml allows of each dependency, as constraints of pip.

Extras of horst-video that an extra names are followed. What constraints.txt pins keeps that version: PyPI's builds of
other versions of torch bring gigabytes of CUDA packages. `--torch` takes the lowest version of these too.

    python tools/lowest.py dev > lowest.txt && pip install -c lowest.txt --editable '.[dev]'
"""

import argparse
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = "horst-video"


def requirements(extra: str) -> Iterator[Requirement]:
    """The dependencies of the project with an extra, on this machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting, seen = [extra], {extra}
    texts = list(project["dependencies"])
    while waiting:
        texts += project["optional-dependencies"][waiting.pop()]
        while texts:
            found = Requirement(texts.pop())
            if found.name == PROJECT:
                waiting += found.extras - seen
                seen |= found.extras
            elif found.marker is None or found.marker.evaluate():
                yield found


def lowest(requirement: Requirement) -> str:
    """The version after >= or ==."""
    bounds = [bound.version for bound in requirement.specifier if bound.operator in (">=", "==")]
    if len(bounds) != 1:
        raise SystemExit(f"{requirement}: one lowest version is needed, as in {requirement.name}>=1.0")
    return bounds[0]


def pinned() -> dict[str, str]:
    """What constraints.txt pins."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {str(canonicalize_name(name)): version for name, version in pins}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extra", help="an extra of pyproject.toml")
    parser.add_argument("--torch", action="store_true", help="the lowest torch too, over that of constraints.txt")
    given = parser.parse_args()
    found = {str(canonicalize_name(each.name)): lowest(each) for each in requirements(given.extra)}
    if not given.torch:
        found |= pinned()
    for name, version in sorted(found.items()):
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
