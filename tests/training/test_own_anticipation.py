"""One's own actions, listed in a CSV file: every method learns from labels alone, and from verbs and nouns beside them.

A recognition model anticipates too. Nothing is made up about which verb and noun an action has.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
import videos
from rich.console import Console

from horst.config import from_dict
from horst.data.batches import Batch
from horst.data.example import Annotations
from horst.data.loader import ClipBatches
from horst.data.readers.folder import read_csv
from horst.errors import ConfigError, DataError
from horst.evaluation.evaluate import evaluate
from horst.models import create_model, load, save
from horst.models.registry import METHODS, Method
from horst.training.build import build_model, loss_for, notices
from horst.training.config import RunConfig
from horst.training.fit import train
from horst.training.module import TrainingModule

ROOT = Path(__file__).parents[2]
PAIRS = ("cut apple", "cut bread", "wash apple", "wash bread", "take cup", "wash cup", "take bread", "take apple")
PARTS = {"action alone": False, "verb and noun": True}
SIZE = (16, 24)


def csv(folder: Path, *, parts: bool, rows: int = 16) -> Path:
    lines = ["path,split,label,start" + (",verb,noun" if parts else "")]
    for i in range(rows):
        label = PAIRS[i % len(PAIRS)]
        verb, noun = label.split()
        lines.append(f"v.mp4,{'val' if i % 4 == 3 else 'train'},{label},{4 + i}" + (f",{verb},{noun}" if parts else ""))
    path = folder / "own.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def batch(annotations: Annotations) -> Batch:
    chosen, frames = annotations.split("train").examples[:4], 10
    random = torch.Generator().manual_seed(0)
    return Batch(
        frames=torch.randint(0, 256, (len(chosen), frames, 3, *SIZE), generator=random, dtype=torch.uint8),
        lengths=torch.full((len(chosen),), frames),
        times=torch.zeros(len(chosen), frames, dtype=torch.float64),
        observed=torch.ones(len(chosen), frames, dtype=torch.bool),
        labels={task: torch.tensor([e.labels[task] for e in chosen]) for task in annotations.classes},
        ids=tuple(e.id for e in chosen),
        indices=tuple(range(len(chosen))),
    )


def run_of(method: Method) -> RunConfig:
    """The method's small model and its loss on the own CSV template."""
    config = RunConfig.from_file("own/csv_anticipation")
    options = {**method.options_for("tiny"), "backbone": {"name": "stem", "widths": [6, 8]}}
    if method.module.endswith(".horst"):
        options = {"hidden": [8, 8], "stride": [2, 1], **options}
    if "hidden" in method.options:
        options["hidden"] = [8, 8]
    loss = from_dict(type(config.loss), {"steps": "anticipation", **method.loss})
    clip = replace(config.data.clip, size=SIZE)
    return replace(
        config,
        model=replace(config.model, name=method.model_name("tiny"), options=options),
        loss=loss,
        data=replace(config.data, clip=clip),
    )


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_makes_a_step(
    method: Method, parts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotations = read_csv(csv(tmp_path, parts=parts), task="anticipation")
    config = run_of(method)
    model = build_model(config, annotations)
    assert model.head.task == "anticipation"
    assert model.head.classes["action"] == len(PAIRS)
    both = parts and "num_verbs" in type(model.head).__init__.__kwdefaults__
    assert set(model.head.classes) == ({"action", "verb", "noun"} if both else {"action"})
    config = replace(config, loss=loss_for(config.loss, model))
    assert set(config.loss.tasks or ()) <= set(model.head.classes)
    module = TrainingModule(model, config, annotations)
    monkeypatch.setattr(type(module), "current_epoch", 0)
    found = module.training_step(batch(annotations), 0)
    assert found is not None
    assert torch.isfinite(found["loss"])
    found["loss"].backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []
    told = " ".join(notices(config, model, annotations))
    wants = "num_verbs" in type(model.head).__init__.__kwdefaults__
    assert ("the action alone" in told) == (wants and not parts)
    assert ("learns to predict the next action" in told) == (method.task == "recognition")


def test_pairs_are_those_of_the_rows(tmp_path: Path) -> None:
    found = read_csv(csv(tmp_path, parts=True), task="anticipation")
    said = [f"{found.classes['verb'][verb]} {found.classes['noun'][noun]}" for verb, noun in found.action_parts]
    assert said == list(found.classes["action"])
    model = build_model(run_of(METHODS["mce"]), found)
    assert model.head.pairs.tolist() == [list(pair) for pair in found.action_parts]
    assert read_csv(csv(tmp_path, parts=False)).action_parts == ()


def test_an_action_of_two_pairs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("path,split,label,start,verb,noun\na,train,x,1,cut,apple\nb,train,x,2,cut,bread\n")
    with pytest.raises(DataError, match=r"line 3: the action 'x' is 'cut' 'bread' here and 'cut' 'apple' in line 2"):
        read_csv(path, task="anticipation")


@pytest.mark.parametrize("name", ["mce", "atsn", "vn_ce", "vnmce_t3"])
def test_what_an_action_is_made_of_is_never_made_up(name: str, tmp_path: Path) -> None:
    annotations = read_csv(csv(tmp_path, parts=True), task="anticipation")
    with pytest.raises(ConfigError, match="verb and noun of every action"):
        build_model(run_of(METHODS[name]), replace(annotations, action_parts=()))
    model = METHODS[name].model_name("tiny")
    with pytest.raises(ConfigError, match=r"pairs has 0 entries and there are 75 actions"):
        create_model(model, num_verbs=14, num_nouns=20)
    with pytest.raises(ConfigError, match="give both, or neither"):
        create_model(model, num_verbs=14)


def test_a_top_k_loss_needs_more_classes(tmp_path: Path) -> None:
    config = run_of(METHODS["svm_top5"])
    annotations = read_csv(csv(tmp_path, parts=False, rows=4), task="anticipation")
    with pytest.raises(ConfigError, match=r"loss\.k is 5 and there are 4 actions"):
        loss_for(config.loss, build_model(config, annotations))


@pytest.mark.parametrize("name", ["horst_tiny_anticipation", "horst_tiny"])
def test_labels_alone_make_a_run(name: str, tmp_path: Path) -> None:
    """From a video and a CSV file with labels to a saved model that is evaluated."""
    videos.clip(tmp_path / "v.mp4", frames=21 * 12)
    source = {"source": "csv", "task": "anticipation", "path": str(csv(tmp_path, parts=False))}
    data = {**source, "clip": {"size": [32, 32], "steps": 6, "mode": "strict"}}
    model = {"name": name, "options": small_runs.TINY}
    plain: dict[str, Any] = {"data": data, "model": model, "loss": {"steps": "anticipation"}, "trainer": {"epochs": 1}}
    config = small_runs.config(tmp_path, **plain)
    text = io.StringIO()
    run = train(config, tmp_path / "run", console=Console(file=text, width=200))
    expected = "the action alone" if "anticipation" in name else "learns to predict the next action"
    assert expected in "\n".join(text.getvalue().splitlines()[:7])
    loaded = load(run.best)
    assert loaded.head.task == "anticipation"
    assert loaded.head.classes == {"action": len(PAIRS)}
    found = evaluate(loaded, ClipBatches(config.data), progress=False)
    assert np.isfinite(list(found.metrics.values())).all()
    assert load(save(loaded, tmp_path / "again")).config == loaded.config


def test_actions_that_no_frame_precedes_are_left_out(tmp_path: Path) -> None:
    """`horst data check` accepts them, and so does training."""
    videos.clip(tmp_path / "v.mp4", frames=48)
    rows = ["train,a,0", "train,b,0.05", "train,a,0.1", "train,b,3", "val,a,3.1", "val,b,3.2"]
    lines = ["path,split,label,start", *(f"v.mp4,{row}" for row in rows)]
    (tmp_path / "own.csv").write_text("\n".join(lines) + "\n")
    source = {"source": "csv", "task": "anticipation", "path": str(tmp_path / "own.csv")}
    data = {**source, "clip": {"size": [32, 32], "steps": 6}}
    model = {"name": "horst_tiny_anticipation", "options": small_runs.TINY}
    plain: dict[str, Any] = {"data": data, "model": model, "loss": {"steps": "anticipation"}, "trainer": {"epochs": 1}}
    text = io.StringIO()
    run = train(small_runs.config(tmp_path, **plain), tmp_path / "run", console=Console(file=text, width=300))
    assert "note: 3 training actions start in the first 0.25 s of a video, so no frame precedes" in text.getvalue()
    assert run.bad_clips(0).read_text().splitlines() == ["id,why"]
    (tmp_path / "own.csv").write_text("\n".join(line for line in lines if "train,b,3" not in line) + "\n")
    with pytest.raises(DataError, match=r"all 3 training actions start in the first 0\.25 s"):
        train(small_runs.config(tmp_path, **plain), tmp_path / "other", console=Console(file=text))
