"""What gates are about: `of` and `against` resolved to files that a benchmark stage measures."""

from __future__ import annotations

from collections.abc import Sequence

from compress.recipe.gates import gate_references
from compress.recipe.names import KIND, Names
from compress.recipe.nearest import suggestion
from compress.recipe.problems import KeyPath
from compress.recipe.schema import GateSpec
from compress.recipe.sections import GateEntry


def resolve_gates(gates: Sequence[GateEntry], names: Names) -> tuple[GateSpec, ...]:
    """One GateSpec for each file under `of`. Names that are wrong are reported to `names`."""
    measured = {
        variant
        for node in names.nodes
        if names.entries[node.stage.id].stage.measures
        for variant in (*node.parents, *node.references)
    }
    specs = []
    for gate in gates:
        path: KeyPath = ("gates", gate.index)
        for position, name in enumerate(gate.of):
            if _check((*path, "of", position), name, names, measured):
                specs.append(GateSpec(name, gate.conditions))
        for condition, settings in gate.conditions.items():
            for name in gate_references(settings):
                _check((*path, condition, "against"), name, names, measured)
    return tuple(specs)


def _check(path: KeyPath, name: str, names: Names, measured: set[str]) -> bool:
    files = [known for known, kind in names.kinds.items() if kind == "file"]
    kind = names.kinds.get(name)
    if kind is None:
        if not names.excused(name):
            of_stage = [known for known in names.results.get(name, ()) if known in files]
            what = f"'{name}' is a stage; name one of its files" if of_stage else f"nothing is called '{name}'"
            names.report(path, what + suggestion(name, of_stage or files))
    elif kind != "file":
        names.report(path, f"gates judge files, but '{name}' is {KIND[kind]}{names.instead(name, 'file')}")
    elif name in measured:
        return True
    elif not names.opaque:
        hint = suggestion(name, measured) if measured else "; add a stage with `use: benchmark`"
        names.report(path, f"no stage measures '{name}', so this gate could only fail{hint}")
    return False
