"""The data module: the same clips with any number of workers and after a resume, and all clips in evaluation."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from small_sets import TRAIN, config
from torch import Tensor
from torch.nn import functional as F

from horst.data.augmenter import Augment
from horst.data.batches import BadClip, Batch, ClipDataset, Item
from horst.data.config import DataConfig
from horst.data.module import ClipDataModule, lightning
from horst.data.preload import PreloadedClips
from horst.data.source import open_source
from horst.errors import ConfigError, DataError
from horst.models import create_model
from horst.threads import available_cores


@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_keeps_its_denominator(clips: Path, workers: int) -> None:
    module = ClipDataModule(config(clips), batch_size=3, workers=workers)
    batches = list(module.val_dataloader())
    assert sorted(i for b in batches for i in (*b.indices, *(c.index for c in b.bad))) == [0, 1, 2, 3]
    assert sum(len(b.bad) for b in batches) == 2
    assert len(module.bad_clips) == 0  # of training
    with pytest.raises(DataError, match="the split 'test' has no examples"):
        module.evaluation_loader("test")


@pytest.mark.filterwarnings("error:This DataLoader will create")
def test_no_more_workers_than_cores(clips: Path) -> None:
    module = ClipDataModule(config(clips), batch_size=3, workers=1000)
    assert module.workers == module.val_dataloader().num_workers == available_cores()


def test_training_stops_past_the_limit(clips: Path, tmp_path: Path) -> None:
    rows = "".join(f"{p},train,x\n" for p in ("wave/a.mp4", "wave/gone.mp4", "wave/b.webm"))
    (tmp_path / "c.csv").write_text(f"path,split,label\n{rows}")
    data = DataConfig(source="csv", options={"path": str(tmp_path / "c.csv"), "root": str(clips / "train")})
    module = ClipDataModule(data, batch_size=3)
    (batch,) = module.train_dataloader()
    with pytest.raises(DataError, match=r"(?s)are bad, more than the limit.*gone\.mp4: there is no such file"):
        module.training_batch(batch, 0)
    module = ClipDataModule(data, batch_size=3, bad_limit=0.5)
    (batch,) = module.train_dataloader()
    assert len(module.training_batch(batch, 0)) == 2
    assert [ident for ident, _ in module.bad_clips.listed] == ["wave/gone.mp4"]


def assert_same(one: Batch, other: Batch) -> None:
    """To the bit, and as they lie in memory."""
    assert (one.ids, one.indices, one.bad, one.notes) == (other.ids, other.indices, other.bad, other.notes)
    assert torch.equal(one.frames, other.frames)
    assert one.frames.stride() == other.frames.stride()
    assert torch.equal(one.lengths, other.lengths)
    assert torch.equal(one.observed, other.observed)
    assert torch.equal(one.labels["action"], other.labels["action"])
    assert one.times.numpy().tobytes() == other.times.numpy().tobytes()


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("observe", [1.0, 0.5])
def test_preloaded_clips_give_the_same_evaluation_batches(clips: Path, observe: float, size: int) -> None:
    """Two of the four cannot be read."""
    read = ClipDataModule(config(clips, observe=observe), batch_size=size)
    kept = ClipDataModule(config(clips, observe=observe), batch_size=size, workers=1, preload="device")
    for one, other in zip(read.evaluation_loader("val"), kept.evaluation_loader("val"), strict=True):
        assert_same(one, other)
    assert sorted(kept.decoded["val"].items) == [1, 2]
    assert not read.decoded


@pytest.mark.parametrize("preload", [False, True])
def test_workers_give_the_same_batches(clips: Path, preload: bool) -> None:
    def batches(workers: int, epoch: int, preload: bool = False) -> list[Batch]:
        module = ClipDataModule(
            config(clips),
            batch_size=2,
            workers=workers,
            seed=3,
            prefix=(0.3, 1.0),
            augment=Augment(magnitude=20),
            preload="device" if preload else None,
        )
        module.epoch = epoch
        return [module.training_batch(batch, epoch) for batch in module.train_dataloader()]

    alone, helped, later = batches(0, 0), batches(2, 0, preload), batches(0, 1)
    assert len(alone) == len(helped) == 3
    for one, other in zip(alone, helped, strict=True):
        assert_same(one, other)
    observed = [{i: n for b in some for i, n in zip(b.ids, b.lengths.tolist(), strict=True)} for some in (alone, later)]
    assert observed[0] != observed[1]
    assert all(1 <= n <= TRAIN[i.removeprefix("train/")] for some in observed for i, n in some.items())


class Recorder(lightning.LightningModule):
    """A narrow horst_tiny that remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        backbone = {"name": "stem", "widths": [4, 8]}
        self.model = create_model("horst_tiny", backbone=backbone, hidden=(8,), stride=(1,), heads=2, num_classes=2)
        self.seen: list[tuple[Any, ...]] = []
        self.validated: list[int] = []

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        self.seen.append((self.current_epoch, batch_idx, batch.ids, batch.lengths.tolist(), int(batch.frames.sum())))
        out, _ = self.model(batch.frames, lengths=batch.lengths)
        last = out.logits.action[torch.arange(len(batch)), batch.lengths - 1]
        return F.cross_entropy(last, batch.labels["action"])

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self.validated += [*batch.indices, *(clip.index for clip in batch.bad)]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def training_module(clips: Path, workers: int = 0, preload: bool = False) -> ClipDataModule:
    return ClipDataModule(
        config(clips),
        batch_size=2,
        workers=workers,
        seed=1,
        prefix=(0.3, 1.0),
        augment=Augment(magnitude=9),
        preload="device" if preload else None,
    )


def fit(
    folder: Path, clips: Path, steps: int, resume: Path | None = None, workers: int = 0, preload: bool = False
) -> Recorder:
    module = training_module(clips, workers, preload)
    torch.manual_seed(0)
    model = Recorder()
    trainer = lightning.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=1,
        callbacks=[
            lightning.pytorch.callbacks.ModelCheckpoint(folder, filename="{step}", every_n_train_steps=1, save_top_k=-1)
        ],
    )
    trainer.fit(model, module, ckpt_path=resume, weights_only=True)
    return model


@pytest.mark.filterwarnings("ignore:.*num_workers.*", "ignore:.*log_every_n_steps.*", "ignore:.*isinstance.*treespec")
def test_lightning_trains_and_resumes_at_any_batch(clips: Path, tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", clips, 7)  # two epochs of three batches, and one batch
    assert [seen[:2] for seen in whole.seen] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert sorted(chain(*(seen[2] for seen in whole.seen[:3]))) == sorted(f"train/{name}" for name in TRAIN)
    assert whole.seen[0][2:] != whole.seen[3][2:]
    assert sorted(whole.validated[-4:]) == [0, 1, 2, 3]
    module = training_module(clips)
    module.epoch = 1  # what the trainer showed in its second epoch, without it
    second = [module.training_batch(batch, 1) for batch in module.train_dataloader()]
    assert [(b.ids, b.lengths.tolist(), int(b.frames.sum())) for b in second] == [s[2:] for s in whole.seen[3:6]]
    for step in (1, 2, 3, 4, 6):
        how: dict[str, Any] = {"workers": 2 * (step == 4), "preload": step in (3, 6)}
        resumed = fit(tmp_path / "again", clips, 7, tmp_path / "whole" / f"step={step}.ckpt", **how)
        assert resumed.seen == whole.seen[step:]
        for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
            assert torch.equal(one, other)


def test_preloaded_clips_release_shared_memory(clips: Path) -> None:
    dataset = ClipDataset(open_source(config(clips)), "train", config(clips).clip)
    kept = PreloadedClips(dataset, torch.device("cpu"), workers=1)
    assert sum(TRAIN.values()) + 1 == len(kept.frames)
    for item in kept.items.values():
        assert item.frames.numel() == len(item.times)  # their places alone
        assert not item.times.is_shared()
        assert not item.observed.is_shared()
    before = kept.frames.clone()
    kept.batch([0, 1]).read().frames.zero_()  # a batch is a copy
    assert torch.equal(kept.frames, before)


def test_preloaded_clips_are_read_once_for_all_runs(
    clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preloaded(**options: Any) -> PreloadedClips:
        data = config(clips, **options)
        return PreloadedClips(ClipDataset(open_source(data), "train", data.clip, tmp_path), torch.device("cpu"))

    first = preloaded()
    assert first.dataset.cache is not None
    file, _ = first.dataset.cache.file_for(first.dataset.examples, first.dataset.config)

    def without_reading(**options: Any) -> PreloadedClips:
        with monkeypatch.context() as patch:
            patch.setattr(ClipDataset, "__getitem__", lambda *_: pytest.fail("was read again"))
            return preloaded(**options)

    again = without_reading(observe=0.5)  # whole clips are kept, whatever is observed of them
    one, other = (kept.batch([(2, 0.5), (0, 1.0)]).read() for kept in (first, again))
    for name in ("frames", "lengths", "times", "observed"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=0, equal_nan=True)
    assert (one.ids, one.labels["action"].tolist()) == (other.ids, other.labels["action"].tolist())
    for damaged in (file.read_bytes()[:-9], b""):
        file.unlink()  # others may have it mapped
        file.write_bytes(damaged)
        assert torch.equal(preloaded().frames, first.frames)
        assert torch.equal(without_reading().frames, first.frames)  # it was written anew


@pytest.mark.parametrize("kind", ["bad", "features"])
def test_incomplete_splits_and_features_are_not_stored(
    clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A clip that cannot be read today may be tomorrow; features of one name may be of other networks."""
    read = ClipDataset.__getitem__

    def item(dataset: ClipDataset, pick: Any) -> Any:
        found = read(dataset, pick)
        assert isinstance(found, Item)
        if kind == "bad":
            return BadClip(found.id, found.index, "gone", found.labels) if found.index == 1 else found
        return replace(found, frames=found.frames.float())

    monkeypatch.setattr(ClipDataset, "__getitem__", item)
    dataset = ClipDataset(open_source(config(clips)), "train", config(clips).clip, tmp_path)
    kept = PreloadedClips(dataset, torch.device("cpu"))
    assert len(kept.items) == len(dataset) - (kind == "bad")
    assert dataset.cache is not None
    assert not dataset.cache.file_for(dataset.examples, dataset.config)[0].exists()


def test_wrong_options(clips: Path) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"workers": -1}, "workers is -1"),
        ({"prefix": (0.5, 2.0)}, "prefix is"),
    ]
    for options, says in bad:
        with pytest.raises(ConfigError, match=says):
            ClipDataModule(config(clips), **{"batch_size": 2, **options})
    with pytest.raises(ConfigError, match="magnitude is 31"):
        Augment(magnitude=31)
    with pytest.raises(DataError, match="no such folder"):
        ClipDataModule(config(clips / "nowhere"), batch_size=1).setup()


def test_lightning_must_not_replace_the_samplers(clips: Path) -> None:
    """Lightning replaces samplers in a distributed run unless it is told not to."""
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False)
    module = ClipDataModule(config(clips), batch_size=2)
    module.trainer = trainer
    with pytest.raises(ConfigError, match="use_distributed_sampler=False"):
        module.setup()


@pytest.mark.parametrize(
    ("epochs", "steps", "expected"),
    [
        ({"started": 0, "processed": 0}, {}, (0, 0)),
        ({"started": 2, "processed": 2}, {"ready": 3, "processed": 3, "completed": 3}, (2, 0)),
        ({"started": 3, "processed": 2}, {"ready": 1, "processed": 1, "completed": 0}, (2, 1)),
        ({"started": 3, "processed": 2}, {"ready": 2, "processed": 1, "completed": 1}, (2, 1)),
        ({"started": 3, "processed": 2}, {"ready": 3, "processed": 3, "completed": 2}, (3, 0)),
        ({"started": 1, "processed": 0}, {"ready": 3, "processed": 2, "completed": 2}, (0, 2)),
    ],
)
def test_training_resumes_after_the_last_complete_batch(
    clips: Path, epochs: dict[str, int], steps: dict[str, int], expected: tuple[int, int]
) -> None:
    """An epoch has three batches. After its last one the next epoch begins."""
    trainer = lightning.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    module = ClipDataModule(config(clips), batch_size=2)
    module.epoch = 4
    assert module._position(3) == (4, 0)  # no trainer says otherwise
    module.trainer = trainer
    for progress, values in (
        (trainer.fit_loop.epoch_progress.current, epochs),
        (trainer.fit_loop.epoch_loop.batch_progress.current, steps),
    ):
        for name, value in values.items():
            setattr(progress, name, value)
    assert module._position(3) == expected


def test_incomplete_batches_can_be_dropped(clips: Path) -> None:
    for drop, sizes in ((True, [4]), (False, [2, 4])):
        module = ClipDataModule(config(clips), batch_size=4, drop_last=drop)
        assert sorted(len(batch) for batch in module.train_dataloader()) == sizes
    assert module.train_dataloader().num_workers == 0
    state = module.state_dict()
    assert set(state) == {"bad_clips"}


@pytest.mark.parametrize("options", [{"prefix": (0.5, 1.0)}, {"observe": 0.5}])
def test_only_clips_of_recognition_are_cut(clips: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "c.csv").write_text("path,split,label,start\nwave/a.mp4,train,x,0.2\n")
    place = {"path": str(tmp_path / "c.csv"), "root": str(clips / "train")}
    clip = config(clips, **({"observe": 0.5} if "observe" in options else {})).clip
    for task in ("recognition", "anticipation"):
        data = DataConfig(source="csv", options={**place, "task": task}, clip=clip)
        module = ClipDataModule(data, batch_size=1, prefix=options.get("prefix"))
        if task == "recognition":
            module.setup()
        else:
            with pytest.raises(ConfigError, match="cuts clips of recognition"):
                module.setup()
