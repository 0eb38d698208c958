"""The methods: HORST and those that the paper compares it with.

A file defines a core or a head, the models for each data set, and the method's card, all registered by decorators.
Every file of this folder is imported, so a new method is one new file. docs/reference/methods.md compares them.
"""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
