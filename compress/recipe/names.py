"""From stages as written to nodes in execution order: default parents, fan-out, names of results, references.

Stages are expanded one after the other, each as soon as all that it names is known; what is left over when nothing
moves any more is a cycle or a name that nothing has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from compress.recipe.grammar import VARIANT_PATTERN
from compress.recipe.nearest import suggestion
from compress.recipe.problems import KeyPath, Problem
from compress.recipe.schema import Node, StageSpec
from compress.recipe.sections import StageEntry

KIND = {"torch": "a torch model", "file": "a file", "proof": "a measurement"}
_KINDS = {"torch": "torch models", "file": "files", "proof": "measurements"}
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@dataclass
class Names:
    """What is known of a recipe's names. `kinds` and `owners` (stage ids) are by variant, `results` by stage id.

    `opaque` are stages that are wrong themselves, so that their results are not known: what names those is not judged.
    `blamed` holds (stage, name) pairs that were reported already.
    """

    entries: dict[str, StageEntry] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    specs: dict[str, StageSpec] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    results: dict[str, tuple[str, ...]] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    blamed: set[tuple[str, str]] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def report(self, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(path, message))

    def resolve(self, name: str) -> tuple[str, ...] | None:
        """The variants that a name under `from` stands for, or None while it is unknown."""
        if name in self.results:
            return self.results[name]
        return (name,) if name in self.kinds else None

    def excused(self, name: str) -> bool:
        """Whether an unknown name may be a result of a stage that is wrong itself."""
        if name in self.opaque:
            return True
        wrong = [self.entries[stage] for stage in self.opaque]
        if "/" not in name or any(entry.template for entry in wrong):
            return any(entry.template for entry in wrong)
        origin = name.partition("/")[0]
        if origin in self.kinds and origin not in self.opaque:
            return any(entry.settings is None and getattr(entry.stage, "gives", "file") == "file" for entry in wrong)
        return bool(wrong)

    def candidates(self, kind: str | None) -> list[str]:
        """Stages and variants that can be worked on where this kind is wanted (None: any kind)."""
        stages = [i for i, e in self.entries.items() if kind is None or getattr(e.stage, "gives", kind) == kind]
        return [*stages, *(name for name, its in self.kinds.items() if kind in (None, its))]

    def instead(self, name: str, kind: str) -> str:
        """A hint at variants of the wanted kind: first one made from, or into, the named one."""
        found = [known for known, its in self.kinds.items() if its == kind]
        related = [known for known in found if known.startswith(f"{name}/") or name.startswith(f"{known}/")]
        return f"; did you mean '{related[0]}'?" if related else suggestion(name, found)


def expand(entries: Sequence[StageEntry]) -> Names:
    """Resolves the names of all stages. Nodes are in execution order: as written, as far as names allow."""
    names = Names()
    for entry in entries:
        if entry.id in names.entries:
            names.report(("stages", entry.index, "id"), f"two stages are called '{entry.id}'; every id must be unique")
        else:
            names.entries[entry.id] = entry
    _set_parents(names)
    waiting = list(names.entries)
    while waiting:
        ready = next((stage for stage in waiting if not _unresolved(stage, names)), None)
        if ready is None:
            _break_deadlock(waiting, names)
        else:
            waiting.remove(ready)
            _expand_stage(names.entries[ready], names)
    return names


def _set_parents(names: Names) -> None:
    """What each stage works on: as written, or the stage before."""
    before: str | None = None
    for entry in names.entries.values():
        path: KeyPath = ("stages", entry.index)
        starts = entry.stage is not None and entry.stage.takes == "nothing"
        written = entry.parents
        if starts and written is not None:
            names.report((*path, "from"), f"stage '{entry.id}' ({entry.use}) starts from nothing and takes no `from`")
            names.opaque.add(entry.id)
            written = None
        elif not starts and written is None and entry.stage is not None and before is None:
            names.report((*path, "id"), f"stage '{entry.id}' ({entry.use}) has nothing to work on: it is the first")
            names.opaque.add(entry.id)
        default = () if starts or before is None else (before,)
        names.parents[entry.id] = default if written is None else written
        before = entry.id


def references(entry: StageEntry) -> tuple[str, ...]:
    """The names in a stage's settings, e.g. of the teacher."""
    return () if entry.settings is None else tuple(entry.stage.references(entry.settings))


def _unresolved(stage: str, names: Names) -> list[str]:
    needed = dict.fromkeys((*names.parents[stage], *references(names.entries[stage])))
    return [name for name in needed if (stage, name) not in names.blamed and names.resolve(name) is None]


def _break_deadlock(waiting: list[str], names: Names) -> None:
    """Reports why nothing moves, so that the stages to blame can go on without what they named."""
    unresolved = {stage: _unresolved(stage, names) for stage in waiting}
    edges = {stage: {_giver(name, waiting, names): name for name in needed} for stage, needed in unresolved.items()}
    cycle = _find_cycle({stage: [to for to in targets if to in waiting] for stage, targets in edges.items()})
    if cycle is not None:
        first = min(range(len(cycle)), key=lambda index: waiting.index(cycle[index]))
        turned = [*cycle[first:], *cycle[:first], cycle[first]]
        _blame(turned[0], edges[turned[0]][turned[1]], f"stages form a cycle: {' needs '.join(turned)}", names)
        return
    stuck = next(stage for stage in waiting if not any(to in waiting for to in edges[stage]))
    for name in unresolved[stuck]:
        wanted = getattr(names.entries[stuck].stage, "parents", None)
        hint = suggestion(name, set(names.candidates(wanted)) - {stuck})
        _blame(stuck, name, None if names.excused(name) else f"nothing is called '{name}'{hint}", names)


def _giver(name: str, waiting: list[str], names: Names) -> str:
    """The waiting stage that would give a name, as far as that can be told; else the name itself."""
    if name in waiting:
        return name
    origin = name.partition("/")[0]
    for stage in waiting:
        entry = names.entries[stage]
        usual = entry.settings is not None and entry.template is None and origin in names.parents[stage]
        if usual and name in entry.stage.result_names(stage, (origin,), entry.settings):
            return stage
    # `student/onnx-int8` needs `student`, whichever stage writes the file.
    return origin


def _find_cycle(edges: dict[str, list[str]]) -> list[str] | None:
    """One cycle, each stage followed by one that it needs, or None."""
    done: set[str] = set()
    for start in edges:
        trail = [start]
        pending = [iter(edges[start])]
        while trail:
            following = next(pending[-1], None)
            if following is None:
                done.add(trail.pop())
                pending.pop()
            elif following in trail:
                return trail[trail.index(following) :]
            elif following not in done:
                trail.append(following)
                pending.append(iter(edges[following]))
    return None


def _blame(stage: str, name: str, message: str | None, names: Names) -> None:
    entry = names.entries[stage]
    names.opaque.add(stage)
    names.blamed.add((stage, name))
    if message is not None:
        written = name in names.parents[stage]
        names.report(_parent_path(entry, name) if written else _reference_path(entry, name), message)


def _parent_path(entry: StageEntry, name: str) -> KeyPath:
    position = entry.parents.index(name) if entry.parents and name in entry.parents else 0
    return ("stages", entry.index, "from", position)


def _reference_path(entry: StageEntry, name: str) -> KeyPath:
    """Where the settings hold a name; which of their keys are names is known to the stage alone."""
    for key in type(entry.settings).model_fields:
        value = getattr(entry.settings, key)
        if value == name or (isinstance(value, list | tuple) and name in value):
            return ("stages", entry.index, key)
    return ("stages", entry.index)


def _expand_stage(entry: StageEntry, names: Names) -> None:
    if entry.settings is None or any(parent in names.opaque for parent in names.parents[entry.id]):
        names.opaque.add(entry.id)
    if entry.settings is None:
        names.results[entry.id] = ()
        return
    parents = names.parents[entry.id]
    variants = dict.fromkeys(variant for parent in parents for variant in _fitting(entry, parent, names))
    referred = tuple(name for name in dict.fromkeys(references(entry)) if _reference_fits(entry, name, names))
    spec = StageSpec(entry.id, entry.use, entry.settings, parents, entry.template)
    names.specs[entry.id] = spec
    groups = [(variant,) for variant in variants] if entry.stage.takes == "each" else [tuple(variants)]
    taken: list[str] = []
    for group in groups:
        results = _result_names(entry, group, names)
        names.nodes.append(Node(spec, group, referred, results))
        taken += [name for name in results if _take_name(entry, name, names)]
    names.results[entry.id] = tuple(taken)


def _fitting(entry: StageEntry, parent: str, names: Names) -> tuple[str, ...]:
    """The variants that one name under `from` stands for; those of the wrong kind are reported once."""
    variants = names.resolve(parent) or ()
    wrong = [variant for variant in variants if names.kinds[variant] != entry.stage.parents]
    if not wrong:
        return variants
    kind = names.kinds[wrong[0]]
    is_ = f"stage '{parent}' gives {_KINDS[kind]}" if wrong[0] != parent else f"'{parent}' is {KIND[kind]}"
    hint = (
        names.instead(parent, entry.stage.parents) if entry.parents is not None else "; write `from:` to choose others"
    )
    message = f"stage '{entry.id}' ({entry.use}) works on {_KINDS[entry.stage.parents]}, but {is_}{hint}"
    names.report(_parent_path(entry, parent), message)
    names.opaque.add(entry.id)
    return tuple(variant for variant in variants if variant not in wrong)


def _reference_fits(entry: StageEntry, name: str, names: Names) -> bool:
    if (entry.id, name) in names.blamed or names.excused(name):
        return False
    path = _reference_path(entry, name)
    kind = names.kinds.get(name)
    if kind is None:
        names.report(path, f"'{name}' is a stage with several results; name one of them{_among(name, names)}")
    elif kind != entry.stage.parents:
        hint = names.instead(name, entry.stage.parents)
        names.report(path, f"expected {KIND[entry.stage.parents]}, but '{name}' is {KIND[kind]}{hint}")
    return kind == entry.stage.parents


def _among(stage: str, names: Names) -> str:
    return f": {', '.join(names.results[stage])}" if names.results.get(stage) else ""


def _result_names(entry: StageEntry, parents: tuple[str, ...], names: Names) -> tuple[str, ...]:
    if entry.template is None:
        return tuple(entry.stage.result_names(entry.id, parents, entry.settings))
    name = _render(entry, parents, names)
    # A file is named after the torch model that it comes from, a torch model after its stage: `as` replaces both.
    return tuple(entry.stage.result_names(name, (name,) if parents else (), entry.settings))


def _render(entry: StageEntry, parents: tuple[str, ...], names: Names) -> str:
    path: KeyPath = ("stages", entry.index, "as")
    template = entry.template or ""
    allowed = {"id": entry.id} | ({"parent": parents[0]} if entry.stage.takes == "each" and parents else {})
    unknown = [key for key in _PLACEHOLDER.findall(template) if key not in allowed]
    name = _PLACEHOLDER.sub(lambda match: allowed.get(match[1], "x"), template)
    if unknown:
        keys = " and ".join(f"{{{key}}}" for key in allowed)
        names.report(path, f"unknown placeholder {{{unknown[0]}}}; here `as` takes {keys}")
        return "-".join((*parents, entry.id))
    if not re.fullmatch(VARIANT_PATTERN, name):
        names.report(path, f"expected letters, digits and . _ + - / beside {{parent}} and {{id}}, got '{template}'")
    return name


def _take_name(entry: StageEntry, name: str, names: Names) -> bool:
    other = names.owners.get(name)
    if other is None and (name == entry.id or name not in names.entries):
        names.owners[name] = entry.id
        names.kinds[name] = entry.stage.gives
        return True
    if other is None:
        clash = f"stage '{entry.id}' gives a result called '{name}', which is the id of another stage"
    elif other == entry.id:
        clash = f"stage '{entry.id}' gives several results called '{name}'"
    else:
        clash = f"stage '{entry.id}' gives '{name}', which stage '{other}' gives already"
    path = ("stages", entry.index, "id" if entry.template is None else "as")
    names.report(path, f'{clash}; tell them apart with `as:`, for example `as: "{{parent}}-{entry.id}"`')
    names.opaque.add(entry.id)
    return False
