"""The CPU limit is read from files of cgroups, and OpenMP waits without spinning in all processes of the commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import small_place
import videos

import horst
from horst import tasks, threads
from horst.video import VideoFile

SOURCE = Path(horst.__file__).parents[1]
PREPARED = "from horst.threads import prepare_threads; prepare_threads(); import torch"


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        (None, {}, 8),
        ("", {}, 8),
        ("0::/\n", {"cpu.max": "max 100000"}, 8),
        ("0::/\n", {"cpu.max": "350000 100000"}, 3),
        ("0::/\n", {"cpu.max": "20000 100000"}, 1),
        ("0::/\n", {"cpu.max": "1600000 100000"}, 8),
        (None, {"cpu.max": "200000 100000"}, 2),  # there is no /proc
        ("0::/a.slice/b\n", {"a.slice/b/cpu.max": "300000 100000"}, 3),
        ("0::/a.slice/b\n", {"a.slice/cpu.max": "200000 100000", "a.slice/b/cpu.max": "max 100000"}, 2),
        ("0::/a.slice/b\n", {"a.slice/cpu.max": "200000 100000", "a.slice/b/cpu.max": "400000 100000"}, 2),
        ("0::/a.slice/b\n", {"a.slice/cpu.max": "600000 100000", "a.slice/b/cpu.max": "50000 10000"}, 5),
        ("0::/a.slice/b\n", {"a.slice/c/cpu.max": "100000 100000", "c/cpu.max": "100000 100000"}, 8),  # of others
        ("0::/a:b\n", {"a:b/cpu.max": "200000 100000"}, 2),
        ("0::/../../pod\n", {"cpu.max": "200000 100000"}, 2),  # outside of the tree that is mounted
        ("4:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ("4:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2),
        ("4:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "400000", "cpu/x/cpu.cfs_period_us": "100000"}, 4),
        ("4:cpu:/x/y\n", {"cpu/x/cpu.cfs_quota_us": "400000", "cpu/x/cpu.cfs_period_us": "100000"}, 4),
        # A container that sees its own cgroup as the root, under the name that the host has for it.
        ("4:cpu:/docker/1f\n", {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2),
        ("4:cpuset:/x\n3:cpu:/\n", {"cpu/x/cpu.cfs_quota_us": "100000", "cpu/x/cpu.cfs_period_us": "100000"}, 8),
        ("0::/a\n4:cpu:/b\n", {"cpu/b/cpu.cfs_quota_us": "500000", "cpu/b/cpu.cfs_period_us": "100000"}, 5),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "200000"}, 8),  # without its period
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "0"}, 8),
        ("0::/\n", {"cpu.max": ""}, 8),
        ("0::/\n", {"cpu.max": "200000"}, 8),
        ("0::/\n", {"cpu.max": "many 100000"}, 8),
        ("0::/\n", {"cpu.max": "0 100000"}, 8),
        ("0::/\n", {"cpu.max": "200000 100000 3"}, 8),
        ("no cgroups\n\n::\n", {"cpu.max": "200000 100000"}, 2),
    ],
)
def test_cores_of_a_container(
    own: str | None, files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(threads, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(threads, "OWN_CGROUPS", tmp_path / "own")
    if own is not None:
        (tmp_path / "own").write_text(own)
    for name, text in files.items():
        file = tmp_path / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    assert threads.available_cores() == cores


@pytest.mark.parametrize(
    ("quota", "given", "expected", "chosen"),
    [
        ("max", None, None, False),
        ("300000", None, "3", False),
        ("800000", None, None, False),  # what OpenMP takes by itself
        ("300000", "6", "6", True),
        ("max", "6", "6", True),
    ],
)
def test_threads_fit_the_limit(
    quota: str, given: str | None, expected: str | None, chosen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(threads, "CGROUPS", tmp_path)
    monkeypatch.setattr(threads, "_limited", False)
    (tmp_path / "cpu.max").write_text(f"{quota} 100000\n")
    monkeypatch.setenv("OMP_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OMP_NUM_THREADS")
    for _ in range(2):  # a program may call a command more than once
        threads.prepare_threads()
        assert os.environ.get("OMP_NUM_THREADS") == expected
        assert threads.threads_are_chosen() == chosen
    # Several tasks share the limit.
    share = tasks.LocalLauncher(3).threads()
    assert share == ({} if chosen else {"OMP_NUM_THREADS": str(max(1, threads.available_cores() // 3))})


def environment(**variables: str) -> dict[str, str]:
    """That of a user who has set these variables only."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    return {**kept, "PYTHONPATH": str(SOURCE), "OMP_DISPLAY_ENV": "VERBOSE", **variables}


def python(*words: str, **variables: str) -> tuple[str, str]:
    done = subprocess.run([sys.executable, "-P", *words], env=environment(**variables), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def spinning(text: str) -> list[bool]:
    """Whether threads spin, as each OpenMP runtime says that was loaded."""
    found = re.findall(r"(?:GOMP_SPINCOUNT|KMP_BLOCKTIME) ?= ?'(\w+)", text)
    return [count != "0" for count in found]


def test_the_variable_is_set_early_enough() -> None:
    assert spinning(python("-c", PREPARED)[1]) == [False]
    assert spinning(python("-c", "import torch")[1]) == [True]
    assert spinning(python("-c", PREPARED, OMP_WAIT_POLICY="ACTIVE")[1]) == [True]  # as the user wants it


def test_torch_takes_the_threads_of_the_limit(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    limited = "import sys, pathlib, horst.threads; horst.threads.CGROUPS = pathlib.Path(sys.argv[1]); "
    show = "; print(torch.get_num_threads())"
    assert python("-c", limited + PREPARED + show, str(tmp_path))[0] == "1\n"


def test_the_library_leaves_the_environment_alone() -> None:
    code = "import os; before = dict(os.environ); import horst; horst.models; print(dict(os.environ) == before)"
    assert python("-c", code)[0] == "True\n"


CHILDREN = {
    "run of a study": """
        from horst.tasks import start_process
        start_process(["info", model], Path("log"), {}).wait()
    """,
    "task of a cluster": """
        from horst.cluster import run_command
        run_command(["horst", "info", model], ".", [("log", {})])
    """,
    "finetuning": """
        import time
        from horst.finetune import Finetuner, Recordings
        finetuner = Finetuner(Recordings("recordings"), "models", "no such base", threads=2)
        for label in ("stop", "wave"):
            finetuner.recordings.add(label, [(i / 6, np.zeros((48, 48, 3), np.uint8)) for i in range(6)])
        finetuner.start("mine")
        while finetuner.state().state == "running":
            time.sleep(0.01)
    """,
    "download": """
        import asyncio
        from horst.errors import ExportError
        from horst.serving.downloads import _export
        Path(model, "model.safetensors").write_bytes(b"")  # the export stops there
        with contextlib.suppress(ExportError):
            asyncio.run(_export(Path(model), Path("model.onnx")))
    """,
}


@pytest.mark.parametrize("child", CHILDREN)
def test_processes_that_a_program_starts(child: str, tmp_path: Path) -> None:
    """Their threads do not spin, even if the program that uses the library has not prepared its own."""
    small_place.build(tmp_path / "place")
    (tmp_path / "messages").mkdir()
    # Each process writes its messages to a file of its own.
    redirect = "import os; os.dup2(os.open(f'{os.environ[\"MESSAGES\"]}/{os.getpid()}', os.O_CREAT | os.O_WRONLY), 2)"
    (tmp_path / "sitecustomize.py").write_text(redirect)
    imports = "import contextlib, os, sys; from pathlib import Path; import numpy as np; model = sys.argv[1]"
    program = [sys.executable, "-c", imports + textwrap.dedent(CHILDREN[child]), str(tmp_path / "place/saved")]
    variables = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE}", "MESSAGES": str(tmp_path / "messages")}
    with subprocess.Popen(program, cwd=tmp_path, env=environment(**variables)) as process:
        assert process.wait() == 0, (tmp_path / "messages" / str(process.pid)).read_text()
    others = [file for file in (tmp_path / "messages").iterdir() if file.name != str(process.pid)]
    assert [spinning(file.read_text()) for file in others if "OMP" in file.read_text()] == [[False]]


def test_the_command_line(tmp_path: Path) -> None:
    small_place.build(tmp_path / "place")
    command = ["-m", "horst", "info", str(tmp_path / "place/saved")]
    assert spinning(python(*command)[1]) == [False]
    assert spinning(python(*command, OMP_WAIT_POLICY="ACTIVE")[1]) == [True]


def test_decoders_take_the_threads_of_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FFmpeg would count the cores of the machine."""
    videos.clip(tmp_path / "clip.mp4", frames=3)
    for cores, threads_of_decoder in ((3, 3), (64, 16)):
        monkeypatch.setattr("horst.video.decode.available_cores", lambda cores=cores: cores)
        with VideoFile(tmp_path / "clip.mp4") as video:
            assert video._container.stream.codec_context.thread_count == threads_of_decoder
            assert len(list(video.frames())) == 3
