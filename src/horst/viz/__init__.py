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

from typing import TYPE_CHECKING

from horst.extras import lazy_names

if TYPE_CHECKING:
    from horst.viz.charts import accuracy_curve, confusion, reliability
    from horst.viz.clip_figures import attention, timeline
    from horst.viz.style import save_svg

__all__ = ["accuracy_curve", "attention", "confusion", "reliability", "save_svg", "timeline"]
_NAMES = {
    "accuracy_curve": "charts", "attention": "clip_figures", "confusion": "charts", "reliability": "charts",
    "save_svg": "style", "timeline": "clip_figures",
}  # fmt: skip
__getattr__ = lazy_names(__name__, _NAMES)
