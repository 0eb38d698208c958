"""Every packaged study file is a study: it is read, its runs are runs, and their models are built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from horst.config import from_dict
from horst.configs import find_config, find_study, list_configs
from horst.data.buckets import BucketSampler
from horst.errors import ConfigError
from horst.evaluation.report import metric_title
from horst.models import METHODS, Predictor, model_config
from horst.studies.config import Study, known_studies, overrides
from horst.studies.plan import group_folds, identity, plan
from horst.studies.report import paper_lines
from horst.synth import kitchen, somethings
from horst.training.config import RunConfig

ROOT = Path(__file__).parents[2]
FILES = [find_config(name) for name in list_configs("studies/*")]
WANTED = {"table1", "table2", "table3", "table4", "claims", "variants", "anticipation", "recipe", "gestures"}


def test_they_are_all_there() -> None:
    assert {file.stem for file in FILES} >= WANTED


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_its_runs_are_runs_that_differ(file: Path, tmp_path: Path) -> None:
    study = Study.from_file(file)
    assert study.name == file.stem
    assert f"# horst study {study.name}" in file.read_text().splitlines()
    assert study.question.endswith("?")
    assert max(map(len, file.read_text().splitlines())) <= 120
    jobs = plan(study, tmp_path)
    assert len(jobs) == len(study.trained) * len(study.seeds) * max(1, len(study.folds))
    assert len({job.name for job in jobs}) == len(jobs)
    runs = []
    for job in jobs[:: max(1, len(study.folds))][: len(study.trained)]:
        config = job.config
        options = _without_weights(config.model.options)
        with torch.device("meta"):
            model = Predictor.from_config(model_config(config.model.name, **options))
        whole_videos = "video_dropout" in config.model.options  # of which every model predicts the next action
        assert whole_videos or (model.head.task == "anticipation") == (config.loss.steps == "anticipation")
        first = jobs[0].config.data
        seen = config.data if "recipe" not in study.name else replace(config.data, clip=first.clip)
        if study.name == "gestures_difference":  # which compares inputs of the same clips
            seen = replace(seen, options={**first.options})
        if study.name == "cad120_finetuned":  # frames, and maps of the same videos
            clip = replace(seen.clip, size=first.clip.size)
            seen = replace(seen, source=first.source, options=first.options, clip=clip)
        assert seen == first  # else they could not be compared
        assert Path(config.data.options["folder"]).relative_to(Path.cwd()).parts[0] == "runs"
        runs.append((model.config, replace(config, name="", model=jobs[0].config.model)))
    assert all(run not in runs[:i] for i, run in enumerate(runs))
    paper_lines(study)
    assert all(metric_title(metric) for metric in study.metrics)


def test_horst_is_one_run_in_all_tables(tmp_path: Path) -> None:
    rows = {"table1": "horst", "table2": "spatial-temporal", "table3": "s8", "table4": "both-released"}
    found = set()
    for study, name in {**rows, "claims": "horst", "variants": "released"}.items():
        (job,) = plan(Study.from_file(find_study(study)), tmp_path, only=[name], seeds=[0])
        found.add(identity(job.config, None))
    assert len(found) == 1


def _without_weights(options: dict[str, Any]) -> dict[str, Any]:
    """Those of ImageNet are not loaded: the model is not filled with any."""
    backbone = options.get("backbone")
    if isinstance(backbone, dict) and "pretrained" in backbone:
        return {**options, "backbone": {**backbone, "pretrained": False}}
    return options


def test_tables_name_the_options_of_their_methods() -> None:
    for name in ("table2", "table3", "table4"):
        for run in Study.from_file(find_study(name)).runs:
            for option, value in (run.known.options if run.known else {}).items():
                if option == "spatial_weight":  # the study was run before the method was as the paper prints it
                    assert run.changes[f"model.options.{option}"] == "present"
                elif option not in ("hidden", "stride"):  # of the small model
                    assert run.changes[f"model.options.{option}"] == value, run.name


GOOD: dict[str, Any] = {
    "name": "try",
    "title": "A try",
    "question": "Does it work?",
    "base": "somethings/cpu",
    "runs": [{"name": "a"}, {"name": "b", "changes": {"model.options.order": 3}}],
    "against": "a",
    "metrics": ["area"],
}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seed": [1]}, "has no entry 'seed', did you mean 'seeds'"),
        ({"runs": []}, "runs is empty"),
        ({"runs": [{"name": "a"}, {"name": "a"}]}, "runs has 'a' twice"),
        ({"runs": [{"name": "a/b"}]}, "becomes a folder's"),
        ({"seeds": []}, "seeds is empty"),
        ({"against": "aa"}, "against is 'aa', did you mean 'a'"),
        ({"base": None}, "has no config and the study has no base"),
        ({"base": "nowhere.yaml"}, "nowhere.yaml: there is no such file"),
        ({"metrics": ["aria"]}, "did you mean 'area'"),
        ({"runs": [{"name": "a", "method": "horstt"}]}, "there is no method 'horstt', did you mean 'horst'"),
        ({"runs": [{"name": "a"}, {"name": "c", "fuse": ["a"]}]}, "name two or more different runs"),
        ({"runs": [{"name": "a"}, {"name": "c", "fuse": ["a", "a"]}]}, "name two or more different runs"),
        ({"runs": [{"name": "a"}, {"name": "c", "fuse": ["a", "c"]}]}, "fuses 'c'. The trained runs are"),
        ({"runs": [{"name": "a"}, {"name": "c", "fuse": ["a", "b"], "config": "own/folder"}]}, "leave out config"),
        ({"changes": {"trainer.epoch": 3}}, "the run 'a' of try: .*has no entry 'epoch', did you mean 'epochs'"),
        ({"changes": {"model.options.ordre": 3}}, "has no option 'ordre', did you mean 'order'"),
        ({"changes": {"seed": 3, "trainer.epochs": 0}}, "trainer.epochs is 0"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    file = tmp_path / "try.yaml"
    file.write_text(yaml.safe_dump({**GOOD, **changes}))
    with pytest.raises(ConfigError, match=says):
        plan(Study.from_file(file), tmp_path)


def test_paths_are_relative_to_the_file_and_words_are_read_back(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    changes = {"data.folder": "../clips", "model.init": None, "model.options.hidden": [8, 8], "optimiser.lr": 0.001}
    file = tmp_path / "inner" / "try.yaml"
    file.write_text(yaml.safe_dump({**GOOD, "changes": changes, "metrics": ["area"]}))
    study = Study.from_file(file)
    assert study.changes == {**changes, "data.folder": str(tmp_path / "inner/../clips")}
    said = overrides({**study.changes, "name": "a: b", "loss.name": "cross_entropy"})
    assert said[1:] == [
        "model.init=null",
        "model.options.hidden=[8, 8]",
        "optimiser.lr=0.001",
        "name='a: b'",
        "loss.name=cross_entropy",
    ]
    (job, _) = plan(study, tmp_path, changes=["model.options.stride=[1,2]"])
    assert Path(job.config.data.options["folder"]).resolve() == tmp_path / "clips"
    assert job.config.model.options["hidden"] == [8, 8]
    with pytest.raises(ConfigError, match="has no run 'c'"):
        plan(study, tmp_path, only=["c"])
    with pytest.raises(ConfigError, match="give --seeds"):
        plan(study, tmp_path, changes=["seed=7", "model.options.stride=[1,2]"])


def test_paths_of_data_folds_and_runs_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "inner" / "sets").mkdir(parents=True)
    (tmp_path / "inner" / "sets" / "made.yaml").write_text("{source: somethings, folder: ../clips, clips: 24}")
    for name in ("base.yaml", "x.yaml"):
        (tmp_path / name).touch()
    run = {"name": "a", "config": "../x.yaml", "changes": {"model.init": "best", "model.options.order": 2}}
    given = {**GOOD, "runs": [run, {"name": "b", "config": "somethings/gpu"}], "base": "../base.yaml", "against": None}
    folds = [{"data": {"source": "somethings", "folder": "../other"}, "batches.cache": "~/kept"}]
    file = tmp_path / "inner" / "try.yaml"
    file.write_text(yaml.safe_dump({**given, "changes": {"data": "sets/made.yaml"}, "folds": folds}))
    study = Study.from_file(file)
    assert study.base is not None
    assert Path(study.base).resolve() == tmp_path / "base.yaml"
    assert [Path(run.config or "").name for run in study.runs] == ["x.yaml", "gpu"]
    assert study.runs[0].changes == {"model.init": str(tmp_path / "inner/best"), "model.options.order": 2}
    data = study.changes["data"]
    assert (data["source"], Path(data["folder"]).resolve(), data["clips"]) == (
        "somethings",
        tmp_path / "inner/clips",
        24,
    )
    assert Path(study.folds[0]["data"]["folder"]).resolve() == tmp_path / "other"
    assert study.folds[0]["batches.cache"] == str(Path.home() / "kept")


def test_rivals_and_labels() -> None:
    runs = ({"name": "a", "title": "A"}, {"name": "b", "method": "horst", "against": "c"}, {"name": "c"})
    study = from_dict(Study, {**GOOD, "runs": list(runs)})
    a, b, c = study.runs
    assert [study.baseline(run) for run in (a, b, c)] == [None, "c", "a"]
    assert [replace(study, against=None).baseline(run) for run in (a, b, c)] == [None, "c", None]
    assert (a.label, b.label, c.label) == ("A", METHODS["horst"].title, "c")
    assert replace(b, title="B").label == "B"
    assert [run.known for run in (a, b)] == [None, METHODS["horst"]]
    assert study.run("c") is c
    assert (study.seeds, study.curve, study.folds) == ((0,), False, ())


@pytest.mark.parametrize("name", ["a", "A9", "0", "a-b_c.d"])
def test_names_of_folders(name: str) -> None:
    assert from_dict(Study, {**GOOD, "name": name, "runs": [{"name": name}], "against": None}).name == name
    for bad in (f".{name}", f"-{name}", f"{name}/", f"{name} ", ""):
        for place in ({"name": bad}, {"runs": [{"name": bad}], "against": None}):
            with pytest.raises(ConfigError, match="becomes a folder's"):
                from_dict(Study, {**GOOD, **place})


def test_what_is_given_twice_or_not_at_all() -> None:
    for what, twice in (("seeds", [1, 2, 1]), ("metrics", ["area", "decided", "decided"])):
        with pytest.raises(ConfigError, match=f"{what} has {twice[-1]!r} twice"):
            from_dict(Study, {**GOOD, what: twice})
        with pytest.raises(ConfigError, match=f"{what} is empty"):
            from_dict(Study, {**GOOD, what: []})
    with pytest.raises(ConfigError, match="against is 'd'"):
        from_dict(Study, {**GOOD, "runs": [{"name": "a"}, {"name": "b", "against": "d"}]})
    with pytest.raises(ConfigError, match="the run 'b' has no config"):
        from_dict(Study, {**GOOD, "base": None, "runs": [{"name": "a", "config": "x.yaml"}, {"name": "b"}]})


def test_numbers_in_a_mapping_stay_numbers(tmp_path: Path) -> None:
    changes = {"optimiser": {"name": "adamw", "lr": 1.0e-05}}
    assert overrides(changes) == ["optimiser={name: adamw, lr: 1.0e-05}"]
    file = tmp_path / "try.yaml"
    file.write_text(yaml.safe_dump({**GOOD, "changes": changes}))
    assert {job.config.optimiser.lr for job in plan(Study.from_file(file), tmp_path)} == {1.0e-05}


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(PLAIN)
def test_values_are_read_back_from_one_line(value: Any) -> None:
    (said,) = overrides({"model.options": {"given": value}})
    assert said.splitlines() == [said]
    assert RunConfig.from_file(GOOD["base"], [said]).model.options == {"given": value}


@pytest.mark.parametrize("word", ["---", "@x", "%x", "two words", "a # b", "x\ny", "yes", "", "- a", "/some/where"])
def test_words_are_read_back(word: str) -> None:
    assert RunConfig.from_file(GOOD["base"], overrides({"name": word})).name == word


def test_studies_of_the_working_folder_are_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "configs" / "studies" / "own.yaml"
    own.parent.mkdir(parents=True)
    own.touch()
    assert find_study("own").resolve() == own
    assert set(known_studies()) >= {"table1", "own"}
    (tmp_path / "plain").touch()
    assert find_study("plain") == Path("plain")


def test_studies_are_found_by_name() -> None:
    assert find_study("table1") == find_config("studies/table1")
    with pytest.raises(ConfigError, match=r"tabel1: there is no such file.*, did you mean 'table1'"):
        find_study("tabel1")


@pytest.mark.parametrize(("name", "made"), [("recipe_4", somethings), ("recipe_kitchen", kitchen)])
def test_a_search_can_use_other_clips_than_the_tables(name: str, made: Any, tmp_path: Path) -> None:
    (first, *_) = plan(Study.from_file(name), tmp_path, changes=["data.seed=2", "data.folder=runs/data/search"])
    assert first.config.data.options["seed"] == 2
    clips = [{clip.seed for clip in made.plan(96, seed)} for seed in range(3)]
    assert len(set.union(*clips)) == 3 * 96


def test_the_table_of_other_clips_has_the_runs_of_the_long_one(tmp_path: Path) -> None:
    long, fresh = (plan(Study.from_file(name), tmp_path) for name in ("table1_long", "table1_fresh"))
    for one, other in zip(long, fresh, strict=True):
        other_clips = {"seed": 1, "folder": other.config.data.options["folder"]}
        data = replace(one.config.data, options=one.config.data.options | other_clips)
        assert identity(replace(one.config, data=data), None) == identity(other.config, None)
        assert one.config.data.options.get("seed", 0) == 0


@pytest.mark.parametrize("people", [3, 4])
def test_one_fold_for_each_group(tmp_path: Path, people: int) -> None:
    """However many persons the data has; as folds they cannot be given too."""
    lines = ["path,split,group,label"]
    lines += [f"{i}.mp4,train,p{i % people},{'ab'[i // people % 2]}" for i in range(4 * people)]
    (tmp_path / "clips.csv").write_text("\n".join(lines) + "\n")
    study = Study.from_file("gestures_lite0")
    data = {"source": "csv", "path": str(tmp_path / "clips.csv")}
    study = replace(study, folds=(), leave_out="group", changes={"data": data, "augment.mirror": False})
    folds = group_folds(study).folds
    assert [fold["data.fold"] for fold in folds] == [{"count": people, "index": i} for i in range(people)]
    with pytest.raises(ConfigError, match="folds and leave_out"):
        replace(study, folds=({"data.fold.index": 0},))


@pytest.mark.parametrize("people", [3, 4])
def test_an_epoch_of_a_finetuned_backbone_is_one_step(people: int) -> None:
    """CAD-120 has 31 videos of each person, and one person is left out."""
    batches = RunConfig.from_file(find_config("cad120/horst_finetuned")).batches
    videos = [300] * 31 * (people - 1)
    (batch,) = BucketSampler(videos, batches.size, drop_last=batches.drop_last)
    assert len(set(batch)) == 62


def test_a_fused_row_trains_its_members(tmp_path: Path) -> None:
    file = tmp_path / "try.yaml"
    fused = {"name": "c", "fuse": ["a", "b"]}
    file.write_text(yaml.safe_dump({**GOOD, "runs": [fused, *GOOD["runs"]]}))
    study = Study.from_file(file)
    assert [job.run.name for job in plan(study, tmp_path)] == ["a", "b"]
    assert [job.run.name for job in plan(study, tmp_path, only=["b"])] == ["b"]
    assert [job.run.name for job in plan(study, tmp_path, only=["c", "a"])] == ["a", "b"]
