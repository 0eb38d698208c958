"""Triton's interpreter, a fifth faster.

At each call of a function within a kernel it looks through all members of its language for builtins that are not
replaced yet. Which names are builtins does not change, so they are looked for once.
"""

from __future__ import annotations

import inspect
import os
from functools import cache
from typing import Any


def install() -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        from triton.language.core import is_builtin
        from triton.runtime import interpreter
    except ImportError:  # other tests need no Triton
        return

    @cache
    def builtins(package: Any) -> list[str]:
        return [name for name, member in inspect.getmembers(package) if is_builtin(member)]

    def patch_builtins(package: Any, builder: Any, scope: Any) -> None:
        for name in builtins(package):
            member = getattr(package, name)
            if is_builtin(member):  # not replaced yet
                interpreter._patch_attr(package, name, member, builder, scope)

    interpreter._patch_builtin = patch_builtins
