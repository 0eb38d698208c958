"""Registries: names, decorators, lazy imports and checked options."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from horst.errors import ConfigError
from horst.registry import Registry, _import_environment, import_file


class Box:
    def __init__(self, width: int, *, kind: Literal["open", "closed"] = "open", lid: float | None = None) -> None:
        self.made = (width, kind, lid)


def boxes(**options: Any) -> Registry[type[Box]]:
    return Registry("box", {"plain": Box, "lazy": "collections:OrderedDict"}, **options)


def test_objects_by_name() -> None:
    table = boxes()
    assert table["plain"] is Box
    assert table["lazy"].__name__ == "OrderedDict"
    assert list(table) == ["plain", "lazy"]
    assert "plain" in table
    assert "collections:deque" not in table
    assert table.get("other") is None
    with pytest.raises(ConfigError, match=r"there is no box 'plian', did you mean 'plain'\? There are: plain, lazy\."):
        table["plian"]


def test_decorator_adds_a_name_once() -> None:
    table = boxes()

    @table.register("mine")
    class Mine(Box):
        pass

    assert table["mine"] is Mine
    table.register("mine")(Mine)
    with pytest.raises(ConfigError, match="there is a box 'mine' already"):
        table.register("mine")(Box)


def test_options_are_checked_before_anything_is_made() -> None:
    table = boxes()
    assert table.create("plain", 3, kind="closed", lid=1).made == (3, "closed", 1)
    for options, says in (
        ({"knid": "open"}, "box 'plain' has no option 'knid', did you mean 'kind', 'lid'?"),
        (
            {"kind": "opn"},
            "option 'kind' of box 'plain' is 'opn'; choose from 'open', 'closed', did you mean 'open'?",
        ),
        ({"lid": "high"}, "option 'lid' of box 'plain' is 'high'; it takes a number"),
    ):
        with pytest.raises(ConfigError) as caught:
            table.create("plain", 3, **options)
        assert str(caught.value) == says
    with pytest.raises(ConfigError, match="box 'plain' needs the option 'width'"):
        table.create("plain")


def test_import_paths_only_where_they_are_allowed() -> None:
    with pytest.raises(ConfigError, match="there is no box"):
        boxes()["collections:deque"]
    table = boxes(import_paths=True)
    assert table["collections:deque"].__name__ == "deque"
    for path in ("collections:nothing", "no_such_package_anywhere:Box"):
        with pytest.raises(ConfigError, match=f"the box '{path}' cannot be imported"):
            table[path]


def test_files_are_imported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "parts.py"
    file.write_text("import collections\ncollections.imported = getattr(collections, 'imported', 0) + 1\n")
    import collections

    for _ in range(2):
        import_file(str(file))
    assert collections.imported == 1  # type: ignore[attr-defined]
    del collections.imported  # type: ignore[attr-defined]
    for name, text in (("missing.py", None), ("broken.py", "def"), ("no_such_module", None)):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError, match=f"{name} cannot be imported"):
            import_file(str(tmp_path / name) if name.endswith(".py") else name)


def test_unknown_names_are_looked_for_in_the_files_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = boxes()
    monkeypatch.setattr("horst.registry.table_of_the_test", table, raising=False)
    (tmp_path / "more.py").write_text("from horst import registry\nregistry.table_of_the_test.register('more')(dict)\n")
    monkeypatch.setenv("HORST_IMPORTS", str(tmp_path / "more.py"))
    _import_environment.cache_clear()
    assert "more" not in table
    assert table.get("more") is dict
    assert table["more"] is dict
    _import_environment.cache_clear()
