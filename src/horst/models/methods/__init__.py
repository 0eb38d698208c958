"""The methods: HORST and those that the paper compares it with; docs/reference/methods.md describes them.

A file defines a core or a head, the models for each data set, and the method's card, all registered by decorators.
Every file of this folder is imported, so a new method is one new file.
"""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
