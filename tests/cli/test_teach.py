"""`horst teach`: from a folder of clips by label to a saved model."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_place
import videos

import horst
from horst.cli import main


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    for label in ("stop", "wave"):
        (tmp_path / "clips" / label).mkdir(parents=True)
        for i in range(3):
            videos.clip(tmp_path / "clips" / label / f"{i}.mp4", frames=20, fps=10)
    (tmp_path / "clips" / "notes.txt").write_text("not a label")
    return tmp_path / "clips"


def test_a_folder_of_clips_becomes_a_model(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_place.build(tmp_path / "place")
    args = ["teach", str(clips), str(tmp_path / "mine"), "--base", str(tmp_path / "place/saved"), "--minutes", "0.05"]
    assert main(args) == 0
    printed = capsys.readouterr().out
    assert "mine: stop, wave; 6 clips" in printed
    assert "held-out clips classified correctly: " in printed
    assert horst.open_model(tmp_path / "mine").labels == {"action": ["stop", "wave"]}
    assert main(args) == 2  # it is there
    assert "overwrite" in capsys.readouterr().err
    assert main([*args, "--overwrite"]) == 0


def test_invalid_clips(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["nowhere", "mine"], [str(clips), "mine", "--base", "kitchn"], [str(clips), "mine", "--minutes", "0"]):
        assert main(["teach", *args]) == 2
        error = capsys.readouterr().err
        assert error.startswith("horst: ")
        assert error.count("\n") == 1
    (clips / "wave" / "0.mp4").write_text("no video")
    assert main(["teach", str(clips), str(tmp_path / "mine")]) == 2
    assert str(clips / "wave" / "0.mp4") in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()
