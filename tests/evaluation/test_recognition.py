"""Early recognition: one forward pass gives the predictions of every prefix, and unreadable clips are misses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import horst
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.example import Example
from horst.data.loader import ClipBatches
from horst.data.module import ClipDataModule
from horst.data.packed import Packed
from horst.errors import ConfigError, DataError
from horst.evaluation import report
from horst.evaluation.evaluate import Evaluation, clip_for, evaluate, evaluate_predictions, predict
from horst.evaluation.measure import measure, metric_names, primary_metric, prior
from horst.evaluation.parts import merge_parts, part_file, write_part
from horst.evaluation.predictions import FRACTIONS, Predictions
from horst.models import Predictor
from horst.synth.make import make_somethings
from horst.training.speed import cpu_threads
from horst.video.sampling import observed_frames

VAL = 5


@pytest.fixture(scope="module")
def data_yaml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packed clips, of which an odd number is for validation."""
    path = make_somethings(tmp_path_factory.mktemp("made") / "somethings", 28, size=32, packed=True, processes=1)
    module = ClipDataModule(DataConfig.from_file(path), batch_size=1)
    assert module.annotations.counts()["val"] == VAL
    return path


def module_of(path: Path, batch_size: int = 3, **clip: Any) -> ClipDataModule:
    data = DataConfig.from_file(path)
    return ClipDataModule(replace(data, clip=replace(data.clip, **clip)), batch_size=batch_size)


def tiny(**options: Any) -> Predictor:
    torch.manual_seed(0)
    return horst.create_model(
        "horst_tiny",
        size=(32, 32),
        **{
            "num_classes": 24,
            "hidden": (8, 8),
            "stride": (2, 2),
            "backbone": {"name": "stem", "widths": [8, 8]},
            **options,
        },
    )


@pytest.fixture(scope="module")
def predictions(data_yaml: Path) -> Predictions:
    return predict(tiny(), module_of(data_yaml), progress=False)


def same(one: Predictions, other: Predictions) -> bool:
    plain = all(getattr(one, n) == getattr(other, n) for n in ("task", "positions", "ids", "missing"))
    names = ("read", "empty", "answers", "lengths", "last_seen", "limits")
    tensors = all(torch.equal(getattr(one, n), getattr(other, n)) for n in names)
    nested = all(
        a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
        for a, b in ((one.labels, other.labels), (one.scores, other.scores))
    )
    return plain and tensors and nested


def test_one_pass_equals_every_prefix(data_yaml: Path, predictions: Predictions) -> None:
    model, module = tiny().eval(), module_of(data_yaml, batch_size=1)
    assert predictions.positions == FRACTIONS
    with torch.inference_mode():
        for batch in module.evaluation_loader("val"):
            row = predictions.ids.index(batch.ids[0])
            frames = batch.frames.shape[1]
            assert predictions.lengths[row] == frames
            for p, fraction in enumerate(FRACTIONS):
                seen = observed_frames(frames, fraction)
                alone = model(batch.frames[:, :seen])[0].logits.action[0, -1]
                torch.testing.assert_close(predictions.scores["action"][row, p], alone, rtol=1e-4, atol=1e-5)
                assert predictions.last_seen[row, p] == batch.times[0, seen - 1]
            whole = model(batch.frames)[0].logits.action[0].argmax(-1)
            assert predictions.answers[row, :frames].tolist() == whole.tolist()
            assert (predictions.answers[row, frames:] == -1).all()


def test_clips_have_the_rate_of_the_data_or_the_model(data_yaml: Path, tmp_path: Path) -> None:
    folder = {"source": "packed", "folder": str(data_yaml.parent / "packed")}
    model = tiny(fps=6.0)
    for clip, fps, size in (({}, 6.0, (32, 32)), ({"fps": 12, "size": [24, 24]}, 12.0, (24, 24))):
        data = DataConfig.from_dict({**folder, "clip": clip})
        found = evaluate(model, ClipBatches(data), progress=False)
        assert (found.protocol["fps"], tuple(found.protocol["size"])) == (fps, size)
        lengths = predict(model, ClipBatches(data), progress=False).lengths
        frames = [len(ClipBatches(data).source.read(e, ClipConfig(fps=fps)).times) for e in _val(data)]
        assert lengths.tolist() == frames
        notes = [note for note in report.notes(found) if "made for" in note]
        assert bool(notes) == bool(clip)
        assert not notes or "24x24 pixels at 12 fps; the model was made for 32x32 pixels at 6" in notes[0]
    changed = DataConfig.from_dict(folder)  # a value that a program sets counts too
    changed = replace(changed, clip=replace(changed.clip, fps=4))
    assert clip_for(ClipBatches(changed), model).fps == 4
    assert clip_for(ClipBatches(DataConfig(source="packed", options={"folder": "x"})), model).fps == 12


def _val(data: DataConfig) -> tuple[Example, ...]:
    return ClipBatches(data).annotations.split("val").examples


@pytest.mark.parametrize("observe", [0.25, 0.5])
def test_cut_clips(data_yaml: Path, predictions: Predictions, observe: float) -> None:
    """A cut clip has one position; its prediction is that of the complete clip there."""
    module = module_of(data_yaml, observe=observe)
    part = predict(tiny(), module, progress=False)
    assert part.positions == (observe,)
    place = FRACTIONS.index(observe)
    torch.testing.assert_close(
        part.scores["action"][:, 0], predictions.scores["action"][:, place], rtol=1e-4, atol=1e-5
    )
    found = measure(part, module.annotations)
    name = f"{100 * observe:g}%"
    assert set(found) == {f"action/top1@{name}", f"action/top5@{name}", f"calibration@{name}"}
    assert primary_metric("recognition", module.data.clip) == f"action/top1@{name}"
    assert primary_metric("recognition") == "area"
    found = {name for name in measure(predictions, module.annotations) if "calibration" not in name}
    whole = metric_names(module.annotations, "val", ClipConfig(), ("action",))
    assert set(whole) == found - {"decided"}


def test_metrics(data_yaml: Path, predictions: Predictions) -> None:
    module = module_of(data_yaml)
    right = predictions.labels["action"]
    scores = torch.zeros(VAL, 11, 24)
    scores[torch.arange(VAL), 5:, right] = 9.0  # right from a half on, class 0 before
    answers = torch.where(predictions.answers >= 0, right[:, None], -1)
    found = measure(replace(predictions, scores={"action": scores}, answers=answers), module.annotations)
    assert [found[f"action/top1@{name}"] for name in predictions.names()[5:]] == [1.0] * 6
    before = float((right == 0).double().mean())
    assert found["action/top1@10%"] == found["action/top1@40%"] == pytest.approx(before)
    assert found["area"] == pytest.approx((0.3 * before + 0.05 * (1 + before) + 0.5) / 0.9)
    assert found["calibration@10%"] == pytest.approx(abs(before - 1 / 24), abs=1e-6)
    assert found["decided"] == pytest.approx(float((1 / predictions.lengths.double()).mean()))


def test_evaluation(data_yaml: Path, tmp_path: Path) -> None:
    module, model = module_of(data_yaml), tiny()
    model.train()
    model.backbone.eval()  # frozen
    found = evaluate(model, module, device="cpu", progress=False)
    assert model.training
    assert model.head.training
    assert not model.backbone.training
    assert (found.data, found.split, found.task, found.version) == (
        "somethings",
        "val",
        "recognition",
        horst.__version__,
    )
    assert found.counts == {
        "examples": VAL,
        "read": VAL,
        "missing": 0,
        "left_out": 0,
        "unlabelled": 0,
        "train": 28 - VAL,
    }
    shown = {"size": [32, 32], "fps": 12.0}
    assert found.protocol == {"mode": "prefix", "leaks": {}, "unobserved": {}, "fractions": list(FRACTIONS), **shown}
    assert found.seconds > 0
    assert found.classes == {"action": 24}
    assert all(0 <= value <= 1 for value in found.metrics.values())
    labels = [e.labels["action"] for e in module.annotations.split("train").examples]
    common = max(sorted(set(labels)), key=labels.count)
    wanted = [e.labels["action"] == common for e in module.annotations.split("val").examples]
    assert found.prior["action/top1"] == sum(wanted) / VAL
    assert prior(replace(module.annotations, examples=module.annotations.split("val").examples), "val") == {}
    found.save(tmp_path / "a" / "val.json")
    assert Evaluation.load(tmp_path / "a" / "val.json") == found
    console = Console(width=80, record=True, file=(tmp_path / "out").open("w"))
    report.show(found, console)
    text = console.export_text()
    assert "…" not in text
    assert "area under top-1" in text
    again = evaluate(tiny(), module, autocast=torch.bfloat16, progress=True)
    assert again.metrics.keys() == found.metrics.keys()
    (tmp_path / "typo.json").write_text('{"metric": {}}')
    with pytest.raises(DataError, match="no entry 'metric', did you mean 'metrics'"):
        Evaluation.load(tmp_path / "typo.json")
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(DataError, match=r"bad\.json"):
        Evaluation.load(tmp_path / "bad.json")


def test_bad_clips_are_misses(data_yaml: Path, tmp_path: Path, predictions: Predictions) -> None:
    shutil.copytree(data_yaml.parent, tmp_path / "copy")
    copy = tmp_path / "copy" / "data.yaml"
    module = module_of(copy)
    packed = module.source
    assert isinstance(packed, Packed)
    spoilt = module.annotations.split("val").examples[2]
    shard, offsets, *_ = packed._clips[spoilt.clip_id]
    with (packed.folder / shard).open("r+b") as file:
        file.seek(offsets[0])
        file.write(bytes(offsets[-1] - offsets[0]))
    right = predictions.labels["action"]

    found = predict(tiny(), module, progress=False)
    assert [ident for ident, _ in found.missing] == [spoilt.id]
    assert found.read.tolist() == [i != 2 for i in range(VAL)]
    scores, wanted = (one.scores["action"][found.read] for one in (found, predictions))
    torch.testing.assert_close(scores, wanted, rtol=0, atol=1e-6)  # a batch of another size may be summed otherwise
    alone = [predict(tiny(), module_of(path, batch_size=1), progress=False) for path in (copy, data_yaml)]
    scores, wanted = (one.scores["action"][found.read] for one in alone)
    assert torch.equal(scores, wanted)
    scores = torch.nn.functional.one_hot(right, 24).float()[:, None].repeat(1, 11, 1)
    scores[2] = found.scores["action"][2]
    perfect = replace(found, scores={"action": scores})
    evaluation = evaluate_predictions(perfect, module.annotations, "val", module.data.clip)
    assert evaluation.counts["missing"] == 1
    assert evaluation.missing[0][0] == spoilt.id
    assert evaluation.metrics["action/top1@50%"] == evaluation.metrics["action/top5@50%"] == (VAL - 1) / VAL


def test_save_and_load_predictions(predictions: Predictions, tmp_path: Path) -> None:
    predictions.save(tmp_path / "new" / "p.safetensors")
    loaded = Predictions.load(tmp_path / "new" / "p.safetensors")
    assert same(loaded, predictions)
    assert loaded.groups == loaded.ids  # each clip is a recording of its own
    assert loaded.select(torch.tensor([1, 0])).groups == (loaded.ids[1], loaded.ids[0])
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["p.safetensors"]
    with pytest.raises(DataError, match="no such file"):
        Predictions.load(tmp_path / "nowhere")
    (tmp_path / "text").write_text("no tensors here")
    with pytest.raises(DataError, match=r"text.*holds no predictions.*: evaluate again"):
        Predictions.load(tmp_path / "text")


def test_predictions_of_earlier_versions_have_no_groups(predictions: Predictions, tmp_path: Path) -> None:
    file = tmp_path / "p.safetensors"
    predictions.save(file)
    with safe_open(file, "pt") as stored:
        metadata = json.loads(stored.metadata()["predictions"])
    del metadata["groups"]
    save_file(load_file(file), file, {"predictions": json.dumps(metadata)})
    old = Predictions.load(file)
    assert same(old, predictions)
    assert old.groups == old.select(torch.tensor([0])).groups == ()


def test_damaged_evaluations_are_rejected(data_yaml: Path, predictions: Predictions, tmp_path: Path) -> None:
    file = tmp_path / "val.json"
    module = module_of(data_yaml)
    found = evaluate_predictions(predictions, module.annotations, "val", module.data.clip)
    found.save(file)
    assert Evaluation.load(file) == found
    whole, plain = file.read_text(), asdict(found)
    changed: list[dict[str, Any]] = [
        {"metrics": None},
        {"metrics": {"area": "0.5"}},
        {"counts": [1]},
        {"counts": {"examples": None}},
        {"protocol": "prefix"},
        {"prior": 3},
        {"surprise": 1},
    ]
    lacking = [{key: value for key, value in plain.items() if key != name} for name in ("metrics", "task", "counts")]
    for content in (
        whole[:-30],
        "",
        "[]",
        *(json.dumps({**plain, **one}) for one in changed),
        *map(json.dumps, lacking),
    ):
        file.write_text(content)
        with pytest.raises(DataError, match=r"(?s)val\.json.*; evaluate again"):
            Evaluation.load(file)
    with pytest.raises(DataError, match=r"nowhere\.json: there is no such file"):
        Evaluation.load(tmp_path / "nowhere.json")


def test_damaged_predictions_are_rejected(predictions: Predictions, tmp_path: Path) -> None:
    """Any part may be lost or inconsistent. No partial file is left."""
    file = tmp_path / "p.safetensors"
    predictions.save(file)
    whole = file.read_bytes()
    first = predictions.ids[0]
    half = predictions.select(torch.tensor([ident == first for ident in predictions.ids]))
    wrong = [
        replace(predictions, task="guessing"),
        replace(predictions, ids=predictions.ids[1:]),
        replace(predictions, groups=predictions.groups[1:]),
        replace(predictions, positions=predictions.positions[1:]),
        replace(predictions, labels={}),
        replace(predictions, scores={}),
        replace(predictions, labels=half.labels),
        replace(predictions, scores=half.scores),
        replace(predictions, read=half.read),
        replace(predictions, answers=half.answers),
        replace(predictions, limits=predictions.limits.flatten()),
    ]
    contents = [whole[: len(whole) // 2], whole[:4], b"", whole[:8] + b"{" + whole[9:20] + whole[21:]]
    for one in wrong:
        one.save(file)
        contents.append(file.read_bytes())
    for content in contents:
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"p\.safetensors is damaged.*evaluate again"):
            Predictions.load(file)
    clashing = replace(predictions, read=torch.tensor([1j] * VAL))  # of a kind that cannot be saved
    clashing = replace(clashing, empty=clashing.read.to(torch.complex128))
    with pytest.raises(Exception, match="complex128"):
        clashing.save(tmp_path / "other.safetensors")
    assert [p.name for p in tmp_path.iterdir()] == ["p.safetensors"]


def test_a_model_of_other_classes_is_rejected(data_yaml: Path) -> None:
    module = module_of(data_yaml)
    with pytest.raises(ConfigError, match="predicts 5 classes of action and somethings has 24"):
        evaluate(tiny(num_classes=5), module, progress=False)


@pytest.mark.real_rounding
def test_two_processes_equal_one(data_yaml: Path, tmp_path: Path) -> None:
    """Each evaluates its share, the second a smaller one, and both have all results, bit by bit."""
    model = tiny()
    model.save_pretrained(tmp_path / "model")
    script = Path(__file__).with_name("replica.py")
    arguments = [sys.executable, script, tmp_path / "model", data_yaml, "2", tmp_path]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    module = module_of(data_yaml, batch_size=2)
    with cpu_threads(1):  # as they have
        alone = predict(model, module, progress=False)
    metrics = evaluate_predictions(alone, module.annotations, "val", module.data.clip)
    for rank in range(2):
        assert same(Predictions.load(tmp_path / f"{rank}.safetensors"), alone)
        assert Evaluation.load(tmp_path / f"{rank}.json") == metrics


def test_parts_make_the_predictions_of_one_process(data_yaml: Path, tmp_path: Path) -> None:
    """To the bit, also with more parts than batches."""
    model, module = tiny(), module_of(data_yaml, batch_size=3)
    whole, parts = predict(model, module, progress=False), 4
    files = [part_file(tmp_path, "val", part, parts) for part in range(parts)]
    for part, file in enumerate(files):
        write_part(file, model, module, "val", part, parts)
    merged = merge_parts(files, model, module, "val")
    assert same(merged, whole)
    assert merged.groups == whole.groups
    stamps = [file.stat().st_mtime_ns for file in files]
    for part, file in enumerate(files):
        write_part(file, model, module, "val", part, parts)
    changed = sum(file.stat().st_mtime_ns != stamp for file, stamp in zip(files, stamps, strict=True))
    assert changed == 0
    with pytest.raises(DataError, match="of another model: evaluate this part again"):
        merge_parts(files, tiny(order=1), module, "val")
    files[1].unlink()
    with pytest.raises(DataError, match="is missing"):
        merge_parts(files, model, module, "val")
    with pytest.raises(ConfigError, match="part is 4 of 4; parts are numbered from 0 to 3"):
        write_part(files[1], model, module, "val", parts, parts)
