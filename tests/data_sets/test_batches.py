"""Clips for training: what is in a batch is what the files show, and a clip that cannot be read is never forgotten."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import videos
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

from horst.data.batches import BadClip, BadClips, Batch, ClipDataset, Item, collate
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig, Source, open_source
from horst.data.example import Annotations, Example
from horst.data.features import FeatureClip
from horst.data.module import NO_AUGMENT, Augment, Augmenter, ClipDataModule, lightning, mirror_table
from horst.errors import ConfigError, DataError
from horst.models import create_model

TRAIN = {"wave/a.mp4": 7, "wave/b.webm": 12, "stop/c.mp4": 20, "stop/d.webm": 5, "wave/e.mp4": 13, "stop/f.mp4": 9}
"""Frames, of 12 a second."""


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of six training clips, and four for validation of which two are bad."""
    root = tmp_path_factory.mktemp("clips")
    for name, frames in (
        {f"train/{k}": v for k, v in TRAIN.items()} | {"val/wave/g.mp4": 6, "val/stop/h.webm": 8}
    ).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        videos.clip(root / name, frames=frames)
    (root / "val/stop/empty.mp4").touch()
    (root / "val/wave/text.mp4").write_text("no video")
    return root


def config(root: Path, **clip: Any) -> DataConfig:
    return DataConfig(source="folder", options={"root": str(root)}, clip=ClipConfig(size=(24, 32), **clip))


def dataset(root: Path, split: str = "train", **clip: Any) -> ClipDataset:
    chosen = config(root, **clip)
    return ClipDataset(open_source(chosen), split, chosen.clip)


def numbers(frames: Tensor) -> list[int]:
    return [videos.number_of(frame.permute(1, 2, 0).numpy()) for frame in frames]


def test_items_show_what_is_in_the_files(clips: Path) -> None:
    found = dataset(clips)
    items = [found[i] for i in range(len(found))]
    for index, (item, example) in enumerate(zip(items, found.examples, strict=True)):
        assert isinstance(item, Item)
        frames = TRAIN[example.id.removeprefix("train/")]
        assert (item.id, item.index, item.labels, item.note) == (example.id, index, example.labels, "")
        assert item.frames.shape == (frames, 3, 24, 32)
        assert item.frames.dtype == torch.uint8
        assert numbers(item.frames) == list(range(frames))
        assert item.observed.all()
        assert item.times.dtype == torch.float64
        torch.testing.assert_close(item.times, torch.arange(frames) / 12, atol=1e-3, rtol=0, check_dtype=False)
    half = found[(3, 0.5)]
    assert isinstance(half, Item)
    assert isinstance(items[3], Item)
    assert torch.equal(half.frames, items[3].frames[: -(-len(items[3].frames) // 2)])


def test_padding(clips: Path) -> None:
    found = dataset(clips)
    items = [found[i] for i in (2, 0, 4)]
    batch = collate(items)
    lengths = [len(i.frames) for i in items if isinstance(i, Item)]
    assert batch.frames.shape == (3, max(lengths), 3, 24, 32)
    assert batch.frames.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)
    assert batch.lengths.tolist() == lengths
    assert batch.indices == (2, 0, 4)
    assert batch.ids == tuple(found.examples[i].id for i in batch.indices)
    assert batch.labels["action"].tolist() == [found.examples[i].labels["action"] for i in batch.indices]
    assert batch.labels["action"].dtype == batch.lengths.dtype == torch.int64
    assert (len(batch), batch.bad, batch.notes) == (3, (), ("", "", ""))
    for row, item in enumerate(items):
        assert isinstance(item, Item)
        length = len(item.frames)
        assert torch.equal(batch.frames[row, :length], item.frames)
        assert not batch.frames[row, length:].any()
        assert torch.equal(batch.times[row, :length], item.times)
        assert batch.times[row, length:].isnan().all()
        assert batch.observed[row].tolist() == batch.valid[row].tolist() == [i < length for i in range(max(lengths))]


def test_unobserved_positions_and_unknown_labels(clips: Path, tmp_path: Path) -> None:
    """Strict anticipation: what lies before the video is black and unobserved, but no padding."""
    (tmp_path / "actions.csv").write_text(
        "path,split,label,start\nc.mp4,train,x,1\nc.mp4,train,x,0.1\nc.mp4,test,x,1\n"
    )
    options = {"path": str(tmp_path / "actions.csv"), "root": str(clips / "train/stop"), "task": "anticipation"}
    clip = ClipConfig(size=(24, 32), steps=5, mode="strict")
    found = ClipDataset(open_source(DataConfig(source="csv", options=options)), "train", clip)
    batch = collate([found[0], found[1], Item(torch.zeros(2, 3, 24, 32), *torch.zeros(2, 2), {}, "z", 7)])  # type: ignore[arg-type]
    assert batch.lengths.tolist() == [5, 2]
    assert batch.observed[0].tolist() == [False, True, True, True, True]
    assert batch.valid[0].all()
    assert batch.times[0].isnan().tolist() == [True] + 4 * [False]
    assert not batch.frames[0, 0].any()
    assert batch.labels["action"].tolist() == [0, -1]
    (bad,) = batch.bad  # an action so early that there is nothing to see before it
    assert (bad.id, bad.index, bad.labels) == ("c.mp4@0.1", 1, {"action": 0})
    assert "no frame lies" in bad.why


def test_all_bad_is_an_empty_batch(clips: Path) -> None:
    found = dataset(clips, "val")
    bad = [i for i in range(4) if isinstance(found[i], BadClip)]
    batch = collate([found[i] for i in bad])
    assert len(batch) == len(batch.frames) == len(batch.lengths) == len(batch.labels["action"]) == 0
    assert batch.frames.shape[:3] == (0, 0, 3)
    assert {clip.id: clip.why.split(": ")[1].split()[0] for clip in batch.bad} == {
        "val/stop/empty.mp4": "the",
        "val/wave/text.mp4": "FFmpeg",
    }
    assert batch.valid.shape == (0, 0)
    assert batch.to("cpu").bad == batch.bad


def test_to_moves_what_a_model_reads(clips: Path) -> None:
    found = dataset(clips)
    batch = collate([found[0], found[1]]).to("meta")
    assert {t.device.type for t in (batch.frames, batch.observed, batch.labels["action"], batch.valid)} == {"meta"}
    assert batch.lengths.device.type == batch.times.device.type == "cpu"
    assert batch.frames.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_keeps_its_denominator(clips: Path, workers: int) -> None:
    module = ClipDataModule(config(clips), batch_size=3, workers=workers)
    batches = list(module.val_dataloader())
    assert sorted(i for b in batches for i in (*b.indices, *(c.index for c in b.bad))) == [0, 1, 2, 3]
    assert sum(len(b.bad) for b in batches) == 2
    assert len(module.bad_clips) == 0  # of training
    with pytest.raises(DataError, match="no example in the split 'test'"):
        module.evaluation_loader("test")


def with_bad(indices: Sequence[int], bad: Sequence[int]) -> Batch:
    empty = torch.zeros(0)
    return Batch(
        *[empty] * 4,
        {},
        indices=tuple(indices),
        bad=tuple(BadClip(f"clip {i}", i, "it is\nbroken, sadly") for i in bad),
    )


def test_bad_clips_are_counted_once_and_listed(tmp_path: Path) -> None:
    bad = BadClips(total=1000)
    for _ in range(3):  # epochs
        bad.add(with_bad(range(5), [9, 7]))
    assert (len(bad), bad.seen) == (2, 7)
    assert bad.listed == (("clip 7", "it is\nbroken, sadly"), ("clip 9", "it is\nbroken, sadly"))
    bad.write(tmp_path / "bad.csv")
    bad.write(tmp_path / "bad.csv")
    with (tmp_path / "bad.csv").open(newline="") as file:
        assert [tuple(row) for row in csv.reader(file)] == [("id", "why"), *bad.listed]
    assert [p.name for p in tmp_path.iterdir()] == ["bad.csv"]
    again = BadClips(total=1000)
    again.load_state_dict(bad.state_dict())
    assert (again.seen, again.listed) == (bad.seen, bad.listed)
    with pytest.raises(DataError, match="made with 1000 training clips and there are 5 now"):
        BadClips(total=5).load_state_dict(bad.state_dict())
    with pytest.raises(ConfigError, match="limit of bad clips is 2"):
        BadClips(2, total=5)


@pytest.mark.parametrize(
    ("total", "good", "bad", "stops"),
    [
        (50_000, 0, 10, False),  # ten are let pass, however early
        (50_000, 0, 11, True),
        (50_000, 1990, 20, False),  # 20 of 2010 are under 1%
        (50_000, 1970, 20, True),
        (300, 0, 3, False),  # 1% of all
        (300, 200, 4, True),
        (50, 40, 1, True),  # 2%, whatever follows
    ],
)
def test_limit_of_bad_clips(total: int, good: int, bad: int, stops: bool) -> None:
    count = BadClips(total=total)
    batch = with_bad(range(bad, bad + good), range(bad))
    if not stops:
        return count.add(batch)
    with pytest.raises(DataError, match=rf"{bad} of {bad + good} training clips .*limit of 0.01(.|\n)*clip 0: it is"):
        count.add(batch)


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


def test_workers_give_the_same_batches(clips: Path) -> None:
    def batches(workers: int, epoch: int) -> list[Batch]:
        module = ClipDataModule(
            config(clips), batch_size=2, workers=workers, seed=3, prefix=(0.3, 1.0), augment=Augment(magnitude=20)
        )
        module.epoch = epoch
        return [module.training_batch(batch, epoch) for batch in module.train_dataloader()]

    alone, helped, later = batches(0, 0), batches(2, 0), batches(0, 1)
    assert len(alone) == len(helped) == 3
    for one, other in zip(alone, helped, strict=True):
        assert one.ids == other.ids
        assert torch.equal(one.frames, other.frames)
        assert torch.equal(one.lengths, other.lengths)
        assert one.times.numpy().tobytes() == other.times.numpy().tobytes()
    observed = [{i: n for b in some for i, n in zip(b.ids, b.lengths.tolist(), strict=True)} for some in (alone, later)]
    assert observed[0] != observed[1]
    assert all(1 <= n <= TRAIN[i.removeprefix("train/")] for some in observed for i, n in some.items())


def pair(mirror: tuple[int, ...], **options: Any) -> Annotations:
    """Clips of "to the left" 0, "to the right" 1, "turn clockwise" 2, and one without a label."""
    labels: list[dict[str, int]] = [{"action": i % 3} for i in range(60)]
    if options:
        labels = [{**known, "verb": known["action"], "noun": 0} for known in labels]
    labels.append({})
    examples = [Example(id=str(i), split="train", media=Path("x"), labels=known) for i, known in enumerate(labels)]
    classes = {"action": ("left", "right", "turn")} | dict.fromkeys(options and ("verb", "noun"), ("a", "b", "c"))
    parts = options.get("action_parts", ())
    return Annotations(
        name="p", task="recognition", examples=tuple(examples), classes=classes, mirror=mirror, action_parts=parts
    )


def drawn_items(annotations: Annotations) -> list[Item]:
    items = []
    for i, example in enumerate(annotations.examples):
        frames = torch.zeros(2, 3, 4, 6, dtype=torch.uint8)
        frames[..., 0] = i + 1
        items.append(Item(frames, torch.zeros(2), torch.ones(2).bool(), dict(example.labels), example.id, i))
    return items


def test_mirrored_clips_have_mirrored_labels() -> None:
    annotations = pair((1, 0, -1))
    augmenter = Augmenter(Augment(operations=0), annotations, seed=0)
    before = collate(drawn_items(annotations))
    after = augmenter(before, epoch=0)
    flipped = (after.frames[:, 0, 0, 0, -1] > 0).tolist()
    for i, is_flipped in enumerate(flipped):
        old = int(before.labels["action"][i])
        assert int(after.labels["action"][i]) == ((1, 0)[old] if is_flipped else old)
        assert torch.equal(after.frames[i], before.frames[i].flip(-1) if is_flipped else before.frames[i])
        assert not (is_flipped and old not in (0, 1))
    assert 10 <= sum(flipped) <= 30  # of 40
    assert torch.equal(augmenter(before, epoch=0).frames, after.frames)
    assert not torch.equal(augmenter(before, epoch=1).frames, after.frames)
    for off in (NO_AUGMENT, Augment(operations=0, mirror=False)):
        assert Augmenter(off, annotations, seed=0)(before, 0) is before
    assert Augmenter(Augment(operations=0), pair(()), seed=0)(before, 0) is before
    with pytest.raises(DataError, match="mirror is for 2 actions and there are 3"):
        mirror_table(pair((1, 0)))


def test_mirrored_verbs_follow_their_actions() -> None:
    annotations = pair((1, 0, 2), action_parts=((0, 0), (1, 0), (2, 0)))
    after = Augmenter(Augment(operations=0), annotations, seed=0)(collate(drawn_items(annotations)), 0)
    assert torch.equal(after.labels["verb"], after.labels["action"])
    assert mirror_table(pair((1, 0, 2), verbs=True)) == (-1, -1, 2)  # nobody says which verb the other action has


def test_augmentation_is_the_clips_own() -> None:
    """Each clip has its own draw, whatever batch it lies in: so do resumed runs and replicas."""
    annotations = pair((1, 0, -1))
    items = drawn_items(annotations)
    augmenter = Augmenter(Augment(operations=2, magnitude=25), annotations, seed=5)
    together, alone = augmenter(collate(items), 2), augmenter(collate(items[7:12]), 2)
    assert torch.equal(alone.frames, together.frames[7:12])
    assert len({f.numpy().tobytes() for f in together.frames}) > 50


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


def training_module(clips: Path, workers: int = 0) -> ClipDataModule:
    return ClipDataModule(
        config(clips), batch_size=2, workers=workers, seed=1, prefix=(0.3, 1.0), augment=Augment(magnitude=9)
    )


def fit(folder: Path, clips: Path, steps: int, resume: Path | None = None, workers: int = 0) -> Recorder:
    module = training_module(clips, workers)
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
        resumed = fit(tmp_path / "again", clips, 7, tmp_path / "whole" / f"step={step}.ckpt", workers=2 * (step == 4))
        assert resumed.seen == whole.seen[step:]
        for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
            assert torch.equal(one, other)


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


def test_precomputed_maps() -> None:
    annotations = pair((1, 0, 2))

    def read(example: Example, clip: ClipConfig) -> FeatureClip:
        steps = 2 + int(example.id) % 2
        return FeatureClip(np.full((steps, 5, 2, 2), int(example.id), np.float16), np.arange(steps, dtype=np.float64))

    found = ClipDataset(Source(annotations, read), "train", ClipConfig())
    batch = collate([found[0], found[3]])
    assert batch.frames.shape == (2, 3, 5, 2, 2)
    assert batch.frames.dtype == torch.float16
    assert batch.frames[:, :, 0, 0, 0].tolist() == [[0, 0, 0], [3, 3, 3]]
    assert not collate([found[2], found[3]]).frames[0, 2].any()
    assert Augmenter(NO_AUGMENT, annotations, seed=0)(batch, 0) is batch
    with pytest.raises(ConfigError, match="maps cannot be augmented"):
        Augmenter(Augment(), annotations, seed=0)(batch, 0)


def test_replicas_need_our_samplers(clips: Path) -> None:
    """Lightning replaces samplers in a distributed run unless it is told not to."""
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False)
    module = ClipDataModule(config(clips), batch_size=2)
    module.trainer = trainer
    with pytest.raises(ConfigError, match="use_distributed_sampler=False"):
        module.setup()


def test_a_source_of_ones_own_needs_no_files() -> None:
    """Whatever reads clips feeds a torch loader; what the reader raises on purpose is a bad clip."""
    annotations = pair(())

    def read(example: Example, clip: ClipConfig) -> Any:
        raise PermissionError(13, "not yours", example.id)

    found = ClipDataset(Source(annotations, read), "train", ClipConfig())
    (batch,) = DataLoader(found, batch_size=len(found), collate_fn=collate)
    assert len(batch.bad) == 61
    assert "not yours" in batch.bad[0].why
    assert np.isfinite(batch.bad[0].index)
