"""Storages around a storage: one that asks again when it gets no answer, one that refuses to write.

Both stand for every method of Optuna's interface, so that samplers, pruners and the dashboard work through them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optuna.storages import BaseStorage

from tune.errors import TuneError
from tune.storage import Place, asked_again

_WRITES = ("create_", "delete_", "set_")


class _Around(BaseStorage):
    """Hands every call on to `_pass`; subclasses decide what that does."""

    _inner: Any

    def _pass(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return getattr(self._inner, name)(*arguments, **options)


def _handed_on(name: str) -> Callable[..., Any]:
    def method(self: _Around, *arguments: Any, **options: Any) -> Any:
        return self._pass(name, arguments, options)

    method.__name__ = name
    return method


for _name, _member in vars(BaseStorage).items():
    if callable(_member) and not _name.startswith("_"):
        setattr(_Around, _name, _handed_on(_name))
_Around.__abstractmethods__ = frozenset()


class Patient(_Around):
    """Asks again for a while, then raises StorageUnreachable."""

    def __init__(self, inner: Any, place: Place, patience: float) -> None:
        self._inner = inner
        self.place = place
        self._patience = patience

    def _pass(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return asked_again(lambda: getattr(self._inner, name)(*arguments, **options), self.place, self._patience)


class Refused(TuneError):
    """Something tried to write through a storage that is open for reading."""


class ReadOnly(_Around):
    """Raises Refused instead of writing."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def _pass(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if name.startswith(_WRITES):
            raise Refused("this storage is open for reading alone")
        return super()._pass(name, arguments, options)
