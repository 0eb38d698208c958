"""Live streams: a streamed file says what its offline evaluation says; many streams do not disturb each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import videos

import horst
from horst.data.clips import ClipConfig, read_clip
from horst.data.example import Example
from horst.errors import BusyError, InputError
from horst.models import Predictor
from horst.streaming import Every, Never, OnMotion, Pool, Stream
from horst.video.decode import VideoFile

FPS = 5.0


@pytest.fixture(scope="module")
def model() -> Predictor:
    torch.manual_seed(0)
    small = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6], "stride": [2], "order": 3}
    return horst.create_model("horst_tiny", num_classes=4, size=(24, 32), fps=FPS, **small).eval()


def offline(model: Predictor, path: Path) -> np.ndarray:
    """Of all ticks, as evaluation reads and asks."""
    example = Example(id="x", split="val", media=path, labels={"action": 0})
    clip = read_clip(example, "recognition", ClipConfig(size=model.size, fps=model.fps))
    with torch.inference_mode():
        out, _ = model(torch.from_numpy(clip.frames).permute(0, 3, 1, 2).unsqueeze(0))
    return out.logits.action[0].softmax(-1).numpy()


def streamed(stream: Stream, path: Path, size: tuple[int, int]) -> list[horst.streaming.Prediction]:
    with VideoFile(path, size=size) as video:
        return list(stream.watch(video.frames(), video.info.duration))


@pytest.mark.parametrize("rate", [5, 12, 25, 30])
def test_a_streamed_file_says_what_its_evaluation_says(model: Predictor, tmp_path: Path, rate: int) -> None:
    path = videos.clip(tmp_path / "clip.mp4", frames=2 * rate + 1, fps=rate)
    said = streamed(model.stream(), path, model.size)
    wanted = offline(model, path)
    np.testing.assert_allclose(np.stack([p.probabilities["action"] for p in said]), wanted, atol=1e-5)
    assert [p.age for p in said] == list(range(1, len(wanted) + 1))


def test_a_file_of_variable_rate(model: Predictor, tmp_path: Path) -> None:
    times = np.cumsum([0, 0.02, 0.3, 0.05, 0.41, 0.2, 0.2, 0.05, 0.05, 0.6]).round(3).tolist()
    path = videos.with_times(tmp_path / "clip.mp4", times)
    said = streamed(model.stream(), path, model.size)
    np.testing.assert_allclose(np.stack([p.probabilities["action"] for p in said]), offline(model, path), atol=1e-5)


def test_push_gives_the_newest(model: Predictor) -> None:
    stream = model.stream(threshold=1.0)
    first = stream.push(videos.picture(0, 24, 32), 100.0)
    assert first is not None
    assert stream.push(videos.picture(1, 24, 32), 100.1) is first  # between two ticks
    second = stream.push(videos.picture(2, 90, 70), 100.2)  # of another size
    assert second is not None
    assert (second.age, second.time) == (2, pytest.approx(100.2))
    assert second.answer() is None
    assert len(second.top(3)) == 3
    assert sum(p for _, p in second.top(4)) == pytest.approx(1)
    assert json.loads(json.dumps(second.to_dict()))["age"] == 2
    stream.reset()
    again = stream.push(videos.picture(0, 24, 32), 100.3)
    assert again is not None
    assert again.age == 1
    np.testing.assert_allclose(again.probabilities["action"], first.probabilities["action"], atol=1e-6)
    with pytest.raises(InputError, match="no 'verb'"):
        again.top(task="verb")


def test_streams_of_a_pool_do_not_disturb_each_other(model: Predictor, tmp_path: Path) -> None:
    """One comes late, one sends nonsense, one leaves and another takes its place: each says what it says alone."""
    images = [videos.picture(i, 24, 32) for i in range(12)]
    whole = model.stream()
    wanted = [p.probabilities["action"] for i, image in enumerate(images) for p in whole.feed(image, i / FPS)]
    pool = Pool(model, capacity=3)
    steady, short = pool.open(), pool.open()
    said: dict[Any, list[np.ndarray]] = {steady: [], short: []}
    late = None
    for i, image in enumerate(images):
        steady.push(image, i / FPS)
        if i < 4:
            short.push(image, i / FPS)
        elif i == 4:
            short.close()
            late = pool.open()
            said[late] = []
        if late is not None:
            late.push(images[i - 4], 50 + i / FPS)
        with pytest.raises(InputError, match="a picture"):
            steady.push(image.astype(np.float32), i / FPS)
        for seat, prediction in pool.step():
            said[seat].append(prediction.probabilities["action"])
    assert late is not None
    np.testing.assert_allclose(said[steady], wanted, atol=1e-5)
    np.testing.assert_allclose(said[short], wanted[:4], atol=1e-5)
    np.testing.assert_allclose(said[late], wanted[: len(said[late])], atol=1e-5)
    with pytest.raises(InputError, match="closed"):
        short.push(images[0], 0)
    pool.open()
    with pytest.raises(BusyError, match="all 3 places are taken"):
        pool.open()


def test_a_slow_model_leaves_old_frames_out(model: Predictor) -> None:
    pool = Pool(model, capacity=1)
    seat = pool.open()
    for i in range(50):
        seat.push(videos.picture(i, 24, 32), i / FPS)
    assert seat.waiting == 8
    assert seat.skipped == 42
    ((_, prediction),) = pool.step()
    assert prediction.age == 1  # the start was among what was left out: it starts here
    assert prediction.time == pytest.approx(42 / FPS)
    assert not [p for _ in range(9) for p in pool.step()][7:]


def test_who_fell_behind_catches_up(model: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that waited long is left out where a newer one waits; the newest never is, however late."""
    clock = 0.0
    monkeypatch.setattr("horst.streaming.pool.time.perf_counter", lambda: clock)
    pool = Pool(model, 1)
    seat = pool.open()
    for i in range(5):
        clock = 0.2 * i  # the last at 0.8 s
        seat.push(videos.picture(i, 24, 32), i / FPS)
    clock = 1.0
    ((_, prediction),) = pool.step()
    assert (seat.skipped, seat.waiting) == (3, 1)
    assert prediction.time == pytest.approx(3 / FPS)
    assert prediction.age == 1  # what the first frame started was started all the same
    clock = 100.0
    assert len(pool.step()) == 1
    assert (seat.skipped, seat.waiting) == (3, 0)


def test_memory_is_bounded(model: Predictor) -> None:
    pool = Pool(model, capacity=2)
    bytes_before = pool.streams.state.nbytes
    for i in range(200):
        seat = pool.open()
        seat.push(videos.picture(i % 60, 24, 32), float(i))
        pool.step()
        seat.close()
    assert pool.streams.state.nbytes == bytes_before
    assert len(pool) == 0
    assert sorted(pool._free) == [0, 1]


def test_staggered_states(model: Predictor) -> None:
    """Each says what a stream would say that began when it did; the surest answers."""
    images = [videos.picture(i, 24, 32) for i in range(14)]
    stream = model.stream(restarts=Every(seconds=1.2, of=2))
    said = [p for i, image in enumerate(images) for p in stream.feed(image, i / FPS)]

    def fresh(start: int, now: int) -> np.ndarray:
        alone = model.stream()
        return [p for i in range(start, now + 1) for p in alone.feed(images[i], i / FPS)][-1].probabilities["action"]

    # 1.2 s are 6 frames: the first starts anew at 6 and 12, the second, half a life later, at 3 and 9
    starts = {0: [0, 6, 12], 1: [0, 3, 9]}
    for now, prediction in enumerate(said):
        states = [fresh(max(s for s in starts[place] if s <= now), now) for place in (0, 1)]
        best = max(states, key=lambda chances: chances.max())
        np.testing.assert_allclose(prediction.probabilities["action"].max(), best.max(), atol=1e-5)


def test_motion_starts_afresh() -> None:
    policy = OnMotion(level=2.0, still=0.5)
    calm, moved = np.full((24, 32, 3), 100, np.uint8), np.full((24, 32, 3), 130, np.uint8)
    said = [bool(policy.before(calm, 0.2 * i, fresh=i == 0)) for i in range(5)]
    assert said == [True, False, False, False, False]
    assert policy.before(moved, 1.0, fresh=False) == [0]
    assert policy.before(calm, 1.2, fresh=False) == []  # it goes on moving
    assert policy.before(calm, 1.4, fresh=False) == []
    assert policy.before(moved, 1.5, fresh=False) == []  # it was still for too short a time
    assert Never().before(calm, 0.0, fresh=True) == [0]


def test_bad_options_are_told(model: Predictor) -> None:
    with pytest.raises(InputError, match="threshold is 2"):
        model.stream(threshold=2)
    with pytest.raises(InputError, match="seconds is 0"):
        Every(seconds=0)
    with pytest.raises(InputError, match="list"):
        model.stream().push([1, 2], 0.0)  # type: ignore[arg-type]


def test_a_live_stream_does_not_fall_behind(model: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that lasts longer than a tick: each frame that the model has time for decides one answer, the newest."""
    spent = 0.0

    class Clock:
        @staticmethod
        def perf_counter() -> float:
            return spent

    monkeypatch.setattr("horst.streaming.stream.clock", Clock)
    stream = model.stream(live=True)
    step = stream.pool.step

    def slow() -> Any:
        nonlocal spent
        spent += cost
        return step()

    monkeypatch.setattr(stream.pool, "step", slow)
    cost, now, counts = 0.7, 0.0, []  # 3.5 ticks
    for i in range(8):
        said = list(stream.feed(videos.picture(i, 24, 32), now))
        counts.append(len(said))
        assert now - said[-1].time < 1 / FPS
        now += cost * len(said)
    assert counts == [1] * 8
    assert stream.seat.skipped > 0
    stream, cost, now = model.stream(live=True), 0.01, 0.0
    for i in range(8):  # a camera that is slower than the model: nothing is left out
        list(stream.feed(videos.picture(i, 24, 32), i / 2))
    assert stream.seat.skipped == 0
    assert stream.seat.latest is not None
    assert stream.seat.latest.age == 18
