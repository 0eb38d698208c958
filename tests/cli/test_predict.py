"""`horst predict`: files, folders of images and live sources, as lines of JSON or on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import containers
import pytest
import torch
import videos
from PIL import Image as Pictures

import horst
from horst.cli import main
from horst.video.decode import VideoFile


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    small = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6], "stride": [2], "order": 3}
    labels = {"action": ["to push", "to pull", "to lift"]}
    model = horst.create_model("horst_tiny", num_classes=3, size=(24, 32), fps=5.0, labels=labels, **small)
    folder = tmp_path_factory.mktemp("model") / "small"
    model.save_pretrained(folder)
    return folder


def test_a_file_as_lines_of_json(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = videos.clip(tmp_path / "clip.mp4", frames=25, fps=12)
    assert main(["predict", str(saved), str(path), "--json", "--top", "2"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    model = horst.open_model(saved).eval()
    with VideoFile(path, size=model.size) as video:
        wanted = list(model.stream().watch(video.frames(), video.info.duration))
    assert [line["time"] for line in lines] == [round(p.time, 6) for p in wanted]
    assert [line["top"] for line in lines] == [p.to_dict(2)["top"] for p in wanted]
    assert {line["answer"] for line in lines} <= {"to push", "to pull", "to lift"}


@pytest.mark.parametrize("clock", [0.0, 100.0])
def test_a_file_whose_clock_starts_at_100_s(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], clock: float
) -> None:
    """As many predictions as its 2.4 s have ticks, not as many as its clock has."""
    options = containers.GOPS["libvpx"]["12"]
    path = containers.write(tmp_path / "clip.webm", containers.Form("webm", "libvpx"), options, clock, frames=60)
    assert main(["predict", str(saved), str(path), "--json"]) == 0
    times = [json.loads(line)["time"] for line in capsys.readouterr().out.splitlines()]
    assert times == pytest.approx([i / 5 for i in range(12)])


def test_a_folder_with_a_gap(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Frames keep their times, and the last one its end, where numbers are left out: there are 10, of 0.4 s each."""
    for i in (100, 101, 105, 109):
        Pictures.fromarray(videos.picture(i - 100, 24, 32)).save(tmp_path / f"frame_{i:04d}.jpg")
    assert main(["predict", str(saved), str(tmp_path), "--fps", "2.5", "--json"]) == 0
    times = [json.loads(line)["time"] for line in capsys.readouterr().out.splitlines()]
    assert times == pytest.approx([i / 5 for i in range(20)])


def test_a_folder_of_frames(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(1, 7):
        Pictures.fromarray(videos.picture(i, 24, 32)).save(tmp_path / f"frame_{i:04d}.jpg")
    assert main(["predict", str(saved), str(tmp_path)]) == 2
    assert "pass --fps" in capsys.readouterr().err
    assert main(["predict", str(saved), str(tmp_path), "--fps", "5", "--reset", "every", "--threshold", "0.99"]) == 0
    out = capsys.readouterr().out
    assert "6 predictions at 5 a second" in out
    assert "0.00 s  ..." in out  # nothing is that sure


def test_rendered_video(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is as long as its source, and being drawn changes nothing of what is said."""
    path, out = videos.clip(tmp_path / "clip.mp4", frames=25, fps=12), tmp_path / "new" / "out.mp4"
    lines = []
    for render in ([], ["--render", str(out)]):
        assert main(["predict", str(saved), str(path), "--json", *render]) == 0
        said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        lines.append([(line["time"], line["top"]) for line in said])
        assert all("attention" not in line for line in said)
    assert lines[0] == lines[1]
    with VideoFile(out) as video:
        frames = list(video.frames())
        assert (video.info.width, video.info.height, len(frames)) == (1280, 720, 25)
    assert [file.name for file in out.parent.iterdir()] == ["out.mp4"]
    # The frames of the source are in it: the picture's halves trade places in brightness.
    first, last = (frame.image[200:300, 120:680].mean((0, 2)) for frame in (frames[0], frames[-1]))
    assert first[-50:].mean() - first[:50].mean() > last[-50:].mean() - last[:50].mean() + 50


def test_rendered_folder(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(1, 5):
        Pictures.fromarray(videos.picture(i, 24, 32)).save(tmp_path / f"frame_{i:04d}.jpg")
    out = tmp_path / "out.mp4"
    assert main(["predict", str(saved), str(tmp_path), "--fps", "5", "--render", str(out)]) == 0
    assert "out.mp4 shows them" in capsys.readouterr().out.replace("\n", "")
    with VideoFile(out) as video:
        assert len(list(video.frames())) == 4
    assert main(["predict", str(saved), str(tmp_path), "--fps", "5", "--render", str(tmp_path / "out.gif")]) == 2
    assert "written as .webm or .mp4" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["{saved}", "/no/where.mp4"], "no such file, folder, camera"),
        (["{saved}", "{notes}"], "notes.mp4"),
        (["no-model", "{notes}"], "no-model"),
        (["{saved}", "{notes}", "--threshold", "2"], "threshold is 2"),
    ],
)
def test_invalid_sources(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    notes = tmp_path / "notes.mp4"
    notes.write_text("no video")
    assert main(["predict", *(a.format(saved=saved, notes=notes) for a in arguments)]) == 2
    assert told in capsys.readouterr().err
