"""Streaming gives the predictions of offline evaluation, and the streams of a pool are independent."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

import containers
import numpy as np
import pytest
import torch
import videos

import horst
from horst.data.clips import ClipConfig, read_clip
from horst.data.example import Example
from horst.errors import BusyError, InputError
from horst.models import Predictor
from horst.streaming import MotionReset, NeverReset, PeriodicReset, SessionPool, Slot, StreamSession
from horst.video.decode import VideoFile

FPS = 5.0


@pytest.fixture(scope="module")
def model() -> Predictor:
    torch.manual_seed(0)
    small = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6], "stride": [2], "order": 3}
    return horst.create_model("horst_tiny", num_classes=4, size=(24, 32), fps=FPS, **small).eval()


def offline(model: Predictor, path: Path) -> np.ndarray:
    """Probabilities of all samples, as evaluation computes them."""
    example = Example(id="x", split="val", media=path, labels={"action": 0})
    clip = read_clip(example, "recognition", ClipConfig(size=model.size, fps=model.fps))
    with torch.inference_mode():
        out, _ = model(torch.from_numpy(clip.frames).permute(0, 3, 1, 2).unsqueeze(0))
    return out.logits.action[0].softmax(-1).numpy()


def streamed(stream: StreamSession, path: Path, size: tuple[int, int]) -> list[horst.streaming.Prediction]:
    with VideoFile(path, size=size) as video:
        return list(stream.watch(video.frames(), video.info.duration))


@pytest.mark.parametrize("rate", [5, 12, 25, 30])
def test_streaming_a_file_equals_offline_evaluation(model: Predictor, tmp_path: Path, rate: int) -> None:
    path = videos.clip(tmp_path / "clip.mp4", frames=2 * rate + 1, fps=rate)
    predictions = streamed(model.stream(), path, model.size)
    wanted = offline(model, path)
    np.testing.assert_allclose([p.probabilities["action"] for p in predictions], wanted, atol=1e-5)
    assert [p.age for p in predictions] == list(range(1, len(wanted) + 1))


def test_file_with_variable_frame_rate(model: Predictor, tmp_path: Path) -> None:
    times = np.cumsum([0, 0.02, 0.3, 0.05, 0.41, 0.2, 0.2, 0.05, 0.05, 0.6]).round(3).tolist()
    path = videos.with_times(tmp_path / "clip.mp4", times)
    predictions = streamed(model.stream(), path, model.size)
    np.testing.assert_allclose([p.probabilities["action"] for p in predictions], offline(model, path), atol=1e-5)


def test_push_returns_the_newest_prediction(model: Predictor) -> None:
    stream = model.stream(threshold=1.0)
    first = stream.push(videos.picture(0, 24, 32), 100.0)
    assert first is not None
    assert stream.push(videos.picture(1, 24, 32), 100.1) is first  # between two sampling times
    second = stream.push(videos.picture(2, 90, 70), 100.2)  # another size
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
    with pytest.raises(InputError, match="no task 'verb'"):
        again.top(task="verb")


def test_streams_of_a_pool_are_independent(model: Predictor, tmp_path: Path) -> None:
    """One resets late, one sends an invalid frame, one closes and another takes its slot: each predicts as if alone."""
    images = [videos.picture(i, 24, 32) for i in range(12)]
    whole = model.stream()
    wanted = [p.probabilities["action"] for i, image in enumerate(images) for p in whole.feed(image, i / FPS)]
    pool = SessionPool(model, capacity=3)
    steady, short = pool.open(), pool.open()
    predictions: dict[Any, list[np.ndarray]] = {steady: [], short: []}
    late = None
    for i, image in enumerate(images):
        steady.push(image, i / FPS)
        if i < 4:
            short.push(image, i / FPS)
        elif i == 4:
            short.close()
            late = pool.open()
            predictions[late] = []
        if late is not None:
            late.push(images[i - 4], 50 + i / FPS)
        with pytest.raises(InputError, match="an image"):
            steady.push(image.astype(np.float32), i / FPS)
        for slot, prediction in pool.step():
            predictions[slot].append(prediction.probabilities["action"])
    assert late is not None
    np.testing.assert_allclose(predictions[steady], wanted, atol=1e-5)
    np.testing.assert_allclose(predictions[short], wanted[:4], atol=1e-5)
    np.testing.assert_allclose(predictions[late], wanted[: len(predictions[late])], atol=1e-5)
    with pytest.raises(InputError, match="closed"):
        short.push(images[0], 0)
    pool.open()
    with pytest.raises(BusyError, match="all 3 states are in use"):
        pool.open()


IMAGES = [videos.picture(i, 24, 32) for i in range(60)]


def alone(model: Predictor, first: int, last: int) -> list[np.ndarray]:
    """Probabilities of a stream of the frames `first` to `last`."""
    stream = model.stream()
    return [p.probabilities["action"] for i in range(first, last + 1) for p in stream.feed(IMAGES[i], i / FPS)]


def opened(pool: SessionPool) -> Slot:
    """A stream that has seen 6 frames: the age of its next prediction shows whether it was reset."""
    slot = pool.open()
    for i in range(6):
        slot.push(IMAGES[30 + i], i / FPS)
        pool.step()
    assert slot.latest is not None
    assert slot.latest.age == 6
    return slot


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the queue, which only the test moves."""
    now = [0.0]
    monkeypatch.setattr("horst.streaming.late.time.perf_counter", lambda: now[0])
    return now


@pytest.mark.parametrize("later", [100.0, 1.2])
def test_slow_model_skips_the_oldest_frames(model: Predictor, clock: list[float], later: float) -> None:
    """The newest 8 are predicted. If a skipped frame reset the stream, the first of them does."""
    pool = SessionPool(model, capacity=1)
    slot = opened(pool)
    for i in range(50):
        slot.push(IMAGES[i], later + i / FPS)  # after a gap of 99 s, or none at all
    assert slot.waiting == 8
    assert slot.skipped == 42
    predictions = [prediction for _ in range(10) for _, prediction in pool.step()]
    assert [p.time for p in predictions] == pytest.approx([later + i / FPS for i in range(42, 50)])
    first = 1 if later == 100.0 else 7
    assert [p.age for p in predictions] == list(range(first, first + 8))
    equal = np.allclose([p.probabilities["action"] for p in predictions], alone(model, 42, 49), atol=1e-5)
    assert equal == (later == 100.0)


def test_late_frames_are_skipped_but_not_the_newest(model: Predictor, clock: list[float]) -> None:
    pool = SessionPool(model, 1)
    slot = opened(pool)
    for i in range(5):
        clock[0] = 0.2 * i  # the last at 0.8 s
        slot.push(IMAGES[i], 100 + i / FPS)
    clock[0] = 1.0
    ((_, prediction),) = pool.step()
    assert (slot.skipped, slot.waiting) == (3, 1)
    assert prediction.time == pytest.approx(100 + 3 / FPS)
    assert prediction.age == 1  # the skipped first frame had reset the stream
    np.testing.assert_allclose(prediction.probabilities["action"], alone(model, 3, 3)[0], atol=1e-5)
    assert prediction.latency == pytest.approx(0.4)
    clock[0] = 100.0
    ((_, prediction),) = pool.step()
    assert (slot.skipped, slot.waiting) == (3, 0)
    assert (prediction.time, prediction.age) == (pytest.approx(100 + 4 / FPS), 2)
    np.testing.assert_allclose(prediction.probabilities["action"], alone(model, 3, 4)[-1], atol=1e-5)


def test_frames_of_a_file_are_never_skipped(model: Predictor, clock: list[float]) -> None:
    pool = SessionPool(model, 1, skip_late=False)
    slot = pool.open()
    for i in range(12):
        slot.push(IMAGES[i], i / FPS)
    clock[0] = 100.0
    assert len([predictions for _ in range(12) for predictions in pool.step()]) == 12
    assert slot.skipped == 0


@pytest.mark.parametrize("policy", [NeverReset, MotionReset, lambda: PeriodicReset(seconds=10.0, states=2)])
def test_reused_slot_starts_empty(model: Predictor, policy: Any) -> None:
    """A new stream has neither the frames nor the waiting samples of the stream that used its slot before."""
    pool = SessionPool(model, capacity=policy().states)
    before = pool.open(policy())
    for i in range(5):
        before.push(IMAGES[30 + i], i / FPS)
        pool.step()
    before.push(IMAGES[40], 1.0)
    before.close()
    slot = pool.open(policy(), attention=True)
    assert (slot.waiting, slot.latest, pool.step()) == (0, None, [])
    wanted = alone(model, 0, 3)
    for i in range(4):
        slot.push(IMAGES[i], i / FPS)
        ((who, prediction),) = pool.step()
        assert who is slot
        assert prediction.age == i + 1
        np.testing.assert_allclose(prediction.probabilities["action"], wanted[i], atol=1e-5)
        assert prediction.attention is not None
        assert np.isnan(prediction.attention.times).sum() == max(0, 3 - i)


def test_reset_clears_waiting_frames(model: Predictor) -> None:
    pool = SessionPool(model, capacity=1)
    slot = opened(pool)
    for i in range(3):
        slot.push(IMAGES[50 + i], 1.2 + i / FPS)
    assert slot.waiting == 3
    slot.reset()
    assert slot.waiting == 0
    assert pool.step() == []
    for i in range(2):
        slot.push(IMAGES[i], 1.85 + i / FPS)  # between two sampling times of before
    predictions = [prediction for _ in range(3) for _, prediction in pool.step()]
    assert [(p.time, p.age) for p in predictions] == [(pytest.approx(1.85), 1), (pytest.approx(2.05), 2)]
    np.testing.assert_allclose([p.probabilities["action"] for p in predictions], alone(model, 0, 1), atol=1e-5)


@pytest.mark.parametrize("shape", [(24, 32), (48, 64)])
def test_caller_may_reuse_the_frame_buffer(model: Predictor, shape: tuple[int, int]) -> None:
    """A sample between two frames is the first frame, and is taken when the second one arrives."""
    images = [videos.picture(i, *shape) for i in range(10)]
    times = [0.15 * i for i in range(10)]
    kept, reused = model.stream(), model.stream()
    buffer = np.empty_like(images[0])
    wanted = [p for image, time in zip(images, times, strict=True) for p in kept.feed(image, time)]
    predictions = []
    for image, time in zip(images, times, strict=True):
        buffer[:] = image
        predictions += list(reused.feed(buffer, time))
        buffer[:] = 0
    assert [p.time for p in predictions] == [p.time for p in wanted]
    np.testing.assert_array_equal([p.top(4) for p in predictions], [p.top(4) for p in wanted])
    pool = SessionPool(model, capacity=1)
    slot = pool.open()
    buffer[:] = images[0]
    slot.push(buffer, 0.0)
    buffer[:] = 0
    ((_, prediction),) = pool.step()
    np.testing.assert_array_equal(prediction.probabilities["action"], wanted[0].probabilities["action"])


def test_closed_streams_free_their_memory(model: Predictor) -> None:
    pool = SessionPool(model, capacity=2)
    bytes_before = pool.batched_step.state.nbytes
    for i in range(200):
        slot = pool.open()
        slot.push(videos.picture(i % 60, 24, 32), float(i))
        pool.step()
        slot.close()
    assert pool.batched_step.state.nbytes == bytes_before
    assert len(pool) == 0
    assert sorted(pool._free) == [0, 1]


def test_periodic_reset_uses_the_most_confident_state(model: Predictor) -> None:
    """Each state predicts as a stream that started at its last reset."""
    images = [videos.picture(i, 24, 32) for i in range(14)]
    stream = model.stream(reset=PeriodicReset(seconds=1.2, states=2))
    predictions = [p for i, image in enumerate(images) for p in stream.feed(image, i / FPS)]

    def fresh(start: int, now: int) -> np.ndarray:
        alone = model.stream()
        return [p for i in range(start, now + 1) for p in alone.feed(images[i], i / FPS)][-1].probabilities["action"]

    # 1.2 s are 6 frames: the first state is reset at 6 and 12, the second one at 3 and 9
    resets = {0: [0, 6, 12], 1: [0, 3, 9]}
    for now, prediction in enumerate(predictions):
        states = [fresh(max(s for s in resets[place] if s <= now), now) for place in (0, 1)]
        best = max(states, key=lambda probabilities: probabilities.max())
        np.testing.assert_allclose(prediction.probabilities["action"], best, atol=1e-5)


@pytest.mark.parametrize("value", [2, -0.1, float("nan"), True, "0.5"])
def test_invalid_threshold(model: Predictor, value: Any) -> None:
    with pytest.raises(InputError, match=f"threshold is {value!r}"):
        model.stream(threshold=value)


def test_invalid_options(model: Predictor) -> None:
    for seconds in (0, float("nan"), True):
        with pytest.raises(InputError, match=f"seconds is {seconds}"):
            PeriodicReset(seconds=seconds)
    for states in (0, True, 1.5):
        with pytest.raises(InputError, match=f"states is {states}"):
            PeriodicReset(states=states)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="level is nan"):
        MotionReset(level=float("nan"))
    with pytest.raises(InputError, match="still is -1"):
        MotionReset(still=-1)
    with pytest.raises(InputError, match="list"):
        model.stream().push([1, 2], 0.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="time is nan"):
        model.stream().push(IMAGES[0], float("nan"))


def test_live_stream_does_not_fall_behind(model: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a step takes longer than the sampling interval, each frame gives one prediction: the newest."""
    spent = 0.0

    class Clock:
        @staticmethod
        def perf_counter() -> float:
            return spent

    monkeypatch.setattr("horst.streaming.pool.clock", Clock)
    stream = model.stream(live=True)
    step = stream.pool.step

    def slow() -> Any:
        nonlocal spent
        spent += cost
        return step()

    monkeypatch.setattr(stream.pool, "step", slow)
    cost, now, counts = 0.7, 0.0, []  # 3.5 sampling intervals
    for i in range(8):
        predictions = list(stream.feed(videos.picture(i, 24, 32), now))
        counts.append(len(predictions))
        assert now - predictions[-1].time < 1 / FPS
        now += cost * len(predictions)
    assert counts == [1] * 8
    assert stream.slot.skipped > 0
    for i in range(4):  # a camera that is faster than the model: of what is due the newest is shown
        now += 1 / FPS
        (prediction,) = stream.feed(videos.picture(i, 24, 32), now)
        assert now - prediction.time < 1 / FPS
    stream, cost, now = model.stream(live=True), 0.01, 0.0
    for i in range(8):  # a camera that is slower than the model: nothing is skipped
        list(stream.feed(videos.picture(i, 24, 32), i / 2))
    assert stream.slot.skipped == 0
    assert stream.slot.latest is not None
    assert stream.slot.latest.age == 18


@pytest.mark.parametrize("clock", [0.0, 100.0])
@pytest.mark.parametrize(("suffix", "codec", "gop"), [("webm", "libvpx", "12"), ("ts", "libx264", "12 B")])
def test_file_whose_clock_does_not_start_at_0(
    model: Predictor, tmp_path: Path, suffix: str, codec: str, gop: str, clock: float
) -> None:
    """2 s of video are 10 samples, in a stream as in training, also if the clock of the file resets at 100 s."""
    form = containers.Form(suffix, codec)
    path = containers.write(tmp_path / f"clip.{suffix}", form, containers.GOPS[codec][gop], clock)
    predictions = streamed(model.stream(), path, model.size)
    assert [p.time for p in predictions] == pytest.approx([i / FPS for i in range(10)])
    np.testing.assert_allclose([p.probabilities["action"] for p in predictions], offline(model, path), atol=1e-5)


def test_streams_close_while_a_step_runs(model: Predictor) -> None:
    """From other threads; the others get their predictions."""
    pool = SessionPool(model, 8)
    stay, done = pool.open(), threading.Event()
    errors: list[BaseException] = []

    def come_and_go() -> None:
        try:
            while not done.is_set():
                slot = pool.open(PeriodicReset(2.0, states=3))
                with contextlib.suppress(InputError):
                    slot.push(videos.picture(0, *model.size), 0.0)
                slot.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(100):
        stay.push(videos.picture(number, *model.size), number / FPS)
        assert [prediction.age for slot, prediction in pool.step() if slot is stay] == [number + 1]
    done.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(pool) == 1
