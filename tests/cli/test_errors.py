"""Errors are one line with exit status 2, and leave no half-written files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import small_place
import videos
from PIL import Image as Pictures

from horst.cli import main


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set, a saved model, a run that is trained and evaluated, a folder of frames."""
    root = tmp_path_factory.mktemp("errors")
    small_place.build(root)
    assert main(["evaluate", str(root / "run")]) == 0
    (root / "frames").mkdir()
    for i in range(1, 5):
        Pictures.fromarray(videos.picture(i, 24, 32)).save(root / "frames" / f"frame_{i:04d}.jpg")
    return root


def files(root: Path) -> dict[Path, float]:
    return {path: path.stat().st_mtime for path in root.rglob("*") if path.is_file()}


def refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """One line on stderr, and nothing on stdout that looks like a result."""
    capsys.readouterr()
    assert main(args) == 2
    error = capsys.readouterr().err
    assert error.startswith("horst: ")
    assert error.count("\n") == 1
    return error


PREDICT = [
    *(["--fps", fps] for fps in ("nan", "inf", "0", "-5", "true", "1e-400", "x")),
    *(["--fps", "5", "--reset", "every", "--seconds", s] for s in ("nan", "inf", "0", "-1", "true")),
    *(["--fps", "5", "--threshold", t] for t in ("nan", "inf", "-1", "2", "true")),
    *(["--fps", "5", "--top", t] for t in ("0", "-1", "1.5", "true")),
    *(["--fps", "5", "--states", s, "--reset", "every"] for s in ("0", "-1", "true")),
    ["--fps", "5", "--device", "gpu"],
    ["--fps", "5", "--render", "out.gif"],
    ["--fps", "5", "--render", "frames"],
]


@pytest.mark.parametrize("options", PREDICT, ids=" ".join)
def test_invalid_numbers(
    place: Path, options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    before = files(place)
    refused(["predict", "saved", "frames", *options], capsys)
    assert files(place) == before


@pytest.mark.parametrize(
    "args",
    [
        ["info", "saved", "--size", "0", "5"],
        ["info", "saved", "--size", "nan", "5"],
        ["info", "saved", "--size", "true", "5"],
        ["info", "saved", "--size", "64"],
        ["info", "saved", "--size", "64", "64", "64"],
        ["data", "make", "somethings", "made", "--size", "0"],
        ["data", "make", "somethings", "made", "--size", "-4"],
        ["data", "make", "somethings", "made", "--clips", "0"],
        ["data", "make", "kitchen", "made", "--size", "0", "9"],
        ["data", "make", "kitchen", "made", "--videos", "-1"],
        ["data", "pack", "data.yaml", "packed", "--quality", "0"],
        ["data", "pack", "data.yaml", "packed", "--quality", "101"],
        ["extract", "data.yaml", "maps", "--weights", "saved", "--batch", "0"],
        ["extract", "data.yaml", "maps", "--weights", "saved", "--part", "2", "--parts", "2"],
        ["extract", "data.yaml", "maps", "--weights", "saved", "--device", "gpu"],
        ["evaluate", "run", "--batch", "0"],
        ["evaluate", "run", "--workers", "-1"],
        ["evaluate", "run", "--split", "nothing"],
        ["evaluate", "run", "--device", "gpu"],
        ["report", "run", "--device", "gpu"],
        ["serve", "saved", "--port", "99999"],
        ["serve", "saved", "--streams", "0", "--port", "0"],
        ["serve", "saved", "--threads", "0", "--port", "0"],
        ["serve", "saved", "--device", "gpu", "--port", "0"],
    ],
    ids=" ".join,
)
def test_invalid_options(
    place: Path, args: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    before = files(place)
    refused(args, capsys)
    assert files(place) == before


DAMAGE = ["", "{", "[]", "null", "3", '{"format": 1}', '{"action": 3}', '{"action": [1, 2]}', "\udc80"]


@pytest.mark.parametrize("text", DAMAGE, ids=range(len(DAMAGE)))
@pytest.mark.parametrize(
    ("file", "args"),
    [
        ("saved/config.json", ["info", "saved"]),
        ("saved/config.json", ["predict", "saved", "clips/val/wave/val.mp4"]),
        ("saved/labels.json", ["predict", "saved", "clips/val/wave/val.mp4"]),
        ("saved/labels.json", ["export", "saved", "--output", "x.onnx"]),
        ("run/config.yaml", ["evaluate", "run"]),
        ("run/evaluation/val.json", ["table", "run"]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_damaged_files(
    place: Path,
    file: str,
    args: list[str],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    good = Path(file).read_bytes()
    before = files(place)
    try:
        Path(file).write_text(text, encoding="utf-8", errors="surrogateescape")
        assert Path(file).parent.name in refused(args, capsys)
    finally:
        Path(file).write_bytes(good)
    assert files(place).keys() == before.keys()


OUTPUTS = {
    "report": (["report", "run", "--clips", "0", "--output"], "page.html"),
    "render": (["predict", "saved", "clips/val/wave/val.mp4", "--render"], "out.mp4"),
    "challenge": (["evaluate", "run", "--challenge"], "challenge.json"),
    "pack": (["data", "pack", "data.yaml", "--processes", "1"], "packed"),
    "extract": (["extract", "data.yaml", "--weights", "saved"], "maps"),
    "make": (["data", "make", "somethings", "--clips", "1", "--size", "32", "--packed", "--processes", "1"], "made"),
    "train": (["train", "run.yaml", "--trainer.epochs", "1", "--trainer.accelerator", "cpu", "--folder"], "new"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_unwritable_outputs(
    place: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below a file, where no folder can be made, whoever asks."""
    monkeypatch.chdir(place)
    (tmp_path / "file").write_text("x")
    args, output = OUTPUTS[name]
    place_at = len(args) if args[-1].startswith("--") else 3 if args[0] == "data" else 2
    where = str(tmp_path / "file" / output)
    if args[:2] == ["data", "make"] or args[:2] == ["data", "pack"]:
        place_at = 3
    told = refused([*args[:place_at], where, *args[place_at:]], capsys)
    if name != "challenge":  # which is not for this data
        assert str(tmp_path / "file") in told
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "x"


def test_a_yaml_file_that_is_nested_too_deeply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.yaml").write_text("[" * 2000)
    assert "nested too deeply" in refused(["data", "check", str(tmp_path / "run.yaml")], capsys)


FULL = """
import json, resource, sys
from horst.cli import main
limit, commands = int(sys.argv[1]), json.loads(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for args in commands:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))  # as on a disk that is full
    status = main(args)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    print(f"status {status}", file=sys.stderr, flush=True)
"""


def test_a_full_disk(place: Path, tmp_path: Path) -> None:
    """Each command says so in one line, and neither a part of its file nor one that was there before is changed."""
    (tmp_path / "old.html").write_text("before")
    commands = [
        ["report", "run", "--clips", "0", "--output", str(tmp_path / "new.html")],
        ["report", "run", "--clips", "0", "--output", str(tmp_path / "old.html")],
        ["predict", "saved", "clips/val/wave/val.mp4", "--json", "--render", str(tmp_path / "out.mp4")],
    ]
    done = subprocess.run(
        [sys.executable, "-c", FULL, "1000", json.dumps(commands)],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = done.stderr.splitlines()
    assert [line for line in lines if line.startswith("status")] == ["status 2"] * len(commands), done.stderr
    told = [line for line in lines if line.startswith("horst: ")]
    assert len(told) == len(commands)
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"old.html"}
    assert (tmp_path / "old.html").read_text() == "before"


def test_broken_pipe(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`horst info ... | head -1` ends without a traceback."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["info", str(place / "saved"), "--json"]) == 141
