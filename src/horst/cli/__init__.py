"""The command line. `horst --help` must not wait for torch: nothing here imports it before a command runs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

from horst.cli.commands import COMMANDS
from horst.errors import ConfigError, HorstError


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; an error that the package raises on purpose becomes one line and exit status 2."""
    from jsonargparse import auto_cli

    from horst import __version__

    try:
        auto_cli(
            dict(COMMANDS),
            args=_expand(sys.argv[1:] if args is None else args),
            prog="horst",
            version=__version__,
            description="Predict human actions from video while they unfold.",
        )
    except HorstError as error:
        return _refused(str(error))
    except BrokenPipeError:  # the reader of a pipe has enough: `horst table runs/* | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush at exit
        return 141
    except OSError as error:  # a disk that is full, a folder that cannot be written
        if error.errno is None or error.strerror is None:
            raise
        named = f"{error.filename}: " if error.filename is not None else ""
        return _refused(f"{named}{error.strerror}")
    except KeyboardInterrupt:
        return 130
    return 0


def _refused(message: str) -> int:
    from horst.console import visible

    print(f"horst: {visible(message, lines=False)}", file=sys.stderr)
    return 2


def _expand(args: Sequence[str]) -> list[str]:
    """What jsonargparse has no words for: `--json` for `--json true`, lists of places, entries of a run's config."""
    command: Any = COMMANDS
    words = 0
    for word in args:
        if not isinstance(command, dict) or word not in command:
            break
        command, words = command[word], words + 1
    if not callable(command):
        return list(args)
    head, rest = list(args[:words]), list(args[words:])
    parameters = signature(command).parameters
    switches = {f"--{p.name}" for p in parameters.values() if p.default is False}
    after = [*rest[1:], ""]
    rest = [f"{a}=true" if a in switches and after[i] not in ("true", "false") else a for i, a in enumerate(rest)]
    for name in ("model", "method"):
        if name in parameters and parameters[name].default is not Parameter.empty and rest and rest[0][:1] != "-":
            rest = [f"--{name}={rest[0]}", *rest[1:]]  # optional, and yet written without its name
    if not rest and command is COMMANDS["study"]:
        return [*head, "[]"]  # all that there are
    if "set" in parameters:
        lists = {f"--{p.name}": p.annotation for p in parameters.values() if str(p.annotation).startswith("list[")}
        rest = _collect_lists(rest, lists)
        rest = _collect_entries(rest, [f"--{name}" for name in parameters], first=next(iter(parameters)))
    if str(next((p.annotation for p in parameters.values()), "")).startswith("list["):
        rest = _collect_places(rest)
    return head + rest


def _collect_lists(args: list[str], lists: Mapping[str, str]) -> list[str]:
    """`--seeds 0 1` and `--seeds 0,1` as the list that they are; `lists` has the types of such options."""
    kept: list[str] = []
    words = list(args)
    while words:
        name, equals, value = words.pop(0).partition("=")
        if name not in lists or value.startswith("["):
            kept.append(name + equals + value)
            continue
        found = [value] if equals else []
        while words and not equals and not re.match(r"-(?!\d)", words[0]):  # -1 is a value, if a wrong one
            found.append(words.pop(0))
        if name != "--set":  # whose values may hold commas
            found = [part for word in found for part in word.split(",") if part]
        if not found:  # an empty list would mean all
            raise ConfigError(f"{name} needs a value; leave it out for what it is by default")
        if not lists[name].startswith("list[int]"):
            kept.append(f"{name}={json.dumps(found)}")
            continue
        if wrong := [word for word in found if not word.isdecimal()]:
            says = f"{name} takes whole numbers from 0 on, such as {name} 0 1, and not {wrong[0]!r}"
            first = f"; if that is the study's name, put it first: horst study {wrong[0]} {name} ..."
            trailing = wrong == found[-1:] and not equals and args[0].startswith("-")
            raise ConfigError(says + (first if trailing else ""))
        kept.append(f"{name}={json.dumps([int(word) for word in found])}")
    return kept


def _collect_entries(args: list[str], own: list[str], first: str) -> list[str]:
    """`--trainer.epochs 3` and `--trainer.epochs=3`, of whatever the command has no option for itself, as --set."""
    kept: list[str] = []
    entries: list[str] = []
    named = first == "run"
    words = iter(args)
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--set" and value.startswith("["):
            entries += json.loads(value)
        elif not word.startswith("-") and first == "run" and not any(a.startswith("--run=") for a in kept):
            kept.append(f"--run={word}")  # optional, as a run that is resumed needs none
        elif not word.startswith("-"):
            kept.append(word)  # one too many is refused
            named = True
        elif name in (*own, "-h", "--help"):
            value = "" if equals or name not in own else next(words, "")
            kept.append(f"{word}={value}" if value else word)
        else:
            entries.append(f"{name[2:]}={value if equals else next(words, '')}")
    if not named and not {"-h", "--help"} & set(kept):  # it may have been taken for the last of a list
        raise ConfigError(f"put the {first}'s name first: horst {first} NAME {args[0].partition('=')[0]} ...")
    return [*kept, f"--set={json.dumps(entries)}"] if entries else kept


def _collect_places(args: list[str]) -> list[str]:
    """Several folders as the list that they are."""
    places = [a for a in args if not a.startswith("-")]
    return [json.dumps(places), *(a for a in args if a.startswith("-"))] if places else args
