"""Pictures of what a model sees and says, as SVG, without anything to install.

    from horst import viz

    viz.attention(frames, out.core.temporal, out.core.spatial)      # figures 4 and 5 of the paper
    viz.timeline(probabilities, times, names)
    viz.accuracy_curve({"ours": evaluation, "theirs": another})
    viz.confusion(labels, answers, names)
    viz.reliability(probabilities, labels)

Each returns a `Figure`: it shows itself in a notebook, and `save` writes .svg, .html or .png.
"""

from __future__ import annotations

from horst.viz.attention_map import attention
from horst.viz.calibration import reliability
from horst.viz.curves import accuracy_curve
from horst.viz.figure import Figure
from horst.viz.matrix import confusion
from horst.viz.timelines import timeline

__all__ = ["Figure", "accuracy_curve", "attention", "confusion", "reliability", "timeline"]
