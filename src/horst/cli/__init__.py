"""The command line. `horst --help` must not wait for torch: nothing here imports it before a command runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from inspect import signature
from typing import Any

from horst.cli.commands import COMMANDS
from horst.errors import HorstError


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; an error that the package raises on purpose becomes one line and exit status 2."""
    from jsonargparse import auto_cli

    from horst import __version__

    try:
        auto_cli(
            dict(COMMANDS),
            args=_expand_switches(sys.argv[1:] if args is None else args),
            prog="horst",
            version=__version__,
            description="Predict human actions from video while they unfold.",
        )
    except HorstError as error:
        print(f"horst: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _expand_switches(args: Sequence[str]) -> list[str]:
    """`--json` as short for `--json true`, for options that are off by default."""
    command: Any = COMMANDS
    for word in args:
        if isinstance(command, dict) and word in command:
            command = command[word]
    if not callable(command):
        return list(args)
    switches = {f"--{p.name}" for p in signature(command).parameters.values() if p.default is False}
    after = [*args[1:], ""]
    return [f"{a}=true" if a in switches and after[i] not in ("true", "false") else a for i, a in enumerate(args)]
