"""`horst configs`."""

from pathlib import Path

from horst.console import Console
from horst.errors import ConfigError, did_you_mean


def configs(pattern: str = "*", /, *, copy: Path | None = None) -> None:
    """List the packaged configs, which `horst train` and `horst study` take by name, or copy them for editing.

    Args:
        pattern: Names to list, such as 'somethings/*'.
        copy: Copy them into this folder, with the files that they are based on.
    """
    from horst.configs import copy_configs, list_configs

    names = list_configs(pattern)
    if not names:
        raise ConfigError(f"no packaged config matches {pattern!r}{did_you_mean(pattern, list_configs())}")
    for name in names if copy is None else copy_configs(pattern, copy):
        Console(highlight=False).print(str(name))
