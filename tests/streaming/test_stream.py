"""Live streams: a streamed file says what its offline evaluation says; many streams do not disturb each other."""

from __future__ import annotations

import json
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
from horst.streaming import Every, Never, OnMotion, Pool, Seat, Stream
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
        with pytest.raises(InputError, match="an image"):
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


IMAGES = [videos.picture(i, 24, 32) for i in range(60)]


def alone(model: Predictor, first: int, last: int) -> list[np.ndarray]:
    """What a stream says that begins with one frame and ends with another."""
    stream = model.stream()
    return [p.probabilities["action"] for i in range(first, last + 1) for p in stream.feed(IMAGES[i], i / FPS)]


def after_a_while(pool: Pool) -> Seat:
    """A stream that has seen 6 frames. What it does with the next one tells whether it starts anew."""
    seat = pool.open()
    for i in range(6):
        seat.push(IMAGES[30 + i], i / FPS)
        pool.step()
    assert seat.latest is not None
    assert seat.latest.age == 6
    return seat


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pool's clock: it stands still unless a test moves it."""
    now = [0.0]
    monkeypatch.setattr("horst.streaming.pool.time.perf_counter", lambda: now[0])
    return now


@pytest.mark.parametrize("later", [100.0, 1.2])
def test_a_slow_model_leaves_old_frames_out(model: Predictor, clock: list[float], later: float) -> None:
    """The newest 8 are answered. Where one of those left out began something new, the first of them begins it."""
    pool = Pool(model, capacity=1)
    seat = after_a_while(pool)
    for i in range(50):
        seat.push(IMAGES[i], later + i / FPS)  # after a gap of 99 s, or none
    assert seat.waiting == 8
    assert seat.skipped == 42
    said = [prediction for _ in range(10) for _, prediction in pool.step()]
    assert [p.time for p in said] == pytest.approx([later + i / FPS for i in range(42, 50)])
    first = 1 if later == 100.0 else 7
    assert [p.age for p in said] == list(range(first, first + 8))
    equal = np.allclose([p.probabilities["action"] for p in said], alone(model, 42, 49), atol=1e-5)
    assert equal == (later == 100.0)


def test_who_fell_behind_catches_up(model: Predictor, clock: list[float]) -> None:
    """A frame that waited long is left out where a newer one waits; the newest never is, however late."""
    pool = Pool(model, 1)
    seat = after_a_while(pool)
    for i in range(5):
        clock[0] = 0.2 * i  # the last at 0.8 s
        seat.push(IMAGES[i], 100 + i / FPS)
    clock[0] = 1.0
    ((_, prediction),) = pool.step()
    assert (seat.skipped, seat.waiting) == (3, 1)
    assert prediction.time == pytest.approx(100 + 3 / FPS)
    assert prediction.age == 1  # what the first frame started was started all the same
    np.testing.assert_allclose(prediction.probabilities["action"], alone(model, 3, 3)[0], atol=1e-5)
    assert prediction.latency == pytest.approx(0.4)
    clock[0] = 100.0
    ((_, prediction),) = pool.step()
    assert (seat.skipped, seat.waiting) == (3, 0)
    assert (prediction.time, prediction.age) == (pytest.approx(100 + 4 / FPS), 2)
    np.testing.assert_allclose(prediction.probabilities["action"], alone(model, 3, 4)[-1], atol=1e-5)


def test_frames_of_a_file_are_never_left_out(model: Predictor, clock: list[float]) -> None:
    pool = Pool(model, 1, drop_late=False)
    seat = pool.open()
    for i in range(12):
        seat.push(IMAGES[i], i / FPS)
    clock[0] = 100.0
    assert len([said for _ in range(12) for said in pool.step()]) == 12
    assert seat.skipped == 0


@pytest.mark.parametrize("restarts", [Never, OnMotion, lambda: Every(seconds=10.0, of=2)])
def test_a_place_that_was_used_before(model: Predictor, restarts: Any) -> None:
    """A new stream knows nothing of the one whose place it has: neither its frames, nor those that still waited."""
    pool = Pool(model, capacity=restarts().places)
    before = pool.open(restarts())
    for i in range(5):
        before.push(IMAGES[30 + i], i / FPS)
        pool.step()
    before.push(IMAGES[40], 1.0)
    before.close()
    seat = pool.open(restarts(), attention=True)
    assert (seat.waiting, seat.latest, pool.step()) == (0, None, [])
    wanted = alone(model, 0, 3)
    for i in range(4):
        seat.push(IMAGES[i], i / FPS)
        ((who, prediction),) = pool.step()
        assert who is seat
        assert prediction.age == i + 1
        np.testing.assert_allclose(prediction.probabilities["action"], wanted[i], atol=1e-5)
        assert prediction.attention is not None
        assert np.isnan(prediction.attention.times).sum() == max(0, 3 - i)


def test_a_reset_forgets_what_waits(model: Predictor) -> None:
    pool = Pool(model, capacity=1)
    seat = after_a_while(pool)
    for i in range(3):
        seat.push(IMAGES[50 + i], 1.2 + i / FPS)
    assert seat.waiting == 3
    seat.reset()
    assert seat.waiting == 0
    assert pool.step() == []
    for i in range(2):
        seat.push(IMAGES[i], 1.85 + i / FPS)  # between two ticks of before
    said = [prediction for _ in range(3) for _, prediction in pool.step()]
    assert [(p.time, p.age) for p in said] == [(pytest.approx(1.85), 1), (pytest.approx(2.05), 2)]
    np.testing.assert_allclose([p.probabilities["action"] for p in said], alone(model, 0, 1), atol=1e-5)


@pytest.mark.parametrize("shape", [(24, 32), (48, 64)])
def test_a_camera_may_use_its_buffer_again(model: Predictor, shape: tuple[int, int]) -> None:
    """Ticks between two frames are decided when the second one arrives, by the first."""
    images = [videos.picture(i, *shape) for i in range(10)]
    times = [0.15 * i for i in range(10)]
    kept, reused = model.stream(), model.stream()
    buffer = np.empty_like(images[0])
    wanted = [p for image, time in zip(images, times, strict=True) for p in kept.feed(image, time)]
    said = []
    for image, time in zip(images, times, strict=True):
        buffer[:] = image
        said += list(reused.feed(buffer, time))
        buffer[:] = 0
    assert [p.time for p in said] == [p.time for p in wanted]
    np.testing.assert_array_equal([p.top(4) for p in said], [p.top(4) for p in wanted])
    pool = Pool(model, capacity=1)
    seat = pool.open()
    buffer[:] = images[0]
    seat.push(buffer, 0.0)
    buffer[:] = 0
    ((_, prediction),) = pool.step()
    np.testing.assert_array_equal(prediction.probabilities["action"], wanted[0].probabilities["action"])


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
        np.testing.assert_allclose(prediction.probabilities["action"], best, atol=1e-5)


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


@pytest.mark.parametrize("value", [2, -0.1, float("nan"), True, "0.5"])
def test_bad_thresholds_are_told(model: Predictor, value: Any) -> None:
    with pytest.raises(InputError, match=f"threshold is {value!r}"):
        model.stream(threshold=value)


def test_bad_options_are_told(model: Predictor) -> None:
    for seconds in (0, float("nan"), True):
        with pytest.raises(InputError, match=f"seconds is {seconds}"):
            Every(seconds=seconds)
    for of in (0, True, 1.5):
        with pytest.raises(InputError, match=f"of is {of}"):
            Every(of=of)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="level is nan"):
        OnMotion(level=float("nan"))
    with pytest.raises(InputError, match="still is -1"):
        OnMotion(still=-1)
    with pytest.raises(InputError, match="list"):
        model.stream().push([1, 2], 0.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="time is nan"):
        model.stream().push(IMAGES[0], float("nan"))


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


@pytest.mark.parametrize("clock", [0.0, 100.0])
@pytest.mark.parametrize(("suffix", "codec", "gop"), [("webm", "libvpx", "12"), ("ts", "libx264", "12 B")])
def test_a_file_whose_clock_starts_anywhere(
    model: Predictor, tmp_path: Path, suffix: str, codec: str, gop: str, clock: float
) -> None:
    """2 s of video are 10 ticks, in a stream as in training, where the clock says 100 s at the first frame too."""
    form = containers.Form(suffix, codec)
    path = containers.write(tmp_path / f"clip.{suffix}", form, containers.GOPS[codec][gop], clock)
    said = streamed(model.stream(), path, model.size)
    assert [p.time for p in said] == pytest.approx([i / FPS for i in range(10)])
    np.testing.assert_allclose(np.stack([p.probabilities["action"] for p in said]), offline(model, path), atol=1e-5)
