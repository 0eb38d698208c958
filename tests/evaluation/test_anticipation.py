"""Anticipation at every tau_a, in both modes: unobserved positions are misses, leaks are found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import horst
from horst.data.clips import ClipConfig, frame_times, seen_frames
from horst.data.config import DataConfig
from horst.data.example import Example
from horst.data.features import Clip
from horst.data.module import ClipDataModule
from horst.errors import DataError, InputError
from horst.evaluation import report
from horst.evaluation.challenge import challenge, write_challenge
from horst.evaluation.evaluate import Evaluation, evaluate, evaluate_predictions, predict
from horst.evaluation.guard import count_leaks
from horst.evaluation.measure import all_scores, measure, metric_names, primary_metric
from horst.evaluation.metrics import accuracy_of_ranks, label_ranks, marginalize, recall_of_ranks
from horst.evaluation.paper import paper_tables
from horst.evaluation.predictions import Predictions
from horst.models import Predictor

TIMES = (2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25)  # seconds before the action at which RULSTM's protocol predicts
VERBS, NOUNS = 4, 6
ACTIONS = [(0, 0), (0, 1), (1, 0), (1, 2), (3, 3), (3, 4), (0, 5)]
"""No action has verb 2."""
STARTS = {"usual": 130, "late": 200, "early": 40, "at once": 5, "unseen": 150}
"""Frames at which validation segments start: `early` has no frame 2 s before, `at once` none at all."""


def write_epic(folder: Path, version: str) -> None:
    """Annotations in RULSTM's form, and two videos of 200 small frames."""
    prefix = "EPIC_" if version == "ek55" else "EPIC_100_"
    for part, count in (("verb", VERBS), ("noun", NOUNS)):
        header = f"{part}_id,class_key" if version == "ek55" else "id,key"
        rows = [f"{i},{part}{i}" for i in range(count)]
        (folder / f"{prefix}{part}_classes.csv").write_text("\n".join([header, *rows, ""]))
    rows = [f"{i},{verb},{noun},x" for i, (verb, noun) in enumerate(ACTIONS)]
    (folder / "actions.csv").write_text("\n".join(["id,verb,noun,action", *rows, ""]))
    lines: dict[str, list[str]] = {"training": [], "validation": []}
    for i, start in enumerate([60, 70, 80, 90, 100, 110]):
        lines["training"].append(f"t{i},P01_01,{start},{start + 30},{ACTIONS[i % 3][0]},{ACTIONS[i % 3][1]},{i % 3}")
    for i, (name, start) in enumerate(STARTS.items()):
        video = "P02_01" if name == "unseen" else "P01_01"
        lines["validation"].append(f"{name},{video},{start},{start + 30},{ACTIONS[i][0]},{ACTIONS[i][1]},{i}")
    for name, rows in lines.items():
        (folder / f"{name}.csv").write_text("\n".join([*rows, ""]))
    if version == "ek55":
        (folder / "EPIC_many_shot_verbs.csv").write_text("verb_class\n0\n")
        (folder / "EPIC_many_shot_nouns.csv").write_text("noun_class\n1\n")
    else:
        (folder / "EPIC_100_unseen_participant_ids_validation.csv").write_text("participant_id\nP02\n")
        (folder / "EPIC_100_tail_verbs.csv").write_text("verb\n1\n")
        (folder / "EPIC_100_tail_nouns.csv").write_text("noun\n3\n")
    rng = np.random.default_rng(0)
    for video in ("P01_01", "P02_01"):
        (folder / video).mkdir()
        for number in range(1, 201):
            picture = Image.fromarray(rng.integers(0, 255, (12, 16, 3), np.uint8))
            picture.save(folder / video / f"frame_{number:010d}.jpg")


@pytest.fixture(scope="module", params=["ek55", "ek100"])
def epic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DataConfig:
    folder = tmp_path_factory.mktemp(request.param)
    write_epic(folder, request.param)
    options = {"annotations": str(folder), "media": str(folder), "version": request.param, "frames": "rulstm"}
    return DataConfig.from_dict({"source": "epic", **options, "clip": {"size": [12, 16]}})


@pytest.fixture(scope="module")
def ek100(tmp_path_factory: pytest.TempPathFactory) -> DataConfig:
    folder = tmp_path_factory.mktemp("one")
    write_epic(folder, "ek100")
    options = {"annotations": str(folder), "media": str(folder), "version": "ek100", "frames": "rulstm"}
    return DataConfig.from_dict({"source": "epic", **options, "clip": {"size": [12, 16]}})


def module_of(data: DataConfig, **clip: Any) -> ClipDataModule:
    return ClipDataModule(replace(data, clip=replace(data.clip, **clip)), batch_size=2)


def small(name: str = "horst_ek55", **options: Any) -> Predictor:
    torch.manual_seed(0)
    classes = {"num_classes": len(ACTIONS), "num_verbs": VERBS, "num_nouns": NOUNS}
    if name == "horst_tiny":
        classes = {"num_classes": len(ACTIONS)}
    given = {"hidden": (8, 8), "backbone": {"name": "stem", "widths": [8, 8]}, "size": (12, 16), "stride": (1, 1)}
    return horst.create_model(name, **{**classes, **given, **options})


@pytest.mark.parametrize("name", ["horst_ek55", "horst_ek55_unroll", "horst_tiny"])
def test_positions(ek100: DataConfig, name: str) -> None:
    """The last 8 of 14 steps, whatever the head."""
    model, module = small(name).eval(), module_of(ek100)
    found = predict(model, module, progress=False)
    assert found.positions == TIMES
    with torch.inference_mode():
        for batch in module.evaluation_loader("val"):
            logits = model(batch.frames)[0].logits
            for row, ident in enumerate(batch.ids):
                for task in logits:
                    mine = found.scores[task][found.ids.index(ident)]
                    torch.testing.assert_close(mine, logits[task][row, -8:], rtol=1e-4, atol=1e-5)
    assert found.read.tolist() == [name != "at once" for name in STARTS]
    assert [ident for ident, _ in found.missing] == ["at once"]


def test_unrolling_counts_from_the_end_of_the_clip(ek100: DataConfig) -> None:
    """A clip shorter than the head was made for: the last step is still one before the action."""
    model = small("horst_ek55_unroll").eval()
    found = predict(model, module_of(ek100, steps=5), progress=False)
    assert found.positions == TIMES[-5:]
    batch = next(iter(module_of(ek100, steps=5).evaluation_loader("val")))
    with torch.inference_mode():
        logits = model(batch.frames, unroll=[5, 4, 3, 2, 1])[0].logits
    torch.testing.assert_close(found.scores["action"][found.ids.index(batch.ids[0])], logits.action[0])


def test_leaks_are_counted_or_rejected(epic: DataConfig) -> None:
    """RULSTM's padding shows `early` frames later than their position; strictly, nothing is seen there."""
    padded = evaluate(small(), module_of(epic), progress=False)
    # Start frame 40: at 1.25 s frame floor(40 - 37.5) = 2 is the earliest, and fills the positions before.
    assert padded.protocol["leaks"] == {"2s": 1, "1.75s": 1, "1.5s": 1}
    assert padded.protocol["unobserved"] == {}
    strict = evaluate(small(), module_of(epic, mode="strict"), progress=False)
    assert strict.protocol["leaks"] == {}
    assert strict.protocol["unobserved"] == {"2s": 1, "1.75s": 1, "1.5s": 1}
    assert (padded.protocol["mode"], strict.protocol["mode"]) == ("rulstm", "strict")
    assert strict.protocol["taus"] == list(TIMES)
    leaky = predict(small(), module_of(epic), progress=False)
    with pytest.raises(DataError, match=r"1 of 5 examples saw more than they may: early at 2s saw 0\.033 s"):
        count_leaks(leaky, "strict")


def test_unobserved_positions_are_misses(epic: DataConfig) -> None:
    found = predict(small(), module_of(epic, mode="strict"), progress=False)
    row = found.ids.index("early")
    for scores in found.scores.values():
        assert (scores[row, :3] == -torch.inf).all()
        assert scores[row, 3:].isfinite().all()
        assert (scores[found.ids.index("at once")] == -torch.inf).all()
    perfect = right(found)
    for position, hits in (("2s", 3), ("1.5s", 3), ("1.25s", 4), ("1s", 4)):
        wanted = hits / (4 if "many-shot action" in module_of(epic).annotations.subsets else 5)
        assert measure(perfect, module_of(epic).annotations)[f"verb/top1@{position}"] == wanted


def right(predictions: Predictions) -> Predictions:
    """The same with the right answers wherever a frame was observed."""
    scores = {}
    for task, given in predictions.scores.items():
        hot = torch.nn.functional.one_hot(predictions.labels[task], given.shape[-1]).float()[:, None].expand_as(given)
        scores[task] = torch.where(given == -torch.inf, given, hot)
    return replace(predictions, scores=scores)


def test_segments_that_no_frame_precedes(epic: DataConfig) -> None:
    """EK55 leaves them out, EK100 counts them as wrong; both say so."""
    module = module_of(epic)
    found = evaluate_predictions(
        right(predict(small(), module, progress=False)), module.annotations, "val", module.data.clip
    )
    ek55 = bool(module.annotations.subsets)
    assert found.counts == {"examples": 5, "read": 4, "missing": 1, "left_out": int(ek55), "unlabelled": 0, "train": 6}
    assert found.metrics["action/top1@1s"] == (1 if ek55 else 4 / 5)
    assert found.metrics["action/time_to_action"] == pytest.approx(2.0 if ek55 else 8 / 5)
    subsets = {key.rpartition("/")[2] for key in found.metrics if key.startswith("verb/recall5@1s/")}
    assert subsets == ({"many-shot"} if ek55 else {"unseen", "tail"})
    assert found.prior["verb/top1"] == 2 / 5
    assert len(found.prior) == 9
    assert primary_metric("anticipation", module.data.clip) in found.metrics


def test_subsets(epic: DataConfig) -> None:
    module = module_of(epic)
    found = predict(small(), module, progress=False)
    metrics = measure(found, module.annotations)
    rows = torch.tensor([not module.annotations.subsets or name != "at once" for name in STARTS])
    for task in ("verb", "noun", "action"):
        labels = found.labels[task]
        for p, name in enumerate(found.names()):
            scores = found.scores[task][:, p]
            ranks = label_ranks(scores, labels)
            for k in (1, 5):
                assert metrics[f"{task}/top{k}@{name}"] == accuracy_of_ranks(ranks[rows], labels[rows], k)
            assert metrics[f"{task}/recall5@{name}"] == recall_of_ranks(ranks[rows], labels[rows], 5)
            if module.annotations.subsets:
                classes = {"verb": {0}, "noun": {1}, "action": {0, 1, 6}}[task]
                members = rows & torch.isin(labels, torch.tensor(sorted(classes)))
                many = recall_of_ranks(ranks[members], labels[members], 5)
                assert metrics[f"{task}/recall5@{name}/many-shot"] == many
            else:
                tail = {"verb": [2, 3], "noun": [4], "action": [2, 3, 4]}[task]
                assert metrics[f"{task}/recall5@{name}/tail"] == recall_of_ranks(ranks[tail], labels[tail], 5)
                assert metrics[f"{task}/recall5@{name}/unseen"] == recall_of_ranks(ranks[[4]], labels[[4]], 5)


def test_unmeasured_metrics_are_listed(epic: DataConfig) -> None:
    """Subsets without evaluated examples, data without subsets, and tasks without labels."""
    module = module_of(epic)
    annotations, clip = module.annotations, module.data.clip
    predictions = right(predict(small(), module, progress=False))
    empty = replace(
        annotations,
        subsets={"many-shot verb": frozenset({2}), "many-shot action": frozenset(range(99))},
        example_sets={"unseen": frozenset({"nobody"}), "tail noun": frozenset(predictions.ids)},
    )
    found = evaluate_predictions(predictions, empty, "val", clip)
    assert found.unmeasured["verb/recall5/many-shot"] == "no evaluated example is of these classes"
    for task in ("action", "verb", "noun"):
        assert found.unmeasured[f"{task}/recall5/unseen"] == "no evaluated example is in this set"
    assert not any("tail" in name for name in found.unmeasured)
    for name in found.unmeasured:  # it is listed exactly if it is not measured
        task, kind, one = name.split("/")
        assert not any(key.startswith(f"{task}/{kind}@") and key.endswith(f"/{one}") for key in found.metrics)
    assert "not measured: verb/recall5/many-shot (no evaluated example is of these classes)" in report.notes(found)
    for name, metric in (("EPIC-Kitchens 55", "recall5/many-shot"), ("EPIC-Kitchens 100", "recall5/unseen, tail")):
        bare = replace(annotations, name=name, subsets={}, example_sets={})
        assert metric in evaluate_predictions(predictions, bare, "val", clip).unmeasured
    alone = replace(predictions, scores={"action": predictions.scores["action"]})
    parts = evaluate_predictions(alone, replace(annotations, action_parts=()), "val", clip).unmeasured
    assert "does not say which verb an action has" in parts["verb"]
    unknown = {**predictions.labels, "noun": torch.full_like(predictions.labels["noun"], -1)}
    missing = evaluate_predictions(replace(predictions, labels=unknown), annotations, "val", clip).unmeasured
    assert missing["noun"] == "no evaluated example has a label"


def test_metric_names(epic: DataConfig) -> None:
    module = module_of(epic)
    predictions = predict(small(), module, progress=False)
    for tasks in (("action",), ("action", "verb", "noun")):
        shown = replace(predictions, scores={task: predictions.scores[task] for task in tasks})
        found = {name for name in measure(shown, module.annotations) if not name.endswith("time_to_action")}
        assert set(metric_names(module.annotations, "val", module.data.clip, tasks)) == found


def test_primary_metric() -> None:
    clip = ClipConfig()
    assert primary_metric("anticipation", clip, "EPIC-Kitchens 55") == "action/top5@1s"
    assert primary_metric("anticipation", clip, "EPIC-Kitchens 100") == "action/recall5@1s"
    assert primary_metric("anticipation", clip, "kitchen") == "action/top5@1s"
    for data in ("EPIC-Kitchens 55", "EPIC-Kitchens 100"):
        own = {m for t in paper_tables().values() if t.data == data for m in t.columns.values()}
        assert primary_metric("anticipation", clip, data) in own
    assert primary_metric("recognition", ClipConfig(observe=0.25), "Something-Something v2") == "action/top1@25%"


def test_verbs_and_nouns_summed_from_actions(ek100: DataConfig) -> None:
    module = module_of(ek100, mode="strict")
    found = predict(small("horst_tiny"), module, progress=False)
    assert list(found.scores) == ["action"]
    scores = all_scores(found, module.annotations)
    seen = found.read & (torch.tensor(list(STARTS.values())) > 70)
    actions = found.scores["action"][seen].double().softmax(-1)
    summed = marginalize(actions, [verb for verb, _ in ACTIONS], VERBS)
    torch.testing.assert_close(scores["verb"][seen].exp(), summed)
    assert (scores["verb"][..., 2] == -torch.inf).all()
    assert (scores["verb"][3] == -torch.inf).all()
    like_rulstm = all_scores(found, module.annotations, rulstm_empty=True)["verb"][seen][..., 2].exp()
    torch.testing.assert_close(like_rulstm, actions[..., 0])
    assert "noun/recall5@0.25s" in measure(found, module.annotations)


def test_precomputed_features(ek100: DataConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored features are evaluated in the same way."""
    module, model = module_of(ek100), small(backbone={"name": "maps", "channels": 8}, size=(3, 4))

    def read(example: Example, clip: ClipConfig) -> Clip:
        times = frame_times(seen_frames(example, clip))
        return Clip(np.full((len(times), 8, 3, 4), example.start, np.float16), times)

    monkeypatch.setattr(module.source, "read", read)
    assert evaluate(model, module, progress=False).counts["read"] == 4


def check_submission(data: Any, ids: set[str], verbs: int, nouns: int, actions: int) -> None:
    """The checks of the challenge's scorer."""
    assert (data["version"], data["challenge"]) == ("0.2", "action_anticipation")
    assert all(type(data[level]) is int and 0 <= data[level] <= 5 for level in ("sls_pt", "sls_tl", "sls_td"))
    assert set(data["results"]) == ids
    for result in data["results"].values():
        assert set(result) == {"verb", "noun", "action"}
        assert sorted(map(int, result["verb"])) == list(range(verbs))
        assert sorted(map(int, result["noun"])) == list(range(nouns))
        assert len(result["action"]) == actions
        for key in result["action"]:
            verb, noun = map(int, key.split(","))
            assert 0 <= verb < verbs
            assert 0 <= noun < nouns
        assert all(type(v) in (int, float) and v >= 0 for scores in result.values() for v in scores.values())


def test_challenge(ek100: DataConfig, tmp_path: Path) -> None:
    module = module_of(ek100)
    found = predict(small(), module, progress=False)
    write_challenge(tmp_path / "test.json", found, module.annotations, pretraining=2)
    data = json.loads((tmp_path / "test.json").read_text())
    check_submission(data, set(STARTS), VERBS, NOUNS, len(ACTIONS))
    assert data["sls_pt"] == 2
    wanted = found.scores["action"][0, 4].argmax()
    best = max(data["results"]["usual"]["action"].items(), key=lambda item: item[1])
    assert best[0] == "{},{}".format(*ACTIONS[int(wanted)])
    assert not any(data["results"]["at once"]["verb"].values())
    many = [(v, n) for v in range(20) for n in range(15)]
    classes = {"action": tuple(map(str, many)), "verb": tuple(map(str, range(20))), "noun": tuple(map(str, range(15)))}
    large = replace(module.annotations, classes=classes, action_parts=tuple(many))
    spread = replace(found, scores={"action": torch.randn(5, 8, 300)})
    data = challenge(spread, large)
    assert {name: data[name] for name in ("sls_pt", "sls_tl", "sls_td")} == {"sls_pt": 1, "sls_tl": 4, "sls_td": 3}
    assert set(challenge(found, module.annotations, pretraining=0, labels=5)) == set(data)
    check_submission(data, set(STARTS), 20, 15, 100)
    kept = {many[i] for i in spread.scores["action"][1, 4].topk(100).indices.tolist()}
    assert {tuple(map(int, key.split(","))) for key in data["results"]["late"]["action"]} == kept
    with pytest.raises(InputError, match="sls_tl is 6"):
        challenge(found, module.annotations, labels=6)
    with pytest.raises(InputError, match=r"no prediction 0\.3 s before"):
        challenge(found, module.annotations, tau=0.3)
    with pytest.raises(DataError, match="no actions of verb and noun"):
        challenge(found, replace(module.annotations, action_parts=()))


def test_wrong_steps(ek100: DataConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of(ek100)
    read = module.source.read
    monkeypatch.setattr(module.source, "read", lambda example, clip: read(example, replace(clip, steps=6)))
    with pytest.raises(DataError, match=r"has 6 positions and clip\.steps is 14"):
        predict(small(), module, progress=False)


def test_report(epic: DataConfig, tmp_path: Path) -> None:
    found = evaluate(small(), module_of(epic), progress=False)
    console = Console(width=100, record=True, file=(tmp_path / "out").open("w"))
    report.show(found, console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    assert "action recall@5" in text
    assert "protocol rulstm: examples that saw too much: 1 at 2s" in text
    assert ("1 that no frame precedes (left out)" in text) == ("many-shot" in text)
    assert ("1 could not be read (misses)" in text) == ("unseen" in text)
    found.save(tmp_path / "val.json")
    assert Evaluation.load(tmp_path / "val.json") == found
    unlabelled = replace(found, metrics={}, prior={})
    report.show(unlabelled, console)
