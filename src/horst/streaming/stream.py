"""One live stream: frames in, predictions out.

stream = horst.load_pretrained("somethings").stream()
prediction = stream.push(image, time)       # the newest one, None before the first
for prediction in stream.watch(source):     # all of a file, a camera or an address
    print(prediction.time, prediction.top(3))
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Iterator

from horst.models.predictor import Predictor
from horst.streaming.pool import Pool
from horst.streaming.prediction import Prediction
from horst.streaming.restarts import Never, Restarts
from horst.streaming.ticks import OnGap
from horst.video.frame import Frame, Image


class Stream:
    """A pool of one. What `push` is given is asked about before it returns."""

    def __init__(
        self,
        model: Predictor,
        *,
        restarts: Restarts | None = None,
        threshold: float = 0.0,
        gap: float = 2.0,
        on_gap: OnGap = "reset",
        attention: bool = False,
        live: bool = False,
    ) -> None:
        """Options: `Pool.open`.

        `live`: frames go on coming while the model thinks. Where it needs longer for a tick than there is between two,
        it is asked about as many of the newest as it can answer; else it would fall behind further and further.
        """
        restarts = restarts or Never()
        self.pool = Pool(model, restarts.places, drop_late=False)
        self.seat = self.pool.open(restarts, threshold=threshold, gap=gap, on_gap=on_gap, attention=attention)
        self.live = live
        self._last: float | None = None  # time of the last frame
        self._cost = 0.0  # seconds that the last step took

    def push(self, image: Image, time: float) -> Prediction | None:
        """A frame (H, W, 3) uint8 RGB and its time in seconds; the newest prediction, which may be an earlier one."""
        for _ in self.feed(image, time):
            pass
        return self.seat.latest

    def feed(self, image: Image, time: float) -> Iterator[Prediction]:
        """As `push`, with all predictions that the frame decides: none, one, or several after dropped frames."""
        self.seat.push(image, time)
        if self.live and self._last is not None and self._cost:
            self.seat.keep(max(1, int((time - self._last) / self._cost)))
        self._last = time
        yield from self._said()

    def watch(self, frames: Iterable[Frame], end: float | None = None) -> Iterator[Prediction]:
        """All predictions of a source of frames; `end`, where it is known, is how long the last frame is shown."""
        for frame in frames:
            yield from self.feed(frame.image, frame.time)
        if end is not None:
            yield from self.finish(end)

    def finish(self, end: float) -> Iterator[Prediction]:
        """The video ends at `end`: the predictions until then, while its last frame is shown."""
        self.seat.finish(end)
        yield from self._said()

    def reset(self) -> None:
        """Something new begins with the next frame."""
        self.seat.reset()

    def _said(self) -> Iterator[Prediction]:
        while self.seat.waiting:
            begin = clock.perf_counter()
            said = self.pool.step()
            self._cost = clock.perf_counter() - begin
            for _, prediction in said:
                yield prediction
