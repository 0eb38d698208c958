"""`horst report` as a user runs it: one page about a run, which needs no other files and no network."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import small_runs
import yaml

from horst.cli import main
from horst.cli.evaluate import draw_curve
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.predictions import Predictions
from horst.training.evaluated import open_evaluated

SECTIONS = [
    "Run", "Training", "Accuracy over the observed part of a clip", "Confusion matrix", "Calibration",
    "Clips, frame by frame",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report")
    (root / "run.yaml").write_text(yaml.safe_dump(small_runs.plain("made", name="a <small> one")))
    assert main(["train", str(root / "run.yaml"), "--folder", str(root / "run"), "--trainer.epochs", "2"]) == 0
    return root / "run"


class Tags(HTMLParser):
    """Checks that what is opened is closed, and gathers headings and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "action")]
        if tag not in ("meta", "img", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)


def read(file: Path) -> Tags:
    """A page that is whole and stands alone."""
    text = file.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert all(
        address.startswith(("data:image/jpeg;base64,", "data:image/png;base64,", "#")) for address in tags.addresses
    )
    assert "<script" not in text
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)
    return tags


def test_report_of_a_run(trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["report", str(trained), "--clips", "2"]) == 0
    file = trained / "evaluation" / "val.html"
    assert str(file) in capsys.readouterr().out.replace("\n", "")
    assert file.stat().st_size < 2.5e6
    assert read(file).headings == SECTIONS
    text = file.read_text()
    assert "a &lt;small&gt; one: early recognition" in text
    assert text.count("<div class=card>") == 2
    assert "commit" in text
    assert "epochs: 2" in text  # of config.yaml
    kept = Predictions.load(trained / "evaluation" / "val.safetensors")
    assert len(kept) == 4
    with monkeypatch.context() as patch:
        patch.setattr("horst.training.evaluated.predict_and_evaluate", lambda *_: pytest.fail("predicted again"))
        assert main(["report", str(trained), "--clips", "2"]) == 0
        assert file.read_text() == text
        # What other weights said is not taken for this model's.
        results = trained / "evaluation" / "val.json"
        found = json.loads(results.read_text())
        results.write_text(json.dumps(found | {"weights": "others"}))
        with pytest.raises(pytest.fail.Exception):
            main(["report", str(trained)])
    assert main(["report", str(trained), "--clips", "0", "--output", str(trained / "none.html")]) == 0
    assert read(trained / "none.html").headings == SECTIONS[:-1]
    assert json.loads(results.read_text())["weights"] == found["weights"]


def test_predictions_are_reused(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["evaluate", str(trained)]) == 0
    with monkeypatch.context() as patch:
        patch.setattr("horst.training.evaluated.predict_and_evaluate", lambda *_: pytest.fail("predicted again"))
        assert main(["report", str(trained), "--clips", "1"]) == 0
    (trained / "evaluation" / "val.safetensors").write_bytes(b"damaged")
    assert main(["report", str(trained), "--clips", "1"]) == 0
    assert len(Predictions.load(trained / "evaluation" / "val.safetensors")) == 4


def test_last_weights_have_their_own_files(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(trained)]) == 0
    before = {file.name: file.read_bytes() for file in (trained / "evaluation").iterdir()}
    assert main(["evaluate", str(trained), "--weights", "last"]) == 0
    assert {name: (trained / "evaluation" / name).read_bytes() for name in before} == before
    assert {file.name for file in (trained / "evaluation").iterdir()} >= {"val-last.json", "val-last.svg"}
    assert "val-last.json" in capsys.readouterr().out.replace("\n", "")


def test_anticipation_with_an_unrolling_head(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(small_runs.kitchen("made", trainer={"epochs": 1})))
    assert main(["train", str(tmp_path / "run.yaml"), "--folder", str(tmp_path / "run")]) == 0
    assert main(["report", str(tmp_path / "run"), "--clips", "2", "--output", str(tmp_path / "page.html")]) == 0
    picture = (tmp_path / "run/evaluation/val.svg").read_text()
    assert all(word in picture for word in (">top-1 ", ">top-5 ", ">recall@5 ", "seconds before the action"))
    headings = read(tmp_path / "page.html").headings
    assert headings[2:4] == ["Accuracy over the time before the action", "Confusion matrix, 1 s before"]
    text = (tmp_path / "page.html").read_text()
    assert text.count("<div class=card>") == 2
    assert text.count("temporal attention") == 6  # 2 s, 1 s and 0.25 s before


def test_curve_needs_labels(trained: Path) -> None:
    """Without labels, as in the test split of a challenge, there is no curve, and an earlier one is deleted."""
    assert main(["evaluate", str(trained)]) == 0
    opened, curve = open_evaluated(trained), trained / "evaluation" / "val.svg"
    evaluation = Evaluation.load(trained / "evaluation" / "val.json")
    curve.unlink()
    assert draw_curve(opened, evaluation) == [trained / "evaluation" / "val.json", curve]
    assert ElementTree.parse(curve).getroot().tag.endswith("svg")
    assert draw_curve(opened, replace(evaluation, metrics={}, prior={})) == [trained / "evaluation" / "val.json"]
    assert not curve.exists()


def test_report_of_a_packaged_model(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = yaml.safe_load((trained / "config.yaml").read_text())["data"]
    (tmp_path / "data.yaml").write_text(
        yaml.safe_dump({key: data[key] for key in ("source", "folder", "clips", "size")})
    )
    monkeypatch.chdir(tmp_path)
    assert main(["report", "somethings", "--data", "data.yaml", "--clips", "1"]) == 0
    assert read(tmp_path / "somethings-report.html").headings == ["Model", *SECTIONS[2:]]
    capsys.readouterr()
    assert main(["report", "somethings"]) == 2
    assert "pass --data FILE" in capsys.readouterr().err
    assert main(["report", str(trained), "--clips", "-1"]) == 2
    assert "clips is -1" in capsys.readouterr().err
