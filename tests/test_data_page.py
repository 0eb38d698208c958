"""docs/guides/data.md: its YAML reads copies of the public data sets, and `data check` prints what it says.

The copies are tiny; each goes on to a training step and an evaluation.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import fake_epic
import pytest
import videos
import yaml

from horst.cli import main

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "data.md"
WALKS = {"ssv2": "Something-Something v2", "ek55": "EPIC-Kitchens 55", "ek100": "EPIC-Kitchens 100"}
SMALL = {"backbone": {"name": "stem", "widths": [4, 4]}, "hidden": [4, 4], "stride": [1, 1], "order": 2}


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.read_text().partition(f"\n## {title}\n")[2], flags=re.M)[0]


def block(text: str, language: str) -> str:
    """The last block of a language: the text before the output is a list of files."""
    return str(re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[-1])


def write(root: Path, walk: str) -> None:
    """The tree of a walk."""
    (root / "data.yaml").write_text(block(section(WALKS[walk]), "yaml"))
    if walk == "ek55":
        fake_epic.write(root, "ek55", "official tars")
    elif walk == "ek100":
        fake_epic.write(root, "ek100", "videos")
    else:
        (root / "labels").mkdir()
        (root / "videos").mkdir()
        templates = ["Holding [something]", "Moving [something] up", "Moving [something] down"]
        (root / "41_classes.txt").write_text("".join(f"{template}\n" for template in templates[:2]))
        names = {template.replace("[", "").replace("]", ""): str(i) for i, template in enumerate(templates)}
        (root / "labels" / "something-something-v2-labels.json").write_text(json.dumps(names))
        items = [{"id": str(i), "template": templates[i % 3]} for i in range(1, 10)]
        for split, some in (("train", items[:6]), ("validation", items[6:])):
            (root / "labels" / f"something-something-v2-{split}.json").write_text(json.dumps(some))
        for item in items:
            videos.clip(root / "videos" / f"{item['id']}.webm", frames=24)


def printed(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["data", "check", "data.yaml", "--depth", "frames", "--processes", "1"]) == 0
    return "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()).strip() + "\n"


@pytest.mark.parametrize("walk", WALKS)
def test_walk(walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """From `data check` to a training step and an evaluation."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    write(tmp_path, walk)
    assert printed(tmp_path, capsys) == block(section(WALKS[walk]), "text")
    data = yaml.safe_load((tmp_path / "data.yaml").read_text())
    data["clip"]["size"] = [16, 16]
    run = {
        "name": "walk",
        "model": {"name": "horst_ssv2" if walk == "ssv2" else f"horst_{walk}", "options": SMALL},
        "data": data,
        "loss": {"steps": "last" if walk == "ssv2" else "anticipation"},
        "augment": {"operations": 0, "mirror": False},
        "batches": {"size": 4},
        "trainer": {"epochs": 1, "accelerator": "cpu", "devices": 1},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(run))
    assert main(["train", "run.yaml", "--folder", "run"]) == 0
    assert main(["evaluate", "run", "--device", "cpu"]) == 0
    found = json.loads((tmp_path / "run" / "evaluation" / "val.json").read_text())
    assert found["counts"]["missing"] == 0
    assert found["counts"]["read"] == found["counts"]["examples"] == (2 if walk == "ssv2" else 4)
