"""The registry of a whole installation: built-in stages, tasks and sources, and those that entry points add."""

from __future__ import annotations

from compress.recipe.registry import Registry


def installed_registry() -> Registry:
    """Built-ins and entry points. Modules are imported when a name is first looked up; imports no framework.

    Raises EnvironmentProblem on a name that two distributions claim, and, on lookup, for one that cannot be imported.
    """
    raise NotImplementedError
