"""What a release consists of: complete archives of one version, and a Containerfile that needs nothing else."""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import hatchling.build
import pytest
from packaging.requirements import Requirement

import horst
from horst.cli import create_app


@pytest.fixture(scope="module")
def archives(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        wheel, sdist = hatchling.build.build_wheel(str(folder)), hatchling.build.build_sdist(str(folder))
    return folder / wheel, folder / sdist


def package_files(root: Path) -> set[str]:
    source = root / "src"
    files = (file for file in (source / "horst").rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(source).as_posix() for file in files}


def test_the_wheel_has_every_file_of_the_package(root: Path, archives: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(archives[0]) as wheel:
        names = set(wheel.namelist())
        about = f"horst_video-{horst.__version__}.dist-info"
        assert wheel.read(f"{about}/licenses/LICENSE") == (root / "LICENSE").read_bytes()
        assert "horst = horst.cli:main" in wheel.read(f"{about}/entry_points.txt").decode()
    assert {name for name in names if not name.startswith(f"{about}/")} == package_files(root)
    for needed in ("py.typed", "configs/somethings/cpu.yaml", "assets/models/kitchen/model.safetensors"):
        assert f"horst/{needed}" in names


def test_the_source_distribution_can_be_built_tested_and_documented(root: Path, archives: tuple[Path, Path]) -> None:
    with tarfile.open(archives[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {f"src/{name}" for name in package_files(root)} <= names
    makefile = (root / "Makefile").read_text()
    for needed in ("pyproject.toml", "constraints.txt", "Makefile", "LICENSE", "mkdocs.yml", "docs/index.md"):
        assert needed in names
    for tool in re.findall(r"tools/\w+\.py", makefile):
        assert tool in names


def test_one_version(root: Path) -> None:
    newest = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (root / "CHANGELOG.md").read_text(), re.M)
    citation = (root / "CITATION.cff").read_text()
    assert newest
    assert newest[1] == horst.__version__
    assert set(re.findall(r"horst_video-([\d.]+)-py3", (root / "README.md").read_text())) == {newest[1]}
    assert f"\nversion: {newest[1]}\ndate-released: {newest[2]}\n" in citation


def tool(root: Path, name: str) -> Any:
    sys.path.insert(0, str(root / "tools"))
    try:
        return import_module(name)
    finally:
        sys.path.pop(0)


def test_every_dependency_has_a_lowest_version_that_is_allowed(root: Path) -> None:
    lowest = tool(root, "lowest")
    for extra in tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]:
        for requirement in lowest.requirements(extra):
            assert lowest.lowest(requirement) in requirement.specifier, requirement
    with pytest.raises(SystemExit, match=r"numpy<3: one lowest version is needed, as in numpy>=1\.0"):
        lowest.lowest(Requirement("numpy<3"))


def test_the_release_check_knows_every_extra(root: Path) -> None:
    extras = set(tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    assert set(tool(root, "check_release").CHECKS) == {""} | extras - {"dev", "docs", "mutants"}


def test_the_steps_of_the_containerfile_can_run_elsewhere(root: Path) -> None:
    """`make release-check` runs them in a folder that stands for WORKDIR, so no step may use another place."""
    steps = tool(root, "run_containerfile").parse((root / "Containerfile").read_text())
    found = dict(steps)
    assert steps[0][0] == "FROM"
    assert found["FROM"].endswith("-slim")
    for name, rest in steps:
        if name in ("RUN", "ENV", "VOLUME"):
            paths = re.findall(r"(?<![\w:/.])/[\w/]+", rest)
            assert all(path.startswith(found["WORKDIR"]) for path in paths), rest
    assert int(found["USER"]) > 0


def test_the_containerfile_starts_the_server(root: Path, tmp_path: Path) -> None:
    runner = tool(root, "run_containerfile")
    run = runner.ContainerRun(root, tmp_path, {}, {})
    for name, rest in runner.parse((root / "Containerfile").read_text()):
        if name not in ("RUN", "COPY"):
            run.step(name, rest)
    assert run.command[0] == "horst"
    function, bound, _ = create_app().parse_args([*run.command[1:], *run.default])
    assert function.__name__ == "serve"
    assert bound.arguments["host"] == "0.0.0.0"  # from outside of the container
    assert f":{bound.arguments['port']}/healthz" in run.health[-1]
    assert run.environment["HOME"] == str(tmp_path / bound.arguments["folder"])  # caches go where it may write


def test_an_unknown_instruction_is_refused(root: Path) -> None:
    with pytest.raises(SystemExit, match="SHELL"):
        tool(root, "run_containerfile").parse('FROM x\nSHELL ["bash"]\n')
