"""What the runs of a study share is made once, before they start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import small_runs
import yaml
from torch.utils.data import DataLoader

from horst.data.preload import PreloadedClips
from horst.data.source import open_source
from horst.errors import ConfigError
from horst.studies import plan as module
from horst.studies.config import Study
from horst.studies.plan import Job, plan


def jobs(folder: Path, made: Path, *changes: str, runs: tuple[dict[str, Any], ...] = ({"name": "a"},)) -> list[Job]:
    run = small_runs.plain(made, data={"clips": 12})
    (folder / "run.yaml").write_text(yaml.safe_dump(run))
    study = Study(
        name="s", title="S", question="?", base=str(folder / "run.yaml"), metrics=("area",),
        runs=Study.from_file(_written(folder, runs)).runs,
    )  # fmt: skip
    return plan(study, folder / "s", changes=changes)


def _written(folder: Path, runs: tuple[dict[str, Any], ...]) -> Path:
    file = folder / "s.yaml"
    given = {"name": "s", "title": "S", "question": "?", "base": "run.yaml", "metrics": ["area"], "runs": list(runs)}
    file.write_text(yaml.safe_dump(given))
    return file


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for clips, which are made once."""
    return tmp_path_factory.mktemp("clips") / "made"


class Here(DataLoader[int]):
    """Counts what it is asked for, and decodes in this process."""

    asked: list[tuple[int, int]] = []  # noqa: RUF012

    def __init__(self, data: Any, *, num_workers: int, **options: Any) -> None:
        Here.asked.append((len(data), num_workers))
        super().__init__(data, num_workers=0, **options)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The data sets that were opened."""
    found: list[Any] = []
    monkeypatch.setattr(module, "open_source", lambda data: found.append(open_source(data)) or found[-1])
    monkeypatch.setattr(module, "DataLoader", Here)
    monkeypatch.setattr("horst.studies.plan.available_cores", lambda: 3)
    Here.asked = []
    return found


def kept(cache: Path) -> int:
    return sum(file.is_file() for file in cache.rglob("*"))


def test_clips_of_both_splits_are_kept_once(tmp_path: Path, made: Path, opened: list[Any]) -> None:
    runs = ({"name": "a"}, {"name": "b", "changes": {"model.options.order": 1}})
    module.prepare_data(jobs(tmp_path, made, f"batches.cache={tmp_path}/cache", runs=runs))
    assert len(opened) == 1
    counts = opened[0].annotations.counts()
    assert Here.asked == [(counts["train"], 3), (counts["val"], 3)]
    assert kept(tmp_path / "cache") >= 12


def test_other_data_and_other_caches_are_made_too(tmp_path: Path, made: Path, opened: list[Any]) -> None:
    runs = (
        {"name": "a", "changes": {"batches.cache": "one"}},
        {"name": "b", "changes": {"batches.cache": "two"}},
        {"name": "c", "changes": {"batches.cache": "one", "data.clip.fps": 2}},
    )
    module.prepare_data(jobs(tmp_path, made, runs=runs))
    assert len(opened) == 3
    assert len(Here.asked) == 6
    assert kept(tmp_path / "one") >= kept(tmp_path / "two") + 12


def test_without_a_cache_the_data_alone_are_made(tmp_path: Path, made: Path, opened: list[Any]) -> None:
    """And the jobs after it are not forgotten."""
    runs = ({"name": "a"}, {"name": "b"}, {"name": "c", "changes": {"batches.cache": "kept"}})
    module.prepare_data(jobs(tmp_path, made, runs=runs))
    assert len(opened) == 2
    assert len(Here.asked) == 2
    assert made.is_dir()


def test_runs_that_hold_their_clips_find_them_in_one_file(
    tmp_path: Path, made: Path, opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def resident(clips: Any, device: Any, workers: int) -> PreloadedClips:
        made.append(len(clips))
        assert workers == 3
        assert device.type == "cpu"
        return PreloadedClips(clips, device, 0)

    monkeypatch.setattr(module, "PreloadedClips", resident)
    module.prepare_data(jobs(tmp_path, made, f"batches.cache={tmp_path}/cache", "batches.preload=device"))
    counts = opened[0].annotations.counts()
    assert made == [counts["train"], counts["val"]]
    assert Here.asked == []
    assert kept(tmp_path / "cache") >= 2


def test_data_without_validation_are_refused(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (job,) = jobs(tmp_path, made)
    source = open_source(job.config.data)
    annotations = type("Annotations", (), {"name": "made", "counts": lambda self: {"train": 3}})()
    monkeypatch.setattr(module, "open_source", lambda data: source.with_annotations(annotations))
    with pytest.raises(ConfigError, match="made has no validation examples"):
        module.prepare_data([job])
