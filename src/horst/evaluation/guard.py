"""Check that no prediction saw frames that it may not see."""

from horst.config import check_type
from horst.errors import DataError
from horst.evaluation.predictions import Predictions
from horst.video.sampling import Anticipation

SLACK = 1e-6  # seconds by which a prediction may see too much: packed data rounds times to microseconds


def count_leaks(predictions: Predictions, mode: Anticipation) -> dict[str, int]:
    """Number of examples that saw too much, by position ("1s"); positions without any are left out.

    An example saw too much at a position if a frame shown until then is later than start - tau_a. RULSTM's padding
    does that for actions close to the start of a video. In mode "strict" this is an error; in mode "rulstm" the
    examples are counted and reported.
    """
    check_type("mode", mode, Anticipation)
    late = predictions.last_seen > predictions.limits + SLACK
    if mode == "strict" and late.any():
        row, column = late.nonzero()[0].tolist()
        count = f"{int(late.any(1).sum())} of {len(predictions)} examples saw more than they may"
        first = f"{predictions.ids[row]} at {predictions.names()[column]} saw"
        seen = f"{predictions.last_seen[row, column]:.3f} s, its limit is {predictions.limits[row, column]:.3f} s"
        remedy = "Set clip.mode to rulstm to count such examples, or use data that was packed in mode strict"
        raise DataError(f"{count}: {first} {seen}. {remedy}")
    return predictions.count_by_position(late)
