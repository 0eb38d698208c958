"""`horst completion`."""

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the completion script of a shell: eval "$(horst completion bash)".

    Args:
        shell: Put the line above into ~/.bashrc; with zsh into ~/.zshrc, after compinit.
    """
    from horst.cli import create_app

    script = create_app().generate_completion(shell=shell)
    # Files too where the script knows no completion, as after `horst predict kitchen`, which is a command elsewhere.
    print(script.replace("complete -F _horst", "complete -o default -F _horst"))
