"""How the kernels are launched. `python -m benchmarks.gpu_tuning` looks for better sizes on a GPU."""

from __future__ import annotations

from typing import NamedTuple

import triton


class Launch(NamedTuple):
    tile: int
    """Pixels x channels of a program."""
    warps: int
    stages: int = 1
    """How many states ahead a loop loads; how many tiles a program sums, of wide maps twice as many."""

    def pixels(self, channels: int) -> int:
        """Of a program that has all `channels`."""
        return max(1, self.tile // triton.next_power_of_2(channels))


LAUNCHES = {
    "logits": Launch(4096, 4),
    "combine": Launch(4096, 4),
    "reader": Launch(8192, 8),
    "entry": Launch(4096, 4),
    "query": Launch(4096, 4),
    "norm": Launch(8192, 8),
    "norm_backward": Launch(8192, 8),
    "norm_sums": Launch(2048, 8, 4),
}
"""By kernel."""
