"""The samples show their action, and the package's model predicts it."""

from __future__ import annotations

from pathlib import Path

import horst
from horst.serving.samples import CLIPS, Samples
from horst.synth import somethings
from horst.synth.somethings.scene import sample_scene
from horst.video.decode import VideoFile


def test_samples_are_clips_of_a_plan() -> None:
    """With its labels, and without an occluder."""
    known = {spec.seed: spec for spec in somethings.plan(240, 1000)}
    samples = Samples(Path("nowhere")).list()
    for sample, (seed, template, objects, _) in zip(samples, CLIPS, strict=True):
        spec, scene = known[seed], sample_scene(seed)
        assert (spec.label, spec.template, spec.placeholders) == (sample.label, template, objects)
        assert sample.seconds == round(scene.frames / somethings.FPS, 2)
        assert scene.occluder is None
    assert len({sample.action for sample in samples}) == len(samples)


def test_model_predicts_the_samples(tmp_path: Path) -> None:
    """In the last third of each file."""
    model, samples = horst.open_model("somethings").eval(), Samples(tmp_path / "samples")
    for sample in samples.list():
        path = samples.file(sample.name)
        assert path is not None
        written = path.stat().st_mtime_ns
        assert samples.file(sample.name) == path
        assert path.stat().st_mtime_ns == written
        with VideoFile(path, size=model.size, threads=1) as video:
            predictions = list(model.stream().watch(video.frames(), video.info.duration))
        late = [prediction.answer() for prediction in predictions if prediction.time >= 2 / 3 * sample.seconds]
        assert len(late) >= 2
        assert set(late) == {sample.action}
    assert samples.file("sample-0") is None
    assert samples.file("../x") is None
