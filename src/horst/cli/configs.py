"""`horst configs`."""

from __future__ import annotations

from pathlib import Path

from horst.console import Console


def configs(pattern: str = "*", /, *, copy: Path | None = None) -> None:
    """List the packaged configs, which `horst train NAME` takes, or copy them.

    Args:
        pattern: Names to list, such as 'somethings/*'.
        copy: Copy them into this folder.
    """
    from horst.configs import copy_configs, list_configs

    for name in list_configs(pattern) if copy is None else copy_configs(pattern, copy):
        Console().print(str(name), highlight=False)
