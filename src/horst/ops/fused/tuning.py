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
    "lstm": Launch(1024, 4),
    # Their tile is that of a warp: forward 8 values a thread, one load of 16 bytes, and back 4, as more is kept there.
    # So the registers hold two programs of 16 warps on an SM, and the loads of two tiles are under way. Two large
    # programs and not eight small ones: each goes over its map twice, and the fewer maps are at work, the more of them
    # the L2 cache still has the second time. Chosen from what the compiler tells, not measured.
    "channel_norm": Launch(256, 16, 3),
    "channel_norm_backward": Launch(128, 16, 3),
}
"""By kernel."""
