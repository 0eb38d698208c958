"""`horst completion`."""

from __future__ import annotations

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the completion script of a shell: eval "$(horst completion bash)".

    Args:
        shell: Put the line above into ~/.bashrc; with zsh into ~/.zshrc, after compinit.
    """
    from horst.cli import create_app

    print(create_app().generate_completion(shell=shell))
