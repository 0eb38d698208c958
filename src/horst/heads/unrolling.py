"""Anticipation with unrolling (appendix): from each frame an LSTM runs on until the action starts.

The number of steps (`unroll`, tau_a * fps) depends on the time until the action, which only the caller knows. For a
clip of `steps` frames it is steps - t by default; a stream passes the horizons that it wants.

Shapes: B batch, T frames, C channels, U horizons.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from horst.config import check_positive, check_type
from horst.errors import InputError
from horst.heads.base import Head, Logits, count_classes, register_head
from horst.heads.linear import Form
from horst.heads.pool import FrameNorm, MapPool, Norm

Unroll = int | Sequence[int] | Sequence[Sequence[int]] | Tensor | None  # horizons in steps; None: those of a whole clip


def clip_horizons(head: Head, frames: int, fps: float) -> Unroll:
    """The horizons of a clip of anticipation, which ends when the action starts, or at each frame of a whole video."""
    return list(range(frames, 0, -1)) if head.video is None else [head.video.steps(fps)] * frames


class Unroller(Head):
    """A head that runs on after the last frame, one step per frame time, until the action starts (its horizon)."""

    unrolls = True
    steps: int  # length of a whole clip: at frame t the action is steps - t frames away
    extra: int = 0  # steps beyond the horizon

    def forward(
        self, *, unroll: Unroll = None, valid: Tensor | None = None, complete: bool = False, **maps: Tensor
    ) -> Logits:
        """Logits (B, T, classes) of maps (B, T, C, H, W), or (B, classes) of one frame (B, C, H, W).

        `unroll`: LSTM steps, from 1 on: one number for all frames, or one per frame, or U per frame, which adds an axis
        of U horizons before the classes. For one frame: a number, or U of them. `valid` (B, T): which frames are not
        padding. `complete`: pretraining by sequence completion, in which the LSTM reads the frames that follow, where
        there are any.
        """
        clip = maps["y"].ndim == 5
        means = self.pool_maps(valid, **maps)
        means = means if clip else [mean.unsqueeze(1) for mean in means]
        horizons, several = self.horizons(unroll, means[0].shape[1], clip)
        if not complete:
            horizons = [[k + self.extra for k in row] for row in horizons]
        h, c, x, *context = self.start(means, valid)
        h, future = self._ahead(h, c, x, horizons, complete)
        logits = self.classify(h, *context)
        logits = logits if several else logits.map(lambda scores: scores.squeeze(2))
        logits = logits if clip else logits.map(lambda scores: scores.squeeze(1))
        return replace(logits, future=future if clip or future is None else future.squeeze(1))

    @abstractmethod
    def pool_maps(self, valid: Tensor | None, **maps: Tensor) -> list[Tensor]:
        """The means of the maps, checked, in the order of `reads`."""

    @abstractmethod
    def start(self, means: list[Tensor], valid: Tensor | None) -> tuple[Tensor, ...]:
        """The first h and c (B, T, C) and input x (B, T, F) for the means (B, T, C), and what else `classify` takes."""

    @abstractmethod
    def advance(self, h: Tensor, c: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One step from h and c with the input x: the next h and c, and the next input."""

    @abstractmethod
    def classify(self, h: Tensor, *context: Tensor) -> Logits:
        """The scores (B, T, U, classes), from h (B, T, U, C) after each horizon."""

    def horizons(self, unroll: Unroll, frames: int, clip: bool) -> tuple[list[list[int]], bool]:
        """The horizons of every frame, and whether the output gets an axis for several of them."""
        if unroll is None:
            if not clip:
                raise InputError("the time until the action is unknown for one frame: pass unroll (tau_a * fps steps)")
            if frames > self.steps:
                raise InputError(f"the clip has {frames} frames and the head unrolls over {self.steps}: pass unroll")
            unroll = [self.steps - t for t in range(frames)]
        given: Any = unroll.tolist() if hasattr(unroll, "tolist") else unroll  # a tensor or an array
        if not isinstance(given, Sequence):  # one horizon for all
            rows, several = [[given]] * frames, False
        elif not clip:
            rows, several = [list(given)], True
        else:
            several = all(isinstance(row, Sequence) for row in given)
            rows = [list(row) for row in given] if several else [[row] for row in given]
        if len(rows) != frames or len({len(row) for row in rows}) != 1 or not rows[0]:
            raise InputError(f"unroll is {unroll}; it takes a number, {frames} of them or {frames} equal rows")
        for value in (v for row in rows for v in row):
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise InputError(f"unroll holds {value!r}; it takes LSTM steps, whole numbers from 1 on")
        return rows, several

    def _ahead(
        self, h: Tensor, c: Tensor, x: Tensor, horizons: list[list[int]], complete: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Run `advance` from the state of every frame, up to its longest horizon: h after each horizon, (B, T, U, C).

        If the head predicts features, also the inputs after every step, (B, T, K, F), with zeros after a frame's
        longest horizon.
        """
        reached: list[dict[int, Tensor]] = [{} for _ in horizons]
        running, seen, future = list(range(len(horizons))), x, []
        for k in range(1, max(max(row) for row in horizons) + 1):
            still = [i for i, t in enumerate(running) if max(horizons[t]) >= k]
            if len(still) < len(running):
                h, c, seen = (_select(a, still) for a in (h, c, seen))
                running = [running[i] for i in still]
            if complete:
                seen = _select(x, [min(t + k, x.shape[1]) - 1 for t in running])
            h, c, seen = self.advance(h, c, seen)
            for i, t in enumerate(running):
                if k in horizons[t]:
                    reached[t][k] = h[:, i]
            if self.predicts_features:
                at = dict(zip(running, seen.unbind(1), strict=True))
                blank = torch.zeros_like(seen[:, 0])
                future.append(torch.stack([at.get(t, blank) for t in range(len(horizons))], 1))
        out = torch.stack([torch.stack([reached[t][k] for k in row], 1) for t, row in enumerate(horizons)], 1)
        return out, torch.stack(future, 2) if future else None


def _select(x: Tensor, frames: Sequence[int]) -> Tensor:
    """x (B, T, C) at some frames; for neighbouring frames a view, without sending indices to a GPU."""
    first, after = frames[0], frames[-1] + 1
    return x[:, first:after] if list(frames) == list(range(first, after)) else x[:, list(frames)]


@register_head("unrolling")
class UnrollingHead(Unroller):
    """HORST-url: an LSTM starts from what was attended to and reads mean(y_t) at every step; its last h is classified.

    In the form "paper", xi_v and xi_n read e + STATT, and FC_feat, FC_c, FC_h compute the LSTM's first state from them.
    In the form "released" they read STATT only, and one linear layer with batch norm computes (h, c) from [xi_n; xi_v].

    Without `num_verbs` and `num_nouns` only the action is predicted; xi_v and xi_n still initialise the LSTM.
    """

    reads = ("y", "e", "statt")
    classifiers = ("fc_a", "fc_v", "fc_n", "fc_a2v", "fc_a2n")

    def __init__(
        self,
        channels: int,
        *,
        num_classes: int,
        num_verbs: int | None = None,
        num_nouns: int | None = None,
        steps: int = 14,
        form: Form = "paper",
        norm: Norm = "none",
    ) -> None:
        super().__init__(channels, count_classes(num_classes, num_verbs, num_nouns))
        check_type("form", form, Form)
        check_positive(steps=steps)
        self.form, self.steps = form, steps
        self.pool = MapPool(channels, self.reads if form == "paper" else ("y", "statt"), norm)
        self.fc_xi_v, self.fc_xi_n = nn.Linear(channels, channels), nn.Linear(channels, channels)
        if form == "paper":
            self.fc_feat = nn.Linear(2 * channels, channels)
            self.fc_h, self.fc_c = nn.Linear(channels, channels), nn.Linear(channels, channels)
        else:
            self.fuse = nn.Sequential(nn.Linear(2 * channels, 2 * channels), FrameNorm(2 * channels))
        self.lstm = nn.LSTMCell(channels, channels)
        self.fc_a = nn.Linear(channels, num_classes)
        if "verb" in self.classes:
            self.fc_v, self.fc_n = (nn.Linear(channels, self.classes[task]) for task in ("verb", "noun"))
            self.fc_a2v, self.fc_a2n = nn.Linear(num_classes, channels), nn.Linear(num_classes, channels)

    def pool_maps(self, valid: Tensor | None, **maps: Tensor) -> list[Tensor]:
        return self.pool(valid, **{name: maps[name] for name in self.reads})

    def start(self, means: list[Tensor], valid: Tensor | None) -> tuple[Tensor, ...]:
        y, e, statt = means
        seen = statt if self.form == "released" else e + statt
        xi_v, xi_n = torch.relu(self.fc_xi_v(seen)), torch.relu(self.fc_xi_n(seen))
        if self.form == "paper":
            feat = torch.relu(self.fc_feat(torch.cat([xi_v, xi_n], -1)))
            return self.fc_h(feat), self.fc_c(feat), y, xi_v, xi_n
        linear, norm = self.fuse
        h, c = norm(linear(torch.cat([xi_n, xi_v], -1)), valid).chunk(2, -1)
        return h, c, y, xi_v, xi_n

    def advance(self, h: Tensor, c: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h, c = self.lstm(x.flatten(0, 1), (h.flatten(0, 1), c.flatten(0, 1)))
        return h.unflatten(0, x.shape[:2]), c.unflatten(0, x.shape[:2]), x

    def classify(self, h: Tensor, *context: Tensor) -> Logits:
        action = self.fc_a(h)
        if "verb" not in self.classes:
            return Logits(action)
        xi_v, xi_n = (xi.unsqueeze(2) for xi in context)
        return Logits(action, self.fc_v(xi_v + self.fc_a2v(action)), self.fc_n(xi_n + self.fc_a2n(action)))
