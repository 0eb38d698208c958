"""`somethings`: synthetic clips for early recognition, in the style of Something-Something v2."""

from horst.synth.somethings.clips import FPS, LABELS, MIRROR, TEMPLATES, ClipSpec, plan, render

__all__ = ["FPS", "LABELS", "MIRROR", "TEMPLATES", "ClipSpec", "plan", "render"]
