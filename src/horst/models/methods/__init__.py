"""The methods: HORST and those that the paper compares it with.

A file has equations, a core or a head, the models for each data set, and the method's card, registered by decorators.
Every file of this folder is imported. docs/reference/methods.md lists references and differences from the papers' code.

Shapes, unless a file has others: B batch, T frames, C channels, H x W map, N frames of a window.
"""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
