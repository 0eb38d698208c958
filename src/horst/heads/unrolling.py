"""Anticipation with unrolling (appendix): an LSTM runs on from each frame over the time that nobody has seen yet.

How many steps it runs (`unroll`, tau_a * fps) depends on where a frame stands before the action, which only the caller
knows: over a clip of `steps` frames it is steps - t by default, a stream passes the horizons that it wants.

Shapes: B batch, T frames, C channels, U horizons.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from horst.errors import InputError
from horst.heads.logits import Logits, check_maps
from horst.heads.pool import FrameNorm, Norm, Pool
from horst.heads.verb_noun_action import Form, check_head
from horst.registry import Part

Unroll = int | Sequence[int] | Sequence[Sequence[int]] | Tensor


class UnrollingHead(nn.Module):
    """h_url and c_url start from what was seen, the LSTM reads mean(y_t) at every step, its last h gives the action.

    In the form "paper", xi_v and xi_n read e + STATT, and FC_feat, FC_c, FC_h make the LSTM's first state of them. In
    the form "released" they read STATT alone, and one linear layer with batch norm makes (h, c) of [xi_n; xi_v].
    """

    unrolls = True
    made_from: Part | None = None

    def __init__(
        self,
        channels: int,
        *,
        num_actions: int,
        num_verbs: int,
        num_nouns: int,
        steps: int = 14,
        form: Form = "paper",
        norm: Norm = "none",
    ) -> None:
        super().__init__()
        check_head(form, num_actions=num_actions, num_verbs=num_verbs, num_nouns=num_nouns, steps=steps)
        self.form, self.steps = form, steps
        self.pool = Pool(channels, ("y", "e", "statt"), norm)
        self.fc_xi_v = nn.Linear(channels, channels)
        self.fc_xi_n = nn.Linear(channels, channels)
        if form == "paper":
            self.fc_feat = nn.Linear(2 * channels, channels)
            self.fc_h = nn.Linear(channels, channels)
            self.fc_c = nn.Linear(channels, channels)
        else:
            self.fuse = nn.Sequential(nn.Linear(2 * channels, 2 * channels), FrameNorm(2 * channels))
        self.lstm = nn.LSTMCell(channels, channels)
        self.fc_a = nn.Linear(channels, num_actions)
        self.fc_v = nn.Linear(channels, num_verbs)
        self.fc_n = nn.Linear(channels, num_nouns)
        self.fc_a2v = nn.Linear(num_actions, channels)
        self.fc_a2n = nn.Linear(num_actions, channels)

    @property
    def channels(self) -> int:
        return self.fc_v.in_features

    @property
    def classes(self) -> dict[str, int]:
        return {task: fc.out_features for task, fc in (("action", self.fc_a), ("verb", self.fc_v), ("noun", self.fc_n))}

    def forward(
        self,
        *,
        y: Tensor,
        e: Tensor,
        statt: Tensor,
        unroll: Unroll | None = None,
        valid: Tensor | None = None,
        complete: bool = False,
    ) -> Logits:
        """Logits (B, T, classes) of maps (B, T, C, H, W), or (B, classes) of one frame (B, C, H, W).

        `unroll`: LSTM steps, from 1 on; one number for all frames, or one a frame, or U of them a frame, which puts an
        axis of U horizons before the classes. For one frame: a number, or U of them. `valid` (B, T): no padding.
        `complete` is for pretraining by sequence completion: the LSTM reads the frames that really follow.
        """
        check_maps(self.lstm.input_size, y=y, e=e, statt=statt)
        clip = y.ndim == 5
        y, e, statt = self.pool(valid, y=y, e=e, statt=statt)
        if not clip:
            y, e, statt = (m.unsqueeze(1) for m in (y, e, statt))
        horizons, several = self.horizons(unroll, y.shape[1], clip)
        seen = statt if self.form == "released" else e + statt
        xi_v, xi_n = torch.relu(self.fc_xi_v(seen)), torch.relu(self.fc_xi_n(seen))
        h_url = self._unroll(y, *self._first_state(xi_v, xi_n, valid), horizons, complete)  # (B, T, U, C)
        action = self.fc_a(h_url)
        verb = self.fc_v(xi_v.unsqueeze(2) + self.fc_a2v(action))
        noun = self.fc_n(xi_n.unsqueeze(2) + self.fc_a2n(action))
        logits = [a if several else a.squeeze(2) for a in (action, verb, noun)]
        return Logits(*(logits if clip else [a.squeeze(1) for a in logits]))

    def _first_state(self, xi_v: Tensor, xi_n: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.form == "paper":
            feat = torch.relu(self.fc_feat(torch.cat([xi_v, xi_n], -1)))
            return self.fc_h(feat), self.fc_c(feat)
        linear, norm = self.fuse
        h, c = norm(linear(torch.cat([xi_n, xi_v], -1)), valid).chunk(2, -1)
        return h, c

    def _unroll(self, y: Tensor, h: Tensor, c: Tensor, horizons: list[list[int]], complete: bool) -> Tensor:
        """The LSTM's h after each frame's horizons, (B, T, U, C). A frame drops out once its longest is reached."""
        batch, frames, channels = y.shape
        clip = y
        reached: list[dict[int, Tensor]] = [{} for _ in horizons]
        running = list(range(frames))
        for k in range(1, max(max(row) for row in horizons) + 1):
            still = [i for i, t in enumerate(running) if max(horizons[t]) >= k]
            if len(still) < len(running):
                y, h, c = (a[:, still] for a in (y, h, c))
                running = [running[i] for i in still]
            if complete:
                y = clip[:, [min(t + k, frames) - 1 for t in running]]
            h, c = self.lstm(y.flatten(0, 1), (h.flatten(0, 1), c.flatten(0, 1)))
            h, c = (a.view(batch, len(running), channels) for a in (h, c))
            for i, t in enumerate(running):
                if k in horizons[t]:
                    reached[t][k] = h[:, i]
        return torch.stack([torch.stack([reached[t][k] for k in row], 1) for t, row in enumerate(horizons)], 1)

    def horizons(self, unroll: Unroll | None, frames: int, clip: bool) -> tuple[list[list[int]], bool]:
        """The horizons of every frame, and whether an axis for several of them was asked for."""
        if unroll is None:
            if not clip:
                raise InputError("one frame does not say how far off the action is: pass unroll (tau_a * fps steps)")
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
            raise InputError(
                f"unroll is {unroll}; {frames} frames take a number, {frames} of them or {frames} equal rows"
            )
        for value in (v for row in rows for v in row):
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise InputError(f"unroll holds {value!r}; it counts LSTM steps, whole numbers from 1 on")
        return rows, several
