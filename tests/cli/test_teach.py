"""`horst teach`: from a folder of clips by label to a saved model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import small_place
import videos

import horst
from horst.cli import main
from horst.finetune import NOTHING


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
    args = ["teach", str(clips), str(tmp_path / "mine"), "--base", str(tmp_path / "place/saved")]
    assert main(args) == 0
    printed = capsys.readouterr().out
    assert "mine: 6 clips of 2 labels" in printed
    assert re.search(r"stop +│ 3 +│ \d+%", printed)  # held-out clips of a label
    assert re.search(r"correct: \d+% after half of the clip, \d+% at its end", printed)
    assert 'Record clips of "nothing"' in printed
    assert horst.open_model(tmp_path / "mine").labels == {"action": ["stop", "wave", NOTHING]}
    assert main(args) == 2  # it is there
    assert "overwrite" in capsys.readouterr().err
    table = tmp_path / "clips.csv"
    rows = [f"{file.relative_to(tmp_path)},{file.parent.name}" for file in sorted(clips.glob("*/*.mp4"))[1:]]
    table.write_text("\n".join(["path,label", *rows]))
    assert main(["teach", str(table), *args[2:], "--overwrite"]) == 0
    printed = capsys.readouterr().out
    assert "mine: 5 clips of 2 labels" in printed
    assert "Record 3 clips of each label" in printed  # there are two of one


def test_invalid_clips(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["nowhere", "mine"], [str(clips), "mine", "--base", "kitchn"], [str(clips), "mine", "--bace", "x"]):
        assert main(["teach", *args]) == 2
        error = capsys.readouterr().err
        assert error.startswith("horst: ")
        assert error.count("\n") == 1
    (tmp_path / "clips.csv").write_text("path,lable\nwave/0.mp4,wave")
    assert main(["teach", str(tmp_path / "clips.csv"), str(tmp_path / "mine")]) == 2
    assert "did you mean 'lable'" in capsys.readouterr().err
    (clips / "wave" / "0.mp4").write_text("no video")
    assert main(["teach", str(clips), str(tmp_path / "mine")]) == 2
    assert str(clips / "wave" / "0.mp4") in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()
