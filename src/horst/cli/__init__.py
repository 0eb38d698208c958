"""The command line. Each command is a function: the signature is its options, the docstring its help.

Command files import torch and what needs it inside of functions, so that `horst --help` and completion are quick.
"""

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from cyclopts import App, ArgumentCollection, CoercionError, CycloptsError, Parameter, UnusedCliTokensError

from horst import __version__
from horst.cli import data, demo, evaluate, export, fuse, models, predict, serve, study, train
from horst.console import visible
from horst.errors import HorstError
from horst.threads import prepare_threads


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the completion script of a shell: eval "$(horst completion bash)".

    Args:
        shell: Put the line above into ~/.bashrc; with zsh into ~/.zshrc, after compinit.
    """
    script = create_app().generate_completion(shell=shell)
    # Files too where the script knows no completion, as after `horst predict kitchen`, which is a command elsewhere.
    print(script.replace("complete -F _horst", "complete -o default -F _horst"))


COMMANDS: tuple[Callable[..., None], ...] = (
    demo.demo, train.train, evaluate.evaluate, predict.predict, serve.serve, train.teach, evaluate.report,
    evaluate.table, fuse.fuse, study.study, models.models, train.configs, models.info, export.export, data.extract,
    data.convert, completion,
)  # fmt: skip
"""In the order of `horst --help`. `data` has commands of its own."""


def _check_tokens(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """What cyclopts would take for something else: 1.5 for a whole number, `--trainer.epochs` for a nested value."""
    for argument in arguments:
        if argument.field_info.kind is argument.field_info.VAR_KEYWORD:
            argument.tokens = [token.evolve(keys=(".".join(token.keys),)) for token in argument.tokens]
        hint = argument.resolved_hint
        for token in argument.tokens if int in (hint, *get_args(hint)) else ():
            if not re.fullmatch(r"[+-]?\d+", token.value):
                raise CoercionError(token=token, argument=argument, target_type=int)


def create_app() -> App:
    """The commands of `horst`."""
    app = App(
        name="horst",
        help="Predict human actions from video while they unfold.",
        help_format="plaintext",
        version=f"horst {__version__}",
        group_parameters="Options",
        default_parameter=Parameter(negative=()),
        config=_check_tokens,
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    for place, command in enumerate(COMMANDS):
        app.command(command, sort_key=place)
    sets = App(name="data", help="Make, check and pack data sets.", sort_key=len(COMMANDS))
    make = App(name="make", help="Make a synthetic data set.")
    app.command(sets)
    sets.command(make)
    make.command(data.make_somethings, name="somethings")
    make.command(data.make_kitchen, name="kitchen")
    sets.command(data.check)
    sets.command(data.pack)
    return app


def main(args: Sequence[str] | None = None) -> int:
    """Run one command. An error that the package raises on purpose becomes one line on stderr and exit status 2."""
    prepare_threads()
    try:
        create_app()(sys.argv[1:] if args is None else args)
    except UnusedCliTokensError as error:
        return _refuse(f"unexpected arguments: {' '.join(error.unused_tokens or ())}")
    except (HorstError, CycloptsError) as error:
        return _refuse(str(error))
    except BrokenPipeError:  # the reader of a pipe has enough: `horst table runs/* | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush at exit
        return 141
    except OSError as error:  # a full disk, a folder that cannot be written
        if error.errno is None or error.strerror is None:
            raise
        named = f"{error.filename}: " if error.filename is not None else ""
        return _refuse(f"{named}{error.strerror}")
    except KeyboardInterrupt:
        return 130
    return 0


def _refuse(message: str) -> int:
    print(f"horst: {visible(message, lines=False)}", file=sys.stderr)
    return 2
