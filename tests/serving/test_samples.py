"""The samples show their action, and the models predict it."""

from __future__ import annotations

from pathlib import Path

import pytest
import videos
from servers import http, recording, running

import horst
from horst.models import save
from horst.serving.synthetic import CLIPS, KITCHENS, kitchen_clips, render_sample, something_clips
from horst.synth import kitchen, somethings
from horst.synth.somethings.scene import sample_scene
from horst.video.decode import VideoFile


def test_samples_are_clips_of_a_plan() -> None:
    """With its labels, and without an occluder."""
    known = {spec.seed: spec for spec in somethings.plan(240, 1000)}
    samples = something_clips()
    for sample, (seed, template, objects, _) in zip(samples, CLIPS, strict=True):
        spec, scene = known[seed], sample_scene(seed)
        assert (spec.label, spec.template, spec.placeholders) == (sample.label, template, objects)
        assert sample.seconds == round(scene.frames / somethings.FPS, 2)
        assert scene.occluder is None
    assert len({sample.action for sample in samples}) == len(samples)


def test_model_predicts_the_samples(tmp_path: Path) -> None:
    """In the last third of each file."""
    model, folder = horst.open_model("somethings").eval(), tmp_path / "samples"
    for sample in something_clips():
        path = render_sample(sample.name, folder)
        assert path is not None
        written = path.stat().st_mtime_ns
        assert render_sample(sample.name, folder) == path
        assert path.stat().st_mtime_ns == written
        with VideoFile(path, size=model.size, threads=1) as video:
            predictions = list(model.stream().watch(video.frames(), video.info.duration))
        late = [prediction.answer() for prediction in predictions if prediction.time >= 2 / 3 * sample.seconds]
        assert len(late) >= 2
        assert set(late) == {sample.action}
    for name in ("sample-0", f"sample-{len(CLIPS) + 1}", "sample-01", "sample-", "kitchen-0", "../x", "x-1"):
        assert render_sample(name, folder) is None


@pytest.mark.slow
def test_model_predicts_most_actions_of_the_kitchen_one_second_ahead(tmp_path: Path) -> None:
    model, right, known = horst.open_model("kitchen").eval(), [], {action.name for action in kitchen.ACTIONS}
    for sample in kitchen_clips():
        path = render_sample(sample.name, tmp_path)
        assert path is not None
        with VideoFile(path, size=model.size, threads=1) as video:
            assert video.info.duration == pytest.approx(sample.seconds, abs=0.05)
            predictions = list(model.stream().watch(video.frames(), video.info.duration))
        assert {one.action for one in sample.next} <= known
        assert sample.action is None
        late = [one for one in sample.next if one.seconds > 2]  # after some frames
        assert len(late) >= 3
        before = [[p for p in predictions if p.time <= one.seconds - 1][-1] for one in late]
        hits = [p.answer() == one.action for p, one in zip(before, late, strict=True)]
        assert sum(hits) / len(hits) > 0.5, sample
        right += hits
    assert sum(right) / len(right) >= 0.75
    assert len(kitchen_clips()) == len(KITCHENS)


def test_samples_of_each_model(tmp_path: Path) -> None:
    with running(tmp_path / "folder") as server:
        url = f"{server.url}/api/samples"
        names = [one["name"] for one in http.get(url).json()]
        assert names == [f"sample-{i}" for i in range(1, 7)]
        assert http.get(f"{url}?model=somethings").json() == http.get(url).json()
        cooking = http.get(f"{url}?model=kitchen").json()
        assert [one["name"] for one in cooking] == [f"kitchen-{i}" for i in range(1, len(KITCHENS) + 1)]
        assert all(one["next"] for one in cooking)
        unknown = http.get(f"{url}?model=none")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (422, "config")
        picture = http.get(f"{url}/kitchen-1.jpg", timeout=60)
        assert picture.headers["content-type"] == "image/jpeg"
        assert picture.content[:2] == b"\xff\xd8"
        assert http.get(f"{url}/none.jpg").status_code == 404


def test_samples_of_a_finetuned_model_are_its_recordings(tmp_path: Path) -> None:
    with running(tmp_path / "folder") as server:
        labelled = horst.create_model("horst_tiny", labels={"action": ["wave", "point"]}, num_classes=2).eval()
        save(labelled, server.folder / "models" / "mine")
        url = f"{server.url}/api/samples"
        assert http.get(f"{url}?model=mine").json() == []
        for label, count in (("wave", 6), ("point", 1), ("other", 1)):
            for _ in range(count):
                assert http.post(f"{server.url}/api/recordings/{label}", content=recording(8)).status_code == 201
        listed = http.get(f"{url}?model=mine").json()
        assert [(one["label"], one["action"]) for one in listed] == [("wave", "wave")] * 4 + [("point", "point")]
        stored = http.get(f"{server.url}/api/recordings").json()["labels"][0]["clips"]
        assert [one["name"] for one in listed[:4]] == [f"recording-{clip['id']}" for clip in stored[2:]]
        address = f"{url}/{listed[0]['name']}"
        assert http.get(f"{address}.jpg").content[:2] == b"\xff\xd8"
        (tmp_path / "clip.mp4").write_bytes(http.get(f"{address}.mp4").content)
        with VideoFile(tmp_path / "clip.mp4") as video:
            assert [videos.number_of(frame.image) for frame in video.frames()] == list(range(8))
            assert video.info.fps == pytest.approx(10, abs=0.1)
        assert not list((server.folder / "samples").glob("*"))  # a deleted clip is gone
        http.delete(f"{server.url}/api/recordings/wave")
        assert http.get(f"{address}.mp4").status_code == 404
