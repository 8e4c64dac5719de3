"""Variants as JSON and back. Paths are kept relative to the stored result, so that a store can be moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from compress.errors import StageError
from compress.models.variant import FileVariant, Proof, TorchVariant, Variant

_KINDS: dict[str, type[Variant]] = {"torch": TorchVariant, "file": FileVariant, "proof": Proof}
_PATHS = {"torch": "directory", "file": "path", "proof": "directory"}


def kind_of(variant: Variant) -> str:
    """`torch`, `file` or `proof`."""
    return next(kind for kind, cls in _KINDS.items() if isinstance(variant, cls))


def location(variant: Variant) -> Path:
    """The file or folder that holds the variant."""
    return variant.path if isinstance(variant, FileVariant) else variant.directory


def to_json(variant: Variant, folder: Path) -> dict[str, Any]:
    """A JSON-able record of a variant whose files lie below `folder`.

    A file variant's parent lies in another result: it is kept by name and digest, and found again among the parents
    of the stage. Raises StageError when the files lie elsewhere, are missing, or when `notes` are not JSON-able.
    """
    kind = kind_of(variant)
    name = _PATHS[kind]
    excluded = {"parent"} if isinstance(variant, FileVariant) else set()
    try:
        record: dict[str, Any] = _adapter(kind).dump_python(variant, mode="json", exclude=excluded)
    except Exception as error:  # pydantic_core's error, or what a foreign type in `notes` raises
        raise StageError(f"the variant '{variant.name}' cannot be written as JSON: {error}") from error
    record[name] = _relative(variant, folder)
    if isinstance(variant, FileVariant):
        record["parent"] = {"name": variant.parent.name, "digest": variant.parent.digest}
    return {"kind": kind, **record}


def from_json(record: dict[str, Any], folder: Path, known: Iterable[Variant]) -> Variant:
    """The variant of a record, with its files below `folder`; `known` are the variants that the stage was given.

    Raises ValueError or KeyError when the record does not fit this version.
    """
    fields = dict(record)
    kind = fields.pop("kind")
    name = _PATHS[kind]
    fields[name] = folder / PurePosixPath(fields[name])
    if kind == "file":
        fields["parent"] = _find_parent(fields["parent"], known)
    return _adapter(kind).validate_python(fields)


def identity(variant: Variant) -> dict[str, Any]:
    """What of a parent counts in the key of a stage: content, interface, name and scores, but not where it lies.

    `notes` don't count: they may hold durations, and a parent that came out equal must not make its children new.
    """
    record: dict[str, Any] = {
        "kind": kind_of(variant),
        "name": variant.name,
        "digest": variant.digest,
        "lineage": list(variant.lineage),
    }
    if isinstance(variant, Proof):
        return record
    record["contract"] = _contract_adapter().dump_python(variant.contract, mode="json")
    if isinstance(variant, TorchVariant):
        record["validation"] = dict(variant.validation)
    else:
        record |= {
            "format": variant.format,
            "precision": variant.precision,
            "scheme": variant.scheme,
            "parent": identity(variant.parent),
        }
    return record


def torch_variants(variants: Sequence[Variant]) -> tuple[TorchVariant, ...]:
    """The torch variants among some variants and the parents of the files among them."""
    found = [variant for variant in variants if isinstance(variant, TorchVariant)]
    found += [variant.parent for variant in variants if isinstance(variant, FileVariant)]
    return tuple(found)


def _relative(variant: Variant, folder: Path) -> str:
    path = location(variant)
    try:
        relative = path.resolve().relative_to(folder.resolve())
    except ValueError:
        raise StageError(f"the variant '{variant.name}' lies in {path}, outside of its stage's output folder") from None
    if not path.exists():
        raise StageError(f"the variant '{variant.name}' says that it lies in {relative}, but nothing is there")
    return relative.as_posix()


def _find_parent(reference: dict[str, Any], known: Iterable[Variant]) -> TorchVariant:
    for candidate in torch_variants(tuple(known)):
        if (candidate.name, candidate.digest) == (reference["name"], reference["digest"]):
            return candidate
    raise ValueError(f"its parent '{reference['name']}' is not among the variants that the stage was given")


@cache
def _adapter(kind: str) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(_KINDS[kind])


@cache
def _contract_adapter() -> Any:
    from pydantic import TypeAdapter

    from edge_runtime.contract import Contract

    return TypeAdapter(Contract)
