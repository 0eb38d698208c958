"""The next Z actions of a whole video, for long-term anticipation: a GRU unrolls from each frame, one step per action.

Unlike `Unroller`, whose steps are frame times until an action starts, a step here is an action, however long it takes.

Shapes: C channels of the pooled maps, H hidden units, Z actions.
"""

import torch
from torch import Tensor, nn

from horst.config import check_positive


class SequenceUnroller(nn.Module):
    """h_0 = tanh(W m), h_z = GRU(m, h_{z-1}), scores_z = FC(h_z), for the means m of a frame's maps."""

    def __init__(self, channels: int, hidden: int, classes: int, steps: int) -> None:
        super().__init__()
        check_positive(sequence=steps)
        self.steps = steps
        self.start = nn.Linear(channels, hidden)
        self.gru = nn.GRUCell(channels, hidden)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, means: Tensor) -> Tensor:
        """(..., Z, classes) of means (..., C)."""
        m = means.flatten(0, -2)
        h = torch.tanh(self.start(m))
        scores = []
        for _ in range(self.steps):
            h = self.gru(m, h)
            scores.append(self.fc(h))
        return torch.stack(scores, 1).unflatten(0, means.shape[:-1])
