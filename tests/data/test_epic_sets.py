"""Sets of EPIC-Kitchens with their own metrics, from the official lists and from RULSTM's."""

from __future__ import annotations

from pathlib import Path

import pytest

from horst.data.example import Example
from horst.data.readers.epic import ek100_sets, many_shot_classes, read_ids
from horst.errors import DataError

PARTS = ((0, 0), (0, 1), (1, 1), (1, 2), (2, 2))
SEGMENTS = [
    Example(id=f"s{i}", split="val", media=Path("x"), labels={"verb": v, "noun": n, "action": i}, group=f"P0{i % 2}")
    for i, (v, n) in enumerate(PARTS)
]
OFFICIAL = {
    "EPIC_100_unseen_participant_ids_validation.csv": "participant_id\nP01\nP09\n",
    "EPIC_100_tail_verbs.csv": "verb\n2\n",
    "EPIC_100_tail_nouns.csv": "noun\n0\n",
}
RULSTM = {
    "validation_unseen_participants_ids.csv": "s1\ns3\n",
    "validation_tail_verbs_ids.csv": "s4\n\n",
    "validation_tail_nouns_ids.csv": " s0 \n",
    "validation_tail_actions_ids.csv": "s0\ns2\n",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize("files", [OFFICIAL, RULSTM])
def test_sets_of_ek100(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)
    actions = {"s0", "s4"} if files is OFFICIAL else {"s0", "s2"}
    expected = {"unseen": {"s1", "s3"}, "tail verb": {"s4"}, "tail noun": {"s0"}, "tail action": actions}
    assert ek100_sets(tmp_path, SEGMENTS) == (expected, ())


def test_official_lists_are_preferred_to_rulstms(tmp_path: Path) -> None:
    write(tmp_path, OFFICIAL | RULSTM)
    assert ek100_sets(tmp_path, SEGMENTS)[0]["tail action"] == {"s0", "s4"}
    (tmp_path / "EPIC_100_tail_nouns.csv").unlink()
    assert ek100_sets(tmp_path, SEGMENTS)[0]["tail action"] == {"s0", "s2"}


@pytest.mark.parametrize("files", [OFFICIAL, RULSTM])
def test_a_missing_list_is_named(tmp_path: Path, files: dict[str, str]) -> None:
    for gone in files:
        write(tmp_path, files)
        (tmp_path / gone).unlink()
        sets, (notice,) = ek100_sets(tmp_path, SEGMENTS)
        what = "unseen" if "unseen" in gone else "tail"
        left = {"tail verb", "tail noun", "tail action"} if what == "unseen" else {"unseen"}
        assert set(sets) == left
        assert f"There will be no {what} metrics: {tmp_path} lacks EPIC_100_{what}" in notice
        assert "epic-kitchens-100-annotations" in notice
        if files is OFFICIAL:
            assert [name in notice for name in files] == [name == gone for name in files]
    for path in tmp_path.iterdir():
        path.unlink()
    sets, notices = ek100_sets(tmp_path, SEGMENTS)
    assert sets == {}
    assert [" and " in notice for notice in notices] == [False, True]
    assert ek100_sets(tmp_path, []) == ({}, ())


def test_ids_of_other_annotations_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "ids.csv").write_text("s0\n\ns9\n")
    with pytest.raises(DataError, match=r"ids\.csv, line 3: there is no validation segment 's9'"):
        read_ids(tmp_path / "ids.csv", SEGMENTS)


def test_many_shot_classes_of_ek55(tmp_path: Path) -> None:
    files = {
        "EPIC_many_shot_verbs.csv": "verb_class,verb\n1,put\n",
        "EPIC_many_shot_nouns.csv": "noun_class,noun\n0,tap\n7,cup\n",
        "EPIC_many_shot_actions.csv": "verb_class,noun_class\n1,2\n0,1\n5,5\n",
    }
    write(tmp_path, files)
    lists = {"many-shot verb": {1}, "many-shot noun": {0, 7}}
    assert many_shot_classes(tmp_path, PARTS, "rulstm") == ({**lists, "many-shot action": {0, 2, 3}}, ())
    assert many_shot_classes(tmp_path, PARTS, "official") == ({**lists, "many-shot action": {1, 3}}, ())
    for gone in reversed(files):
        (tmp_path / gone).unlink()
        found, notices = many_shot_classes(tmp_path, PARTS, "official")
        assert found == {}
        assert f"There will be no many-shot metrics: {tmp_path} lacks " in notices[0]
        assert gone in notices[0]
        assert "epic-kitchens-55-annotations" in notices[0]
        told = many_shot_classes(tmp_path, PARTS, "rulstm")
        assert (told[1] == ()) == ("actions" in gone)
        assert not any("actions.csv" in notice for notice in told[1])
