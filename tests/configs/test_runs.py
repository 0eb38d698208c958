"""Every packaged run is complete: it is read, its model is built, the paper has the row that it names."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from horst.backbones import create_backbone
from horst.configs import config_name, find_config, list_configs
from horst.data.readers.epic import NAMES as EPIC_NAMES
from horst.data.readers.ssv2 import read_ssv2
from horst.data.source import SOURCES
from horst.evaluation.paper import differences, paper_table, paper_tables
from horst.heads import head_options
from horst.models import Predictor, model_config
from horst.models.registry import METHODS, SIZES, Method
from horst.training.config import Loss, RunConfig

NAMES = [name for name in list_configs() if not name.startswith("studies/")]
FILES = [find_config(name) for name in NAMES]
COUNTS = {"num_classes": 11, "num_verbs": 3, "num_nouns": 7}
"""What the data will say."""
every_file = pytest.mark.parametrize("file", FILES, ids=NAMES)


def build(config: RunConfig) -> Predictor:
    """Its model, without weights."""
    options = config.model.options
    head = model_config(config.model.name, **options).head.options
    counts: dict[str, Any] = {name: count for name, count in COUNTS.items() if name in head}
    if "pairs" in head_options(model_config(config.model.name).head.name):
        parts = {"num_verbs": 3, "num_nouns": 7}
        counts |= {**parts, "pairs": [[i % 3, i % 7] for i in range(counts["num_classes"])]}
    with torch.device("meta"):
        return Predictor.from_config(model_config(config.model.name, **options, **counts))


@every_file
def test_it_is_a_run_whose_model_fits_its_data(file: Path) -> None:
    config = RunConfig.from_file(file)
    model = build(config)
    whole_videos = "video_dropout" in config.model.options  # of which every model predicts the next action
    assert whole_videos or (model.head.task == "anticipation") == (config.loss.steps == "anticipation")
    assert set(config.loss.tasks or ()) <= set(model.head.classes)
    assert not config.loss.features or model.core.predicts_features or model.head.predicts_features
    assert not {"size", "fps"} & set(config.model.options)  # those of the clips are taken
    assert config.data.source in SOURCES
    assert not config.model.freeze_backbone or any(True for _ in model.backbone.parameters())
    assert (config.model.tsn is not None) == (model.config.backbone.name == "bn_inception")


@every_file
def test_paths_lead_to_one_place(file: Path) -> None:
    """Data of all configs lie below data/ and runs/ in the current directory."""
    config = RunConfig.from_file(file)
    options = [*config.data.options.values(), config.model.tsn, config.model.init]
    paths = [Path(value).resolve() for value in options if isinstance(value, str) and "/" in value]
    assert paths
    for path in paths:
        place = path.relative_to(Path.cwd()).parts
        assert place[0] == "data" or place[:2] in (("runs", "data"), ("runs", "cad120")), path


@every_file
def test_a_comment_says_what_it_is(file: Path) -> None:
    lines = file.read_text().splitlines()
    assert lines[0].startswith("# ")
    assert max(map(len, lines)) <= 120


@every_file
def test_a_run_as_saved_is_the_same_run(file: Path, tmp_path: Path) -> None:
    config = RunConfig.from_file(file)
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    assert RunConfig.from_file(tmp_path / "config.yaml") == config


def test_no_two_runs_have_one_name() -> None:
    names = [RunConfig.from_file(file).name for file in FILES]
    assert len(set(names)) == len(FILES)
    for file, name in zip(FILES, names, strict=True):
        folders = config_name(file).split("/")[:-1]
        words = "-".join([folders[0], file.stem.replace("_", "-")])
        assert name == words


@cache
def configs() -> dict[Path, RunConfig]:
    return {file: RunConfig.from_file(file) for file in FILES}


def papers() -> dict[Path, tuple[RunConfig, str, str]]:
    return {file: (c, c.paper.table, c.paper.row) for file, c in configs().items() if c.paper is not None}


def papers_own() -> dict[Path, tuple[RunConfig, str, str]]:
    """Those of HORST, which the paper says how it trained."""
    return {file: found for file, found in papers().items() if found[0].model.name.startswith("horst")}


def runs_of(method: Method) -> dict[str, list[RunConfig]]:
    """The configs of a method by folder: those with its model, its options and its loss."""
    found: dict[str, list[RunConfig]] = {}
    for file in FILES:
        folder, config = config_name(file).split("/")[0], configs()[file]
        size = {"somethings": "tiny", "kitchen": "tiny"}.get(folder, folder)
        if size not in SIZES[method.task] or config.model.name != method.model_name(size):
            continue
        options = {key: value for key, value in config.model.options.items() if key != "variant"}
        features = 2.0 if (folder, method.name) == ("ek55", "avt") else None  # as its authors weigh it there
        loss = {**method.loss, **({"features": features} if features else {})}
        wanted = replace(Loss(), **{k: tuple(v) if isinstance(v, list) else v for k, v in loss.items()})
        said = replace(config.loss, steps=wanted.steps, times=wanted.times, ramp=False, label_smoothing=0.0)
        if options == method.options_for(size) and said == wanted:
            found.setdefault(folder, []).append(config)
    return found


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_has_its_runs(method: Method) -> None:
    """On the paper's data, for each of its rows, and on what the package draws; ablations of HORST on the former alone,
    for the studies have them on the latter."""
    found = runs_of(method)
    drawn, real = ("somethings", "ssv2") if method.task == "recognition" else ("kitchen", "ek55")
    assert set(found) >= ({real} if method.options else {drawn, real})
    named = {(config.paper.table, config.paper.row) for configs in found.values() for config in configs if config.paper}
    assert set(method.rows.items()) <= named
    others = {pair for one in METHODS.values() for pair in one.rows.items() if one.models == method.models}
    assert named <= others  # ATSN and VN-CE are one model and one loss
    if method.name.isidentifier() and not method.module.endswith(".horst"):
        assert f"{drawn}/{method.name}" in NAMES


def test_rows_that_configs_name_are_in_the_paper() -> None:
    for file, (config, table, row) in papers().items():
        assert paper_table(table).values(row), file
        # a run has at least one number to be compared with
        shown = f"@{100 * config.data.clip.observe:g}%"
        anticipates = config.loss.steps == "anticipation"
        assert anticipates or any(metric.endswith(shown) for metric in paper_table(table).values(row)), file


def test_runs_are_what_the_row_that_they_name_is_made_of() -> None:
    for file, (config, table, row) in papers().items():
        paper = paper_table(table)
        assert differences(paper, row, config.to_dict(), {"examples": paper.examples}) == [], file


def test_every_row_of_horst_has_a_run_in_both_variants() -> None:
    """The ablations are HORST throughout; in the other tables its rows bear its name."""
    wanted = {
        (table.name, row.name)
        for table in paper_tables().values()
        for row in table.rows
        if table.name in ("attention", "order", "key-value") or row.name.startswith("HORST")
    }
    for variant in ("released", "paper"):
        direct = {
            (table, row) for config, table, row in papers_own().values() if config.model.options["variant"] == variant
        }
        again = {
            (table.name, row.name) for table in paper_tables().values() for row in table.rows if row.same in direct
        }
        assert direct | again == wanted, variant


def test_early_recognition_has_a_run_for_each_column() -> None:
    for variant in ("released", "paper"):
        observed = sorted(
            config.data.clip.observe
            for config, table, _ in papers_own().values()
            if table == "early-recognition"
            and config.model.options["variant"] == variant
            and config.data.clip.fps == 12
        )
        assert [f"action/top1@{100 * part:g}%" for part in observed] == list(
            paper_table("early-recognition").columns.values()
        )


def test_runs_of_the_paper_are_trained_as_it_says() -> None:
    """Wherever it says it: 50 epochs, batches of 8 and 32 in all, AdaBelief with Lookahead, the rate and its end."""
    assert papers_own()
    for file, (config, table, _) in papers_own().items():
        recipe, trainer = config.optimiser, config.trainer
        assert isinstance(trainer.devices, int)
        total = config.batches.size * trainer.devices * trainer.accumulate
        epic = table.startswith("ek")
        assert total == (32 if epic else 8), file
        assert (trainer.epochs, config.schedule.decay, config.schedule.warmup) == (50, 0.25, 0), file
        assert (recipe.name, recipe.lr, recipe.weight_decay, recipe.lookahead) == ("adabelief", 0.002, 0.001, True)
        assert config.augment.operations > 0, file
        assert config.loss.steps == ("anticipation" if epic else "last"), file
        assert config.model.freeze_backbone == epic, file
        assert config.data.clip.size == ((256, 454) if epic else (224, 224)), file
        # SSv2's files have 12 frames a second, and the paper names 24: one run repeats each frame
        assert epic or config.data.clip.fps == (24 if file.stem.endswith("_24fps") else 12), file


def test_the_models_of_the_ablations_differ_from_horst_in_what_the_row_says() -> None:
    cores = {config.name: build(config).config.core for config, *_ in papers_own().values()}
    for variant in ("released", "paper"):
        base = cores[f"ssv2-horst-25-{variant}"]
        assert cores[f"ssv2-horst-50-{variant}"] == base
        for name, core in cores.items():
            if not name.startswith("ssv2") or not name.endswith(variant) or "horst" in name:
                continue
            changed = {f.name for f in fields(core) if getattr(core, f.name) != getattr(base, f.name)}
            expected = {
                "attention-temporal": {"attention"},
                "attention-spatial": {"attention", "spatial_weight"},
                "attention-joint-2": {"attention", "hidden", "stride"},
                "attention-spatial-temporal-2": {"hidden", "stride"},
                "key-value-split": {"key_value"},
            }
            kind = name.removeprefix("ssv2-").removesuffix(f"-{variant}")
            assert changed == expected.get(kind, {"order"}), name
            if kind.startswith("order"):
                assert core.order == int(kind.rpartition("-")[2])


@pytest.mark.parametrize("name", [name for name in NAMES if re.fullmatch(r"ek\d+/horst_.*(paper|released)", name)])
def test_runs_on_maps_that_a_comment_describes(name: str, tmp_path: Path) -> None:
    base = find_config(f"bases/{name.split('/')[0]}").read_text()
    changes: dict[str, Any] = yaml.safe_load("\n".join(re.findall(r"^#   (.*)$", base, re.M)))
    assert set(changes) == {"model", "data", "augment"}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"base": name, "name": "maps", **changes}))
    config = RunConfig.from_file(tmp_path / "run.yaml")
    model, before = build(config), build(RunConfig.from_file(name))
    assert model.config.core == before.config.core
    assert model.size == config.data.clip.size == before.backbone.output_size(*before.size)
    assert (config.model.tsn, config.model.freeze_backbone) == (None, False)
    assert config.augment.operations == 0
    assert not config.augment.mirror


def test_the_maps_of_vjepa2_are_those_of_the_command_in_its_file() -> None:
    text, config = find_config("ek100/horst_vjepa2").read_text(), RunConfig.from_file("ek100/horst_vjepa2")
    (options,) = re.findall(r"--options '(.*)'", text)
    with torch.device("meta"):
        encoder = create_backbone("vjepa2", **{**yaml.safe_load(options), "config": {}})
    model = build(config)
    assert model.backbone.input_channels == encoder.channels
    assert config.data.clip.size == encoder.output_size(256, 256)
    given = yaml.safe_load(options)
    assert given.pop("pretrained") == "facebook/vjepa2-vitl-fpc64-256"
    live = model_config("horst_ek100_vjepa2", variant="released")  # which `horst info` describes
    assert given.items() <= live.backbone.options.items()
    assert live.core == model.config.core


def test_paper_data_are_what_the_readers_call_them() -> None:
    """The names by which a table is told from other data are the readers' own."""
    for table in paper_tables().values():
        assert table.data in (inspect.signature(read_ssv2).parameters["name"].default, *EPIC_NAMES.values())
