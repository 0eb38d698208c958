"""Which of its past frames a prediction rests on, and where in them the model looked.

Shapes: S past states, h x w the map of the model's last layer.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """Of the last layer, at one tick; oldest frame first."""

    temporal: NDArray[np.float32]
    """(S,) T(Q, K), the weight of each past frame. They sum to 1; at the first frame the all-zero state has it all."""
    times: NDArray[np.float64]
    """(S,) seconds, in the clock of the frames; NaN where the queue has no frame yet."""
    spatial: NDArray[np.float32]
    """(S, h, w) S(Q, K), the weight of each place, in 0..1; 0 where the queue has nothing yet."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: the maps as bytes, row by row, 255 for the weight 1, in base64."""
        maps = np.clip(np.rint(255 * self.spatial), 0, 255).astype(np.uint8)
        return {
            "temporal": [round(float(weight), 4) for weight in self.temporal],
            "times": [None if np.isnan(time) else round(float(time), 6) for time in self.times],
            "spatial": base64.b64encode(maps.tobytes()).decode(),
            "shape": list(maps.shape),
        }
