"""Folds: each example is for validation exactly once, groups stay together, and all machines agree."""

from __future__ import annotations

import json
import pickle
import random
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import videos
import yaml
from hypothesis import given
from hypothesis import strategies as st

from horst.backbones import create_backbone
from horst.cli import main
from horst.data.batches import ClipDataset, Item
from horst.data.buckets import clip_lengths
from horst.data.cache import DiskCache
from horst.data.check import check_data
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig, Fold
from horst.data.example import Annotations, Example
from horst.data.extract import extract
from horst.data.features import open_features
from horst.data.folds import example_groups, refold
from horst.data.packed import Packed, group_by_media, read_each, write_packed
from horst.data.source import Source, open_source
from horst.errors import ConfigError, DataError, VideoError
from horst.studies.config import Study
from horst.studies.plan import plan
from horst.training.config import RunConfig

CLASSES = ("a", "b", "c")
COUNTS, SEEDS = st.integers(2, 6), st.integers(0, 99)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["train", "val", "test"]),
        st.sampled_from(["", "", "p", "q", "r"]),  # group
        st.integers(-1, 2),  # label, -1: nobody tells
        st.integers(0, 40),  # media
    ),
    min_size=1,
    max_size=60,
)


def made(rows: list[tuple[str, str, int, int]]) -> Annotations:
    examples = tuple(
        Example(
            id=str(i),
            split=split,
            media=Path(f"{media}.mp4"),
            labels={} if label < 0 else {"action": label},
            group=group,
        )
        for i, (split, group, label, media) in enumerate(rows)
    )
    return Annotations(name="n", task="recognition", examples=examples, classes={"action": CLASSES})


def singles(labels: list[int]) -> Annotations:
    return made([("train", "", label, i) for i, label in enumerate(labels)])


def splits(annotations: Annotations) -> dict[str, str]:
    """By id; in test there may be the same ones."""
    return {e.id: e.split for e in annotations.examples if e.split != "test"}


def numbers(annotations: Annotations, count: int, **options: Any) -> dict[str, int]:
    """The fold in which each example is for validation."""
    found: dict[str, int] = {}
    for index in range(count):
        for ident, split in splits(refold(annotations, count=count, index=index, **options)).items():
            if split == "val":
                assert ident not in found
                found[ident] = index
    return found


def groups(annotations: Annotations) -> list[set[str]]:
    """Ids of what belongs together: merged for as long as two sets have an example in common."""
    shared = defaultdict(set)
    for e in annotations.examples:
        if e.split != "test":
            shared[f"group {e.group}" if e.group else f"alone {e.id}"].add(e.id)
            shared[f"file {e.media}"].add(e.id)
    found: list[set[str]] = []
    for ids in shared.values():
        for other in [other for other in found if other & ids]:
            found.remove(other)
            ids |= other
        found.append(ids)
    return found


@given(ROWS, COUNTS, SEEDS)
def test_each_example_is_for_validation_once_and_groups_stay_together(rows: Any, count: int, seed: int) -> None:
    annotations = made(rows)
    together = groups(annotations)
    if len(together) < count:
        says = "no examples in train and val" if not together else f"{count} folds need {count} groups"
        with pytest.raises(ConfigError, match=says):
            refold(annotations, count=count, index=0, seed=seed)
        return
    found = numbers(annotations, count, seed=seed)
    assert set(found) == {e.id for e in annotations.examples if e.split != "test"}
    assert set(found.values()) == set(range(count))  # none is empty, so there is something to train on and to validate
    for members in together:
        assert len({found[ident] for ident in members}) == 1
    for index in range(count):
        again = refold(annotations, count=count, index=index, seed=seed)
        kept = [replace(e, split="train") if e.split == "val" else e for e in again.examples]
        assert kept == [replace(e, split="train") if e.split == "val" else e for e in annotations.examples]


@given(ROWS, COUNTS, SEEDS, st.randoms(use_true_random=False), st.booleans())
def test_folds_depend_only_on_the_examples(
    rows: Any, count: int, seed: int, chance: random.Random, by_group: bool
) -> None:
    annotations = made(rows)
    if len(groups(annotations)) < count:
        return
    found = numbers(annotations, count, seed=seed)
    moved = list(refold(annotations, count=count, index=chance.randrange(count), seed=seed).examples)
    chance.shuffle(moved)
    elsewhere = [replace(e, media=Path("elsewhere") / e.media) for e in moved]
    if by_group:  # what a packed data set tells of the same files
        elsewhere = [replace(e, media=Path("packed")) for e in group_by_media(elsewhere)]
    assert numbers(replace(annotations, examples=tuple(elsewhere)), count, seed=seed, by_media=not by_group) == found


@given(st.lists(st.integers(1, 30), min_size=6, max_size=40), COUNTS, SEEDS)
def test_sizes_differ_by_no_more_than_the_largest_group(sizes: list[int], count: int, seed: int) -> None:
    rows = [("train", str(group), 0, group) for group, size in enumerate(sizes) for _ in range(size)]
    held = Counter(numbers(made(rows), count, seed=seed).values())
    assert max(held.values()) - min(held.values()) <= max(sizes)


@given(st.integers(20, 80), st.lists(st.integers(0, 2), min_size=8, max_size=18), st.integers(3, 4), SEEDS)
def test_one_large_group_has_its_own_fold(large: int, labels: list[int], count: int, seed: int) -> None:
    """The others are dealt out to the folds that it leaves, evenly: none of them is nearly empty."""
    rows = [("train", "large", i % 3, 0) for i in range(large)]
    rows += [("train", "", label, 1 + i) for i, label in enumerate(labels)]
    found = numbers(made(rows), count, seed=seed)
    (own,) = {found[str(i)] for i in range(large)}
    others = Counter(found[str(large + i)] for i in range(len(labels)))
    assert others[own] == 0
    sizes = [others[fold] for fold in range(count) if fold != own]
    assert max(sizes) - min(sizes) <= 2


@given(st.lists(st.integers(0, 2), min_size=6, max_size=120), COUNTS, SEEDS)
def test_folds_of_single_clips_are_balanced(labels: list[int], count: int, seed: int) -> None:
    found = numbers(singles(labels), count, seed=seed)
    for label in (None, 0, 1, 2):
        held = Counter(fold for ident, fold in found.items() if label in (None, labels[int(ident)]))
        assert max(held.values(), default=0) - min(held[fold] for fold in range(count)) <= 2


def test_folds_of_groups_are_balanced() -> None:
    """Forty people, each with a habit: folds have the classes of the whole all the same."""
    rng = np.random.default_rng(0)
    rows = [("train", f"p{p}", int(c), p) for p in range(40) for c in rng.choice(3, 25, p=rng.dirichlet([0.5] * 3))]
    found, whole = numbers(made(rows), 5), Counter(row[2] for row in rows)
    for fold in range(5):
        held = Counter(rows[int(ident)][2] for ident, at in found.items() if at == fold)
        assert held.total() == 200
        assert all(abs(held[c] - whole[c] / 5) <= 0.05 * whole[c] for c in range(3))


def test_a_seed_makes_other_folds() -> None:
    annotations = singles([0, 1, 2] * 20)
    assert numbers(annotations, 5) == numbers(annotations, 5, seed=0) != numbers(annotations, 5, seed=1)


def test_a_file_stays_together_if_some_rows_have_a_group() -> None:
    """And so are the groups that a file holds: p, q and what is of their files are one; a test row ties nothing."""
    rows = [("train", *row) for row in (("p", 0, 0), ("", 0, 0), ("p", 0, 1), ("q", 0, 1), ("q", 0, 2), ("", 0, 2))]
    rows += [("train", "r", 0, 3), ("test", "q", 0, 3), ("train", "", 0, 4), ("test", "", 0, 4)]
    for by_media, examples in ((True, made(rows).examples), (False, tuple(group_by_media(made(rows).examples)))):
        found = numbers(replace(made(rows), examples=examples), 3, by_media=by_media)
        assert len({found[str(i)] for i in range(6)}) == 1
        assert sorted(found.values()) == sorted([found["0"]] * 6 + [found["6"], found["8"]])
        assert len({found["0"], found["6"], found["8"]}) == 3
    assert [e.group for e in examples] == ["p"] * 6 + ["r", "p", "4.mp4", "4.mp4"]


def test_videos_are_groups_by_default() -> None:
    rows = [("train", "", 0, 0) for _ in range(8)]
    flat = [replace(e, video=f"v{i % 4}") for i, e in enumerate(made(rows).examples)]  # frames of all in one folder
    found = numbers(replace(made(rows), examples=tuple(flat)), 2)
    assert all(found[str(i)] == found[str(i + 4)] for i in range(4))
    assert Counter(found.values()) == {0: 4, 1: 4}


def test_sets_of_validation_examples_are_dropped() -> None:
    """They were drawn up for another validation split; classes are what they were."""
    annotations = replace(
        singles([0, 1] * 4), example_sets={"unseen": frozenset("12")}, subsets={"many-shot action": frozenset({1})}
    )
    found = refold(annotations, count=2, index=0)
    assert (found.example_sets, found.subsets) == ({}, annotations.subsets)
    rest = {"examples": (), "example_sets": {}, "notices": ()}
    assert replace(found, **rest) == replace(annotations, **rest)  # type: ignore[arg-type]
    assert found.notices == ("sets of the original validation split are not evaluated with folds: unseen",)
    assert not refold(replace(annotations, example_sets={}), count=2, index=0).notices


def test_folds_by_absolute_paths_are_noticed(tmp_path: Path) -> None:
    annotations = singles([0, 1, 0, 1])
    there = tuple(replace(e, id=str(tmp_path / e.id)) for e in annotations.examples)
    (notice,) = refold(replace(annotations, examples=there), count=2, index=0).notices
    assert f"absolute paths ({there[0].id}): give relative paths or ids" in notice


def test_duplicate_ids_are_rejected() -> None:
    one, *others = singles([0] * 4).examples
    twice = replace(singles([0]), examples=(one, replace(one, split="val", media=Path("b.mp4")), *others))
    with pytest.raises(DataError, match="several examples of train and val have the id '0'"):
        refold(twice, count=2, index=0)
    assert refold(replace(twice, examples=(one, replace(one, split="test"), *others)), count=2, index=0)


@pytest.mark.parametrize(
    ("fold", "says"),
    [
        ({"count": 1}, "fold.count is 1; it takes a whole number from 2 on"),
        ({"count": 5, "index": 5}, "fold.index is 5; with 5 folds it is one of 0..4"),
        ({"count": 5, "index": -1}, "fold.index is -1"),
        ({"index": 1}, "fold needs the entry 'count'"),
        ({"count": 5, "indx": 1}, "fold has no entry 'indx', did you mean 'index'"),
        ({"count": 5, "seed": "x"}, "fold.seed is 'x'; it takes a whole number"),
        ({"count": 2.5}, "fold.count is 2.5; it takes a whole number"),
        (5, "fold is 5; it takes a mapping of count, index, seed"),
    ],
)
def test_invalid_folds(fold: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        DataConfig.from_dict({"source": "csv", "path": "clips.csv", "fold": fold})


FOLDS = st.integers(2, 9).flatmap(
    lambda count: st.builds(Fold, count=st.just(count), index=st.integers(0, count - 1), seed=SEEDS)
)


@given(st.none() | FOLDS)
def test_round_trip_of_a_config(fold: Fold | None) -> None:
    config = DataConfig(source="csv", options={"task": "recognition"}, fold=fold)
    assert DataConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert ("fold" in config.to_dict()) == (fold is not None)


def test_dotted_changes(tmp_path: Path) -> None:
    """On the command line of `horst train`, and as the folds of a study."""
    run = small_runs.plain(tmp_path / "made")
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    read = partial(RunConfig.from_file, tmp_path / "run.yaml")
    assert read().data.fold is None
    assert read(["data.fold.count=5", "data.fold.index=3"]).data.fold == Fold(count=5, index=3)
    assert read(["data.fold={count: 4, index: 1, seed: 2}", "data.fold.index=3"]).data.fold == Fold(
        count=4, index=3, seed=2
    )
    assert read(["data.fold={count: 4}", "data.fold=null"]).data.fold is None
    with pytest.raises(ConfigError, match=r"fold\.index is 5"):
        read(["data.fold={count: 5}", "data.fold.index=5"])
    run["data"]["fold"] = {"count": 3, "seed": 7}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    again = RunConfig.from_file(tmp_path / "run.yaml", ["data.fold.index=1"])
    (tmp_path / "kept.yaml").write_text(again.to_yaml())
    assert RunConfig.from_file(tmp_path / "kept.yaml").data.fold == Fold(count=3, index=1, seed=7)
    study = {
        "name": "try",
        "title": "A try",
        "question": "Does it fold?",
        "base": "run.yaml",
        "runs": [{"name": "one"}],
        "folds": [{"data.fold.index": k} for k in range(3)],
        "metrics": ["area"],
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    jobs = plan(Study.from_file(tmp_path / "study.yaml"), tmp_path / "study")
    assert [job.config.data.fold for job in jobs] == [Fold(count=3, index=k, seed=7) for k in range(3)]


SIZE = ClipConfig(size=(24, 32), fps=12)
PEOPLE = {"a": "p", "b": "p", "c": "q", "d": "q", "e": "r", "f": "", "g": "", "whole": ""}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven clips of 4, 5, ... frames, three parts of an eighth, a file that is bad, and a test clip."""
    folder = tmp_path_factory.mktemp("folds")
    rows = []
    for i, (name, group) in enumerate(PEOPLE.items()):
        videos.clip(folder / f"{name}.mp4", frames=36 if name == "whole" else 4 + i)
        for start in (0, 1, 2) if name == "whole" else (0,):
            end = start + 1 if name == "whole" else ""
            rows.append(f"{name}.mp4,{'val' if i % 3 else 'train'},{'xy'[i % 2]},{start},{end},{group}\n")
    (folder / "bad.mp4").write_text("no video")
    rows += ["bad.mp4,train,x,0,,\n", "a.mp4,test,x,0,,p\n"]
    (folder / "clips.csv").write_text("path,split,label,start,end,group\n" + "".join(rows))
    return folder / "clips.csv"


def folds(source: str, count: int, clip: ClipConfig = SIZE, **options: str) -> list[Source]:
    config = DataConfig(source=source, options=options, clip=clip)
    return [open_source(replace(config, fold=Fold(count=count, index=k))) for k in range(count)]


def read(source: Source) -> dict[str, tuple[str, int]]:
    """Split and number of the middle frame, by id, of what can be read; lengths agree with what was announced."""
    found = {}
    for split in ("train", "val", "test"):
        data, lengths = ClipDataset(source, split, SIZE), clip_lengths(source, split, SIZE)
        for i, example in enumerate(data.examples):
            item = data[i]
            assert isinstance(item, Item) == (example.media.name != "bad.mp4" and not example.id.startswith("bad"))
            if isinstance(item, Item):
                assert len(item.frames) == lengths[i]
                picture = np.asarray(item.frames[len(item.frames) // 2])
                found[f"{split == 'test'} {example.id}"] = split, videos.number_of(picture)
    return found


def test_packed_clips_have_the_same_folds(table: Path, tmp_path: Path) -> None:
    """Whatever holds the clips, the same ones come out, also of one file in parts, and bad ones stay to be counted."""
    source = open_source(DataConfig(source="csv", options={"path": str(table)}))
    write_packed(tmp_path / "packed", source.annotations, partial(read_each, source.read, SIZE), fps=12, processes=1)
    packed = Packed(tmp_path / "packed").annotations
    assert [e.group for e in packed.examples if e.id.startswith("whole")] == ["whole.mp4"] * 3  # one recording
    others = [(e.id, e.group) for e in source.annotations.examples if not e.id.startswith("whole")]
    assert others == [(e.id, e.group) for e in packed.examples if not e.id.startswith("whole")]
    plain, stored = folds("csv", 3, path=str(table)), folds("packed", 3, folder=str(tmp_path / "packed"))
    valid: list[str] = []
    for one, two in zip(plain, stored, strict=True):
        found = read(one)
        assert found == read(two)
        assert len(found) == 11
        assert len(one.annotations.examples) == 12
        valid += [e.id for e in one.annotations.examples if e.split == "val"]
        assert splits(one.annotations) == splits(two.annotations)
        people = defaultdict(set)
        for e in one.annotations.examples:
            people[e.group or e.media.name].add(e.split)
        assert all(len(found - {"test"}) == 1 for found in people.values())
        assert two.read(two.annotations.examples[0], SIZE).frames.shape == (4, 24, 32, 3)
        again = pickle.loads(pickle.dumps(two))  # as for a worker
        assert read(again) == found
    assert sorted(valid) == sorted(e.id for e in source.annotations.examples if e.split != "test")
    read_clips = partial(read_each, Packed(tmp_path / "packed").read, SIZE)
    write_packed(tmp_path / "again", packed, read_clips, fps=12, processes=1)
    assert [e.group for e in Packed(tmp_path / "again").annotations.examples] == [e.group for e in packed.examples]


def test_features_have_the_same_folds(table: Path, tmp_path: Path) -> None:
    config = DataConfig(source="csv", options={"path": str(table)}, clip=SIZE)
    extract(config, create_backbone("stem", widths=[4, 6]), tmp_path / "maps")
    stored = open_features(tmp_path / "maps")
    for one, two in zip(
        folds("csv", 3, path=str(table)), folds("features", 3, folder=str(tmp_path / "maps")), strict=True
    ):
        assert splits(one.annotations) == splits(two.annotations)
        two = pickle.loads(pickle.dumps(two))
        for moved, example in zip(two.annotations.examples, stored.annotations.examples, strict=True):
            if example.id.startswith("bad"):
                with pytest.raises(VideoError, match="when features were extracted"):
                    two.read(moved, SIZE)
            else:
                found = two.read(moved, SIZE)
                assert isinstance(found, type(stored.read(example, SIZE)))
                np.testing.assert_array_equal(found.frames, stored.read(example, SIZE).frames)
        for split in ("train", "val"):
            assert clip_lengths(two, split, SIZE).tolist() == clip_lengths(one, split, SIZE).tolist()


def test_a_check_uses_the_folds(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = folds("csv", 3, path=str(table))[1]
    found = check_data(source, depth="files")
    assert found.counts == source.annotations.counts()
    assert not [what for what, where in found.overlap if where == "train, val"]
    (tmp_path / "data.yaml").write_text(f"source: csv\npath: {table}\nfold: {{count: 3, index: 1}}\n")
    assert main(["data", "check", str(tmp_path / "data.yaml"), "--depth", "files", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == found.counts
    (tmp_path / "data.yaml").write_text(f"source: csv\npath: {table}\nfold: {{count: 30}}\n")
    assert main(["data", "check", str(tmp_path / "data.yaml")]) != 0
    assert "30 folds need 30 groups" in capsys.readouterr().err


def test_a_clip_is_cached_once_for_all_folds(table: Path, tmp_path: Path) -> None:
    for source in folds("csv", 3, path=str(table)):
        cached = DiskCache(source.read, tmp_path, data="x")
        for example in source.annotations.examples:
            if not example.id.startswith("bad"):
                wanted = source.read(example, SIZE)
                np.testing.assert_array_equal(cached.read(example, SIZE).frames, wanted.frames)
    assert len(list(tmp_path.glob("*/*.npy"))) == 10  # that of the test split is one of them


def test_equal_ids_in_two_splits_have_separate_cache_entries(tmp_path: Path) -> None:
    """Packed clips have one folder, so that nothing but the split tells these two apart."""
    for name, frames in (("a", 5), ("b", 9)):
        videos.clip(tmp_path / f"{name}.mp4", frames=frames)
    (tmp_path / "clips.csv").write_text("id,path,split,label\n1,a.mp4,train,x\n1,b.mp4,val,x\n")
    source = open_source(DataConfig(source="csv", options={"path": str(tmp_path / "clips.csv")}))
    write_packed(tmp_path / "packed", source.annotations, partial(read_each, source.read, SIZE), fps=12, processes=1)
    packed = Packed(tmp_path / "packed")
    cached = DiskCache(packed.read, tmp_path / "cache", data="x")
    for _ in range(2):
        assert [len(cached.read(example, SIZE).frames) for example in packed.annotations.examples] == [5, 9]


def test_packed_sets_of_older_versions_are_read(table: Path, tmp_path: Path) -> None:
    """They name no group where several clips are of one file; then each stands for itself."""
    source = open_source(DataConfig(source="csv", options={"path": str(table)}))
    write_packed(tmp_path / "p", source.annotations, partial(read_each, source.read, SIZE), fps=12, processes=1)
    shard = tmp_path / "p" / "shard-00000.json"
    old = json.loads(shard.read_text().replace('"group": "whole.mp4"', '"group": ""'))
    shard.write_text(json.dumps({"clips": [{k: v for k, v in clip.items() if k != "crc32"} for clip in old["clips"]]}))
    found = numbers(Packed(tmp_path / "p").annotations, 3, by_media=False)
    assert len(found) == 11
    assert len({fold for ident, fold in found.items() if ident.startswith("whole")}) > 1


def test_groups_of_examples() -> None:
    """Recognition: what folds keep together. Anticipation: the video, and the group of examples without one."""
    rows = [("b", "run1", "", "x"), ("a", "run1", "", "y"), ("c", "", "", "y"), ("d", "", "v", "z"), ("e", "", "", "z")]
    examples = tuple(
        Example(id=ident, split="val", media=Path(media), labels={}, group=group, video=video)
        for ident, group, video, media in rows
    )
    given = Annotations(name="n", task="recognition", examples=examples, classes={"action": CLASSES})
    assert example_groups(given) == ("a", "a", "a", "d", "e")
    assert example_groups(given, by_media=False) == ("a", "a", "c", "d", "e")
    named = tuple(replace(e, video="v" if e.id in "ad" else "") for e in examples)
    assert example_groups(replace(given, examples=named)) == ("a", "a", "c", "a", "e")  # linked through the group
    assert example_groups(replace(given, task="anticipation", examples=named)) == ("b", "a", "c", "a", "e")
