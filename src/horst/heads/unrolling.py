"""Anticipation with unrolling (appendix): an LSTM runs on from each frame over the time that nobody has seen yet.

How many steps it runs (`unroll`, tau_a * fps) depends on where a frame stands before the action, which only the caller
knows: over a clip of `steps` frames it is steps - t by default, a stream passes the horizons that it wants.

Shapes: B batch, T frames, C channels, U horizons.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from horst.heads.base import Unroll, Unroller, check_parts, select
from horst.heads.logits import Logits, check_maps
from horst.heads.pool import FrameNorm, Norm, Pool
from horst.heads.verb_noun_action import Form, check_head


class UnrollingHead(Unroller):
    """h_url and c_url start from what was seen, the LSTM reads mean(y_t) at every step, its last h gives the action.

    In the form "paper", xi_v and xi_n read e + STATT, and FC_feat, FC_c, FC_h make the LSTM's first state of them. In
    the form "released" they read STATT alone, and one linear layer with batch norm makes (h, c) of [xi_n; xi_v].

    Without `num_verbs` and `num_nouns` the action is all that is predicted; xi_v and xi_n still start the LSTM.
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
        super().__init__()
        check_head(form, num_classes=num_classes, steps=steps)
        self.form, self.steps, self.parts = form, steps, check_parts(num_verbs, num_nouns)
        self.pool = Pool(channels, self.reads if form == "paper" else ("y", "statt"), norm)
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
        if self.parts:
            self.fc_v = nn.Linear(channels, self.parts["verb"])
            self.fc_n = nn.Linear(channels, self.parts["noun"])
            self.fc_a2v = nn.Linear(num_classes, channels)
            self.fc_a2n = nn.Linear(num_classes, channels)

    @property
    def channels(self) -> int:
        return self.lstm.input_size

    @property
    def classes(self) -> dict[str, int]:
        return {"action": self.fc_a.out_features, **self.parts}

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
        said = [action]
        if self.parts:
            said.append(self.fc_v(xi_v.unsqueeze(2) + self.fc_a2v(action)))
            said.append(self.fc_n(xi_n.unsqueeze(2) + self.fc_a2n(action)))
        logits = [a if several else a.squeeze(2) for a in said]
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
