"""How the kernels are launched. `python -m benchmarks.gpu_tuning` looks for better sizes on a GPU."""

from __future__ import annotations

from typing import NamedTuple

import triton


class Launch(NamedTuple):
    tile: int
    """Pixels x channels of a program."""
    warps: int
    stages: int = 1
    """How many states ahead a loop loads; how many tiles a program sums."""

    def pixels(self, channels: int) -> int:
        """Of a program that has all `channels`."""
        return max(1, self.tile // triton.next_power_of_2(channels))


LAUNCHES = {
    "logits": Launch(4096, 4, 3),
    "combine": Launch(4096, 2, 3),
    "reader": Launch(4096, 2),
    "entry": Launch(2048, 4),
    "query": Launch(4096, 4),
    "norm": Launch(4096, 4),
    "norm_backward": Launch(4096, 4),
    "norm_sums": Launch(1024, 1, 4),
}
"""By kernel."""
