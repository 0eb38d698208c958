"""A run as plain data: read, changed, written, and what is wrong with it said before any work starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from horst.config import from_dict
from horst.configs.run_file import ENTRIES
from horst.data.augmenter import Augment
from horst.data.config import DataConfig
from horst.errors import ConfigError, DataError, HorstError
from horst.training.config import (
    Batches,
    Loss,
    ModelChoice,
    Optimiser,
    PaperRow,
    RunConfig,
    Schedule,
    TrainerOptions,
)
from horst.training.fit import prepare, train

ABSENT = "mps" if torch.cuda.is_available() else "cuda"
words = st.text("abc xyzäö'\":#-{}", min_size=1, max_size=8)
fractions = st.floats(0, 1)
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
runs = st.builds(
    RunConfig,
    name=words,
    model=st.builds(
        ModelChoice,
        name=words,
        options=st.dictionaries(words, plain_values, max_size=3),
        init=st.none() | words.map(lambda w: str(Path("/somewhere") / w)),
        freeze_backbone=st.booleans(),
    ),
    data=st.builds(DataConfig, source=words, options=st.dictionaries(st.just("clips"), st.integers(1, 9))),
    seed=st.integers(0, 99),
    paper=st.none() | st.builds(PaperRow, table=words, row=words),
    batches=st.builds(Batches, size=st.integers(1, 9), prefix=st.none() | st.tuples(fractions, fractions)),
    augment=st.builds(Augment, operations=st.integers(0, 3), mirror=st.booleans()),
    loss=st.builds(Loss, steps=st.sampled_from(["last", "every", "anticipation"]), label_smoothing=fractions)
    | st.builds(
        Loss,
        name=st.sampled_from(["smooth_top_k", "truncated_top_k"]),
        k=st.integers(1, 9),
        temperature=st.floats(0.01, 2),
        exponential=st.none() | fractions,
        tasks=st.none() | st.just(("action", "noun")),
        ranking=fractions,
        distance=st.sampled_from(["mse", "contrastive"]),
    ),
    optimiser=st.builds(Optimiser, lr=st.floats(1e-9, 1), weight_decay=fractions, lookahead=st.booleans()),
    schedule=st.builds(Schedule, warmup=st.floats(0, 5), decay=fractions),
    trainer=st.builds(
        TrainerOptions,
        epochs=st.integers(1, 9),
        devices=st.just("auto") | st.integers(1, 8),
        ema=st.none() | fractions,
        clip_gradient=st.none() | st.floats(0.1, 5),
        precision=st.sampled_from(["32-true", "bf16-mixed"]),
    ),
)


@given(run=runs)
@settings(max_examples=60, deadline=None)
def test_a_run_is_the_same_after_plain_data_and_after_yaml(run: RunConfig, tmp_path_factory: Any) -> None:
    assert from_dict(RunConfig, run.to_dict()) == run
    assert from_dict(RunConfig, yaml.safe_load(run.to_yaml())) == run
    file = tmp_path_factory.mktemp("run") / "config.yaml"
    file.write_text(run.to_yaml(), encoding="utf-8")
    assert RunConfig.from_file(file) == run


@pytest.fixture
def file(somethings: Path, tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(small_runs.plain(somethings)))
    return path


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    run = small_runs.plain("../made")
    run["model"] |= {"init": "../runs/first", "tsn": "tsn.pth"}
    (tmp_path / "configs/run.yaml").write_text(yaml.safe_dump(run))
    monkeypatch.chdir(tmp_path / "elsewhere")
    config = RunConfig.from_file("../configs/run.yaml", ["model.init=other"])
    assert Path(config.data.options["folder"]).resolve() == tmp_path / "made"
    assert Path(config.model.tsn or "").resolve() == tmp_path / "configs/tsn.pth"
    assert config.model.init == str(tmp_path / "elsewhere/other")  # named on the command line
    assert RunConfig.from_file("../configs/run.yaml", ["model.init=kitchen"]).model.init == "kitchen"  # of the package
    (tmp_path / "elsewhere/kitchen").mkdir()
    own = RunConfig.from_file("../configs/run.yaml", ["model.init=kitchen"])
    assert own.model.init == str(tmp_path / "elsewhere/kitchen")
    (tmp_path / "configs/run.yaml").write_text(yaml.safe_dump({**run, "data": "../data.yaml"}))
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(small_runs.plain("made")["data"]))
    assert Path(RunConfig.from_file("../configs/run.yaml").data.options["folder"]).resolve() == tmp_path / "made"
    chosen = RunConfig.from_file("../configs/run.yaml", ["data=../data.yaml", "data.folder=here", "data.clip.fps=6"])
    assert Path(chosen.to_dict()["data"]["folder"]) == tmp_path / "elsewhere/here"
    assert chosen.data.clip.fps == 6


def test_overrides(file: Path) -> None:
    overrides = ["trainer.epochs=7", "optimiser.lr=1e-3", "batches.prefix=[0.5, 1]", "trainer.ema=null", "name=a=b"]
    run = RunConfig.from_file(file, overrides)
    assert (run.trainer.epochs, run.optimiser.lr, run.batches.prefix, run.trainer.ema) == (7, 1e-3, (0.5, 1.0), None)
    assert run.name == "a=b"
    assert RunConfig.from_file(file, ["model.options.heads=2"]).model.options == {**small_runs.TINY, "heads": 2}


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("trainr.epochs=3", "the config has no entry 'trainr', did you mean 'trainer'"),
        ("trainer.epoch=3", "trainer has no entry 'epoch', did you mean 'epochs'"),
        ("model.option={}", "model has no entry 'option', did you mean 'options'"),
        ("optimiser.learning=1", "optimiser has no entry 'learning'"),
        ("loss.step=last", "loss has no entry 'step', did you mean 'steps'"),
        ("schedule.warm=1", "schedule has no entry 'warm', did you mean 'warmup'"),
        ("batches.worker=1", "batches has no entry 'worker', did you mean 'workers'"),
        ("augment.magnitud=1", "augment has no entry 'magnitud', did you mean 'magnitude'"),
        ("data.clip.sise=[1,1]", "clip has no entry 'sise', did you mean 'size'"),
        ("trainer.epochs=many", "trainer.epochs is 'many'; it takes a whole number"),
        ("trainer.epochs=2.5", "trainer.epochs is 2.5; it takes a whole number"),
        ("trainer.epochs=true", "trainer.epochs is True; it takes a whole number"),
        ("trainer.epochs=0", "trainer.epochs is 0; it takes a whole number from 1 on"),
        ("optimiser.lr=-1", "optimiser.lr is -1.0; it takes a number above 0"),
        ("optimiser.lr=nan", "optimiser.lr is nan"),
        ("optimiser.name=adam", "there is no optimiser 'adam', did you mean 'adamw'"),
        ("optimiser.lookahead=yes please", "optimiser.lookahead is 'yes please'; it takes true or false"),
        ("trainer.precision=16", "trainer.precision is 16; choose from"),
        ("batches.prefix=0.5", "batches.prefix is 0.5; it takes a list of a number, a number"),
        ("batches.prefix=[0.5,big]", r"batches.prefix\[1\] is 'big'; it takes a number"),
        ("batches.prefix=[0.5,0.2]", "prefix is"),
        ("batches.size=0", "batch_size is 0"),
        ("batches.size=64", "batches.size makes 64 on all devices and there are 20 training clips"),
        ("batches.bad_limit=7", "the limit of bad clips is 7"),
        ("batches.workers=-1", "workers is -1"),
        ("loss.label_smoothing=2", "loss.label_smoothing is 2.0"),
        ("loss.name=hinge", r"there is no loss 'hinge'\. There are: cross_entropy, smooth_top_k, truncated_top_k[.,]"),
        ("loss={name: smooth_top_k, label_smoothing: 0.1}", "loss.label_smoothing is 0.1; smooth_top_k takes none"),
        ("loss={ramp: true, exponential: 1}", "loss.ramp and loss.exponential both weight the frames"),
        ("loss.exponential=-1", "loss.exponential is -1.0"),
        ("loss.k=0", "loss.k is 0; it takes a whole number from 1 on"),
        ("loss.temperature=0", "loss.temperature is 0.0; it takes a number above 0"),
        ("loss.ranking=-1", "loss.ranking is -1.0"),
        ("loss.ranking_form=margins", "loss.ranking_form is 'margins'"),
        ("loss.features=-1", "loss.features is -1.0"),
        ("loss.distance=l2", "loss.distance is 'l2'"),
        (
            "loss.tasks=[verbs]",
            "is 'verbs'; choose from 'action', 'verb', 'noun', 'present', did you mean 'verb'",
        ),
        ("loss.tasks=[]", "loss.tasks is empty"),
        ("loss={tasks: [verb, noun], ranking: 1}", "loss.ranking is a loss of the action, which loss.tasks leaves out"),
        ("loss={tasks: [verb], name: truncated_top_k}", "truncated_top_k is a loss of the action"),
        ("trainer.monitor=are", "trainer.monitor is 'are', which validation does not give, did you mean 'area'"),
        ("loss.steps=anticipation", "loss.steps is anticipation and the task of somethings is recognition"),
        ("schedule.decay=1.5", "schedule.decay is 1.5"),
        ("augment.magnitude=99", "magnitude is 99"),
        ("model=horst_tiny", "model is 'horst_tiny'; it takes a mapping of name, options"),
        ("model.name=horst_tinny", "there is no model 'horst_tinny', did you mean 'horst_tiny'"),
        ("model.name=horst_tiny_anticipation", "which anticipates verbs, and somethings is for recognition"),
        ("model.options.num_classes=7", "model.options.num_classes is 7 and somethings has 24 actions: leave it out"),
        ("model.options.ordr=7", "horst_tiny has no option 'ordr', did you mean 'order'"),
        ("model.options.hidden=[4]", "hidden"),
        ("model.init=/nowhere", "/nowhere"),
        ("model.tsn=/nowhere", "model.tsn is for the backbone bn_inception; this model has stem"),
        ("trainer.completion_epochs=1", "trainer.completion_epochs is for unrolling heads; horst_tiny has none"),
        ("trainer={graphs: true, accumulate: 2}", "trainer.accumulate is 2: trainer.graphs cannot accumulate"),
        (f"trainer.accelerator={ABSENT}", "trainer: "),
        ("data.source=somethigs", "there is no data source 'somethigs', did you mean 'somethings'"),
        ("data=/nowhere.yaml", "/nowhere.yaml: there is no such file"),
        ("data={source: folder, root: /nowhere}", "/nowhere"),
        ("seed.more=1", "--seed.more: seed is 0, which has no entries"),
        ("seed", "--seed needs a value"),
        ("seed=[", "cannot be read as YAML"),
        ("paper={table: x}", "paper needs the entry 'row'"),
    ],
)
def test_what_is_wrong_is_said_before_work_starts(file: Path, tmp_path: Path, override: str, says: str) -> None:
    text = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**text, "seed": 0}))
    folder = tmp_path / "runs/new"
    with pytest.raises(HorstError) as error:
        train(RunConfig.from_file(file, [override]), folder)
    assert isinstance(error.value, ValueError)
    assert re.search(says, str(error.value)), str(error.value)
    assert not folder.exists()


def test_an_error_names_the_file_or_the_change_that_has_it(file: Path) -> None:
    def message(*changes: str) -> str:
        with pytest.raises(ConfigError) as error:
            RunConfig.from_file(file, changes)
        return str(error.value)

    typo = "trainer has no entry 'epoch', did you mean 'epochs'?"
    assert message("seed=1", "trainer.epoch=3") == f"the command line: --trainer.epoch=3: {typo}"
    assert message("trainer.epoch=3", "trainer.epoch=4") == (
        f"the command line: --trainer.epoch=3 --trainer.epoch=4: {typo}"
    )
    both = message("loss.ramp=true", "seed=1", "loss.exponential=1")
    assert both.startswith("the command line: --loss.ramp=true --loss.exponential=1: loss.ramp and loss.exponential")
    text = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**text, "trainer": {"epoch": 3}}))
    assert message("seed=1") == message("trainer.epoch=5") == f"{file}: {typo}"


def test_maps_cannot_be_augmented(somethings: Path) -> None:
    backbone = {"name": "maps", "channels": 16}
    options = {**small_runs.TINY, "backbone": backbone, "size": [4, 4]}
    with pytest.raises(ConfigError, match="are for images"):
        prepare(small_runs.config(somethings, model={"options": options}))


def test_files_that_are_no_runs(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    with pytest.raises(ConfigError, match="there is no such file"):
        RunConfig.from_file(file)
    for text, says in (
        ("[1, 2]", "a run is a mapping"),
        ("a: [", "cannot be read as YAML"),
        ("name: x", "the config needs the entry 'model'"),
        ("name: x\nmodel: {name: horst_tiny}\ndata: other.yaml", "other.yaml: there is no such file"),
        ("name: x\nmodel: {name: horst_tiny}\ndata: 3", "data: a data config is a mapping with a source"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=says) as error:
            RunConfig.from_file(file)
        assert str(error.value).startswith(str(file))
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        RunConfig.from_file(file)


def test_other_clips_than_those_that_were_made(somethings: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="choose another folder"):
        train(small_runs.config(somethings, data={"clips": 30}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_runs_of_earlier_versions(tmp_path: Path) -> None:
    """Entries were renamed, and others did not exist: what a run did without them is kept when it is resumed."""
    old = small_runs.plain(tmp_path / "made", batches={"resident": True})
    file = tmp_path / "config.yaml"
    for resident, preload in ((True, "device"), (False, None)):
        file.write_text(yaml.safe_dump({**old, "batches": {"size": 4, "resident": resident}}))
        config = RunConfig.from_file(file, resumed=True)
        assert (config.batches.preload, config.batches.size) == (preload, 4)
    assert (config.loss.times, config.optimiser.rectify, config.trainer.completion_from) == ("mean", False, "last")
    assert (config.trainer.precision, config.trainer.graphs) == ("32-true", False)
    new = RunConfig.from_file(file)
    assert (new.loss.times, new.optimiser.rectify, new.trainer.completion_from) == ("sum", True, "best")
    file.write_text(new.to_yaml())
    assert RunConfig.from_file(file, resumed=True) == new


def test_the_names_of_entries_need_no_torch() -> None:
    """Options of the command line are checked against them before torch is imported."""
    assert tuple(RunConfig.__dataclass_fields__) == ENTRIES
