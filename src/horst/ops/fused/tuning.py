"""Launch sizes of the kernels. `python -m benchmarks.gpu_tuning` searches for better ones on a GPU."""

from typing import NamedTuple

import triton


class Launch(NamedTuple):
    tile: int  # pixels x channels of a program
    warps: int
    stages: int = 1  # how many states a loop prefetches, or how many tiles a program sums

    def pixels(self, channels: int) -> int:
        """Pixels of a program that covers all `channels`."""
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
    # Here the tile is that of a warp: 8 values per thread in the forward pass (one load of 16 bytes), 4 in the backward
    # pass, which keeps more. So two programs of 16 warps fit on an SM, and the loads of two tiles overlap. Two large
    # programs rather than eight small ones: each reads its map twice, and with fewer maps in progress more of them are
    # still in the L2 cache. Chosen from the compiler's report, not measured.
    "channel_norm": Launch(256, 16, 3),
    "channel_norm_backward": Launch(128, 16, 3),
}
"""By kernel."""
