"""Anticipation with unrolling (appendix): from each frame an LSTM runs on until the action starts.

The number of steps (`unroll`, tau_a * fps) depends on the time until the action, which only the caller knows. For a
clip of `steps` frames it is steps - t by default; a stream passes the horizons that it wants.

Shapes: B batch, T frames, C channels, U horizons.
"""

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from horst.config import check_positive, check_type
from horst.errors import InputError
from horst.heads.base import Head, Logits, check_maps, check_parts, register_head
from horst.heads.pool import FrameNorm, MapPool, Norm
from horst.heads.verb_noun_action import Form

Unroll = int | Sequence[int] | Sequence[Sequence[int]] | Tensor
Advance = Callable[[tuple[Tensor, ...], list[int], int], tuple[Tensor, ...]]


class Unroller(Head):
    """A head that runs on after the last frame, one step per frame time, until the action starts (its horizon)."""

    unrolls = True
    steps: int
    """Length of a whole clip: at frame t the action is steps - t frames away."""

    def horizons(self, unroll: Unroll | None, frames: int, clip: bool) -> tuple[list[list[int]], bool]:
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
            raise InputError(
                f"unroll is {unroll}; {frames} frames take a number, {frames} of them or {frames} equal rows"
            )
        for value in (v for row in rows for v in row):
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise InputError(f"unroll holds {value!r}; it takes LSTM steps, whole numbers from 1 on")
        return rows, several

    @staticmethod
    def ahead(
        state: tuple[Tensor, ...], horizons: list[list[int]], advance: Advance, keep: int | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Run `advance` from every frame, up to its longest horizon.

        Args:
            state: Tensors (B, T, C), the start of the steps of each frame.
            horizons: U of them for every frame.
            advance: (state of the frames that still run, their indices, the step from 1 on) -> the state after it.
            keep: Index of the state's tensor to return after every step, too.

        Returns:
            The first of the state's tensors after each horizon, (B, T, U, C), and the kept one, (B, T, K, C), with
            zeros after a frame's longest horizon.
        """
        reached: list[dict[int, Tensor]] = [{} for _ in horizons]
        running = list(range(len(horizons)))
        kept = []
        for k in range(1, max(max(row) for row in horizons) + 1):
            still = [i for i, t in enumerate(running) if max(horizons[t]) >= k]
            if len(still) < len(running):
                state = tuple(select(a, still) for a in state)
                running = [running[i] for i in still]
            state = advance(state, running, k)
            for i, t in enumerate(running):
                if k in horizons[t]:
                    reached[t][k] = state[0][:, i]
            if keep is not None:
                blank = state[keep].new_zeros(state[keep].shape[0], state[keep].shape[2])
                at = {t: state[keep][:, i] for i, t in enumerate(running)}
                kept.append(torch.stack([at.get(t, blank) for t in range(len(horizons))], 1))
        out = torch.stack([torch.stack([reached[t][k] for k in row], 1) for t, row in enumerate(horizons)], 1)
        return out, torch.stack(kept, 2) if kept else None


def select(x: Tensor, frames: Sequence[int]) -> Tensor:
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
        parts = check_parts(num_verbs, num_nouns)
        super().__init__(channels, {"action": num_classes, **parts})
        check_type("form", form, Form)
        check_positive(steps=steps)
        self.form, self.steps = form, steps
        self.pool = MapPool(channels, self.reads if form == "paper" else ("y", "statt"), norm)
        self.fc_xi_v = nn.Linear(channels, channels)
        self.fc_xi_n = nn.Linear(channels, channels)
        if form == "paper":
            self.fc_feat = nn.Linear(2 * channels, channels)
            self.fc_h = nn.Linear(channels, channels)
            self.fc_c = nn.Linear(channels, channels)
        else:
            self.fuse = nn.Sequential(nn.Linear(2 * channels, 2 * channels), FrameNorm(2 * channels))
        self.lstm = nn.LSTMCell(channels, channels)
        self.fc_a = nn.Linear(channels, num_classes)
        if parts:
            self.fc_v = nn.Linear(channels, parts["verb"])
            self.fc_n = nn.Linear(channels, parts["noun"])
            self.fc_a2v = nn.Linear(num_classes, channels)
            self.fc_a2n = nn.Linear(num_classes, channels)

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

        `unroll`: LSTM steps, from 1 on: one number for all frames, or one per frame, or U per frame, which adds an axis
        of U horizons before the classes. For one frame: a number, or U of them. `valid` (B, T): which frames are not
        padding. `complete`: pretraining by sequence completion, in which the LSTM reads the frames that follow.
        """
        check_maps(self.channels, y=y, e=e, statt=statt)
        clip = y.ndim == 5
        y, e, statt = self.pool(valid, y=y, e=e, statt=statt)
        if not clip:
            y, e, statt = (m.unsqueeze(1) for m in (y, e, statt))
        horizons, several = self.horizons(unroll, y.shape[1], clip)
        seen = statt if self.form == "released" else e + statt
        xi_v, xi_n = torch.relu(self.fc_xi_v(seen)), torch.relu(self.fc_xi_n(seen))
        h_url = self._unroll(y, *self._first_state(xi_v, xi_n, valid), horizons, complete)  # (B, T, U, C)
        action = self.fc_a(h_url)
        scores = [action]
        if "verb" in self.classes:
            scores.append(self.fc_v(xi_v.unsqueeze(2) + self.fc_a2v(action)))
            scores.append(self.fc_n(xi_n.unsqueeze(2) + self.fc_a2n(action)))
        logits = [a if several else a.squeeze(2) for a in scores]
        return Logits(*(logits if clip else [a.squeeze(1) for a in logits]))

    def _first_state(self, xi_v: Tensor, xi_n: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.form == "paper":
            feat = torch.relu(self.fc_feat(torch.cat([xi_v, xi_n], -1)))
            return self.fc_h(feat), self.fc_c(feat)
        linear, norm = self.fuse
        h, c = norm(linear(torch.cat([xi_n, xi_v], -1)), valid).chunk(2, -1)
        return h, c

    def _unroll(self, y: Tensor, h: Tensor, c: Tensor, horizons: list[list[int]], complete: bool) -> Tensor:
        """The LSTM's h after each frame's horizons, (B, T, U, C)."""

        def advance(state: tuple[Tensor, ...], running: list[int], k: int) -> tuple[Tensor, ...]:
            h, c, seen = state
            if complete:
                seen = select(y, [min(t + k, y.shape[1]) - 1 for t in running])
            h, c = self.lstm(seen.flatten(0, 1), (h.flatten(0, 1), c.flatten(0, 1)))
            return *(a.unflatten(0, seen.shape[:2]) for a in (h, c)), seen

        return self.ahead((h, c, y), horizons, advance)[0]
