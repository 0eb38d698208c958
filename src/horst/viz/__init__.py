"""Figures of what a model sees and predicts, as matplotlib figures.

    from horst import viz

    viz.attention(frames, out.core.temporal, out.core.spatial)      # figures 4 and 5 of the paper
    viz.timeline(probabilities, times, names)
    viz.accuracy_curve({"ours": evaluation, "theirs": another})
    viz.confusion(labels, predicted, names)
    viz.reliability(probabilities, labels)

Each returns a `matplotlib.figure.Figure`: restyle it, save it (`figure.savefig("x.pdf")`), or display it in a notebook.
`viz.save_svg` writes an SVG file that follows light and dark mode. matplotlib is imported at the first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horst.viz.attention_map import attention as attention
    from horst.viz.curves import accuracy_curve as accuracy_curve
    from horst.viz.curves import reliability as reliability
    from horst.viz.matrix import confusion as confusion
    from horst.viz.style import save_svg as save_svg
    from horst.viz.timelines import timeline as timeline

_HOME = {
    "accuracy_curve": "curves", "attention": "attention_map", "confusion": "matrix", "reliability": "curves",
    "save_svg": "style", "timeline": "timelines",
}  # fmt: skip
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'horst.viz' has no attribute {name!r}")
    return getattr(import_module(f"horst.viz.{_HOME[name]}"), name)
