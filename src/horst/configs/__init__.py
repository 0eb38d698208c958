"""The run and study files that come with the package, by name: "somethings/cpu", "studies/table1". Needs no torch.

    somethings, kitchen   synthetic data, which a run makes when it starts
    ssv2, ek55, ek100     the rows of the paper
    cad120                real people, on stored feature maps
    thumos14, 50salads, egtea   public features of every frame, in the layouts of LSTR, MS-TCN and RULSTM
    own                   your own videos
    studies               grids of runs
    bases                 what several runs share

A file may be given wherever a name is. Relative paths in packaged files are relative to the current directory; in all
other files they are relative to the file.
"""

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from horst.config import read_yaml
from horst.errors import ConfigError, did_you_mean
from horst.io import write_text

FOLDER = Path(__file__).resolve().parent
OWN_STUDIES = Path("configs") / "studies"  # in the current directory: studies of one's own that are found by name


def list_configs(pattern: str = "*") -> list[str]:
    """The names that match a pattern such as "kitchen/*"; bases, which are not complete, are left out."""
    return [name for name in _names() if fnmatchcase(name, pattern) and not name.startswith("bases/")]


def described(name: str) -> str:
    """What a packaged config is for: the first sentence of the comment at its top."""
    text = ""
    for line in find_config(name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        text += line[1:]
    return re.split(r"\.(?:\s|$)", text.strip())[0]


def find_config(name: str | Path, folder: str = "") -> Path:
    """The file of a config: a path that exists, or else a packaged name, with or without "configs/" and ".yaml".

    A name may also be in `folder`: "studies" finds "table1".
    """
    if Path(name).is_file():
        return Path(name)
    wanted = Path(name).as_posix().removeprefix("configs/").removesuffix(".yaml")
    names = _names()
    for known in (wanted, f"{folder}/{wanted}"):
        if known in names:
            return FOLDER / f"{known}.yaml"
    close = did_you_mean(wanted, [one.removeprefix(f"{folder}/") for one in names if one.startswith(folder)])
    raise ConfigError(f"{name}: there is no such file and no packaged config of that name{close}")


def find_study(name: str | Path) -> Path:
    """The file of a study: a path, a name in ./configs/studies, or a packaged name."""
    own = OWN_STUDIES / f"{name}.yaml"
    return own if own.is_file() else find_config(name, "studies")


def config_name(path: str | Path) -> str:
    """The packaged name of a file, or the path of any other file."""
    found = Path(path).resolve()
    return found.relative_to(FOLDER).with_suffix("").as_posix() if FOLDER in found.parents else str(path)


def path_root(path: Path) -> Path:
    """The folder that relative paths in a config file are relative to."""
    return Path() if FOLDER in path.resolve().parents else path.parent


def find_base(base: str, path: Path) -> Path:
    """The file that `base:` in the file `path` names: relative to that file, or a packaged name."""
    beside = path.parent / base
    return beside if beside.is_file() else find_config(base)


def copy_configs(pattern: str, folder: str | Path) -> list[Path]:
    """Copy the configs that match a pattern, and the files that they are based on, for editing.

    The copies refer to the same data as the originals do from the current directory. No other file is overwritten.
    """
    names = list_configs(pattern)
    if not names:
        raise ConfigError(f"no packaged config matches {pattern!r}{did_you_mean(pattern, list_configs())}")
    texts: dict[Path, str] = {}
    for file in sorted({file for name in names for file in _with_bases(FOLDER / f"{name}.yaml")}):
        target = Path(folder) / file.relative_to(FOLDER)
        up = Path(os.path.relpath(Path.cwd(), target.parent.absolute())).as_posix()
        texts[target] = re.sub(r"(: )((?:runs|data)/)", rf"\1{up}/\2", file.read_text(encoding="utf-8"))
        if target.exists() and target.read_text(encoding="utf-8") != texts[target]:
            raise ConfigError(f"{target} exists: delete it or choose another folder")
    for target, text in texts.items():
        write_text(target, text)
    return list(texts)


@cache
def _names() -> list[str]:
    return sorted(file.relative_to(FOLDER).with_suffix("").as_posix() for file in FOLDER.rglob("*.yaml"))


def _with_bases(file: Path) -> Iterator[Path]:
    """A packaged file, and all that it is based on."""
    yield file
    data = read_yaml(file)
    for base in (data.get("base"), data.get("videos"), *(run.get("config") for run in data.get("runs", ()))):
        if base is not None:
            yield from _with_bases((file.parent / base).resolve())
