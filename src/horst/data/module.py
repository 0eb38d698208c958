"""Training and validation clips for Lightning: decoded in workers, batched by length, augmented on the device.

    module = ClipDataModule(DataConfig.from_file("data.yaml"), batch_size=16, workers=8, prefix=(0.1, 1.0))
    Trainer(use_distributed_sampler=False).fit(model, module)

Everything random about a clip is drawn from (seed, epoch, index of the clip). It is the same with any number of workers
or replicas, and after a resume in the middle of an epoch.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import torch

from horst.data.augmenter import NO_AUGMENT, OVERSAMPLE, Augment, Augmenter
from horst.data.batches import BadClips, Batch, ClipDataset
from horst.data.buckets import BucketSampler, ClipSampler, check_prefix, clip_lengths
from horst.data.clips import ClipConfig, early_actions
from horst.data.config import DataConfig
from horst.data.example import Split
from horst.data.loader import ClipBatches, ClipLoader, world_and_rank
from horst.data.preload import PreloadedClips
from horst.data.source import Source, open_source
from horst.errors import ConfigError, DataError
from horst.extras import import_lightning

import_lightning()
import lightning as lightning  # noqa: E402


class ClipDataModule(ClipBatches, lightning.LightningDataModule):
    """The clips of one data config: `train` shuffled, augmented and cut to random prefixes, `val` unchanged.

    A resumed fit continues with the batch after the last one that was trained on. Arguments are those of `ClipBatches`,
    `augment` for training clips on the device, and entries of `batches` in run files: `prefix` (the lowest and highest
    observed fraction of a training clip, drawn for each clip and epoch; it replaces the config's `clip.observe`),
    `bad_limit` (see `BadClips`), `drop_last`, `preload` (`horst.data.preload`). `planned`: see `open_source`.
    """

    def __init__(
        self,
        data: DataConfig,
        *,
        batch_size: int,
        workers: int = 0,
        seed: int = 0,
        augment: Augment = NO_AUGMENT,
        prefix: tuple[float, float] | None = None,
        bad_limit: float = 0.01,
        drop_last: bool = False,
        cache: str | None = None,
        preload: Literal["device"] | None = None,
        planned: bool = False,
    ) -> None:
        super().__init__(data, batch_size=batch_size, workers=workers, seed=seed, cache=cache)
        check_prefix(prefix)
        self.augment, self.prefix, self.bad_limit, self.drop_last = augment, prefix, bad_limit, drop_last
        self.preload, self.planned = preload, planned
        self.epoch = 0  # of training, without a trainer

    @cached_property
    def source(self) -> Source:
        source = open_source(self.data, planned=self.planned)
        for name, cuts in (("clip.observe", self.data.clip.observe < 1), ("prefix", self.prefix is not None)):
            if cuts and source.annotations.task != "recognition":
                raise ConfigError(f"{name} cuts clips of recognition; leave it out for anticipation")
        return source

    @cached_property
    def bad_clips(self) -> BadClips:
        annotations, clip = self.annotations.split("train"), self.data.clip
        early, total = early_actions(annotations, clip), len(annotations.examples)
        if len(early) == total > 0:
            starts = f"all {total} training actions start in the first {clip.stride:g} s of a video"
            raise DataError(f"{annotations.name}: {starts}, so no frame precedes them: lower clip.stride")
        return BadClips(self.bad_limit, total=total, early=early)

    @cached_property
    def _augmenter(self) -> Augmenter:
        return Augmenter(self.augment, self.annotations.split("train"), self.seed, self.data.clip)

    def setup(self, stage: str = "fit") -> None:
        _ = self.source  # its errors come before anything else starts
        connector = getattr(self.trainer, "_accelerator_connector", None)
        if connector is not None and connector.is_distributed and connector.use_distributed_sampler:
            raise ConfigError("Lightning would replace the samplers: pass use_distributed_sampler=False to the Trainer")

    @property
    def training_clip(self) -> ClipConfig:
        """The clips that training reads: with `augment.speed`, at a higher frame rate."""
        clip = self.data.clip
        return replace(clip, fps=OVERSAMPLE * clip.fps) if self.augment.speed else clip

    def train_dataloader(self) -> ClipLoader:
        config = self.training_clip if self.prefix is None else replace(self.data.clip, observe=1.0)
        replicas, rank = world_and_rank()
        sampler = BucketSampler(
            clip_lengths(self.source, "train", config),
            self.batch_size,
            seed=self.seed,
            replicas=replicas,
            rank=rank,
            drop_last=self.drop_last,
            prefix=self.prefix,
        )
        # Lightning asks for the first batches before it tells the sampler the epoch.
        sampler.set_epoch(*self._position(len(sampler)))
        return self.loader("train", sampler, self.training_clip, read=False)  # the augmenter reads frames

    def val_dataloader(self) -> ClipLoader | list[Any]:
        return self.evaluation_loader("val") if "val" in self.annotations.counts() else []

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """In training: count the bad clips, and augment the others on their device."""
        if self.trainer is None or not self.trainer.training:
            return batch
        return self.training_batch(batch, self.trainer.current_epoch)

    def training_batch(self, batch: Batch, epoch: int) -> Batch:
        """A batch of `train_dataloader`, counted and augmented. For loops without a trainer."""
        self.bad_clips.add(batch)
        return self._augmenter(batch, epoch)

    def state_dict(self) -> dict[str, Any]:
        return {"bad_clips": self.bad_clips.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.bad_clips.load_state_dict(state_dict["bad_clips"])

    def _position(self, batches: int) -> tuple[int, int]:
        """(epoch, batch) at which training starts or resumes."""
        if self.trainer is None:
            return self.epoch, 0
        loop = self.trainer.fit_loop
        epochs: Any = loop.epoch_progress.current
        steps: Any = loop.epoch_loop.batch_progress.current
        if epochs.started == epochs.processed:  # between two epochs
            return epochs.processed, 0
        # A checkpoint is written before its batch counts as completed, an interrupted batch was not processed.
        start = steps.ready if steps.processed == steps.ready else steps.completed
        return (epochs.processed, start) if start < batches else (epochs.processed + 1, 0)

    def loader(self, split: Split, sampler: ClipSampler, clip: ClipConfig, *, read: bool = True) -> ClipLoader:
        if (
            self.preload is not None
            and split not in self.decoded
            and clip == (self.training_clip if split == "train" else self.data.clip)
        ):
            device = self.trainer.strategy.root_device if self.trainer is not None else torch.device("cpu")
            clips = ClipDataset(self.source, split, clip, self.cache)
            self.decoded[split] = PreloadedClips(clips, device, self.workers)
        return super().loader(split, sampler, clip, read=read)
