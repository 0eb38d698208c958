"""One live stream: frames in, predictions out.

stream = horst.open_model("somethings").stream()
prediction = stream.push(image, time)       # the newest prediction
for prediction in stream.watch(frames):     # all predictions of a file or a camera
    print(prediction.time, prediction.top(3))
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Iterator

from horst.models.predictor import Predictor
from horst.streaming.pool import SessionPool
from horst.streaming.prediction import Prediction
from horst.streaming.reset import NeverReset, ResetPolicy
from horst.streaming.sampler import OnGap
from horst.video.frame import Frame, Image


class StreamSession:
    """A pool with one slot. The model runs before `push` returns."""

    def __init__(
        self,
        model: Predictor,
        *,
        reset: ResetPolicy | None = None,
        threshold: float = 0.0,
        gap: float = 2.0,
        on_gap: OnGap = "reset",
        attention: bool = False,
        live: bool = False,
    ) -> None:
        """Options as in `SessionPool.open`.

        `live`: frames keep arriving while the model runs. If a step takes longer than the time between two samples,
        the oldest samples are skipped, so that the stream does not fall behind.
        """
        reset = reset or NeverReset()
        self.pool = SessionPool(model, reset.states, skip_late=False)
        self.slot = self.pool.open(reset, threshold=threshold, gap=gap, on_gap=on_gap, attention=attention)
        self.live = live
        self._last: float | None = None  # time of the last frame
        self._cost = 0.0  # seconds that the last step took

    def push(self, image: Image, time: float) -> Prediction | None:
        """A frame (H, W, 3) uint8 RGB and its time in seconds; the newest prediction, which may be an earlier one."""
        for _ in self.feed(image, time):
            pass
        return self.slot.latest

    def feed(self, image: Image, time: float) -> Iterator[Prediction]:
        """As `push`, with all predictions that the frame triggers: none, one, or several after dropped frames."""
        self.slot.push(image, time)
        if self.live and self._last is not None and self._cost:
            self.slot.queue.keep_newest(max(1, int((time - self._last) / self._cost)))
        self._last = time
        yield from self._run()

    def watch(self, frames: Iterable[Frame], end: float | None = None) -> Iterator[Prediction]:
        """All predictions of a source of frames; `end`: the time until which the last frame is shown, if known."""
        for frame in frames:
            yield from self.feed(frame.image, frame.time)
        if end is not None:
            yield from self.finish(end)

    def finish(self, end: float) -> Iterator[Prediction]:
        """The remaining predictions of a video that ends at `end`."""
        self.slot.finish(end)
        yield from self._run()

    def reset(self) -> None:
        """Forget all frames; the next frame is the first one."""
        self.slot.reset()

    def _run(self) -> Iterator[Prediction]:
        while self.slot.waiting:
            start = clock.perf_counter()
            predictions = self.pool.step()
            self._cost = clock.perf_counter() - start
            for _, prediction in predictions:
                yield prediction
