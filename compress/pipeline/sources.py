"""Which source code a stage stands on: its module and all local modules that it imports, found without running any.

Local is what this distribution consists of, and any module outside of the standard library and of site-packages: a
user's model, a plug-in that is being written. Installed packages count by their version instead.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import importlib.util
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOTS = ("compress", "export", "edge_runtime")
_NAMED = re.compile(rf"(?:{'|'.join(ROOTS)})(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*)?")
_DATA = (".json", ".yaml", ".yml", ".toml", ".txt", ".csv")


@dataclass(frozen=True)
class Sources:
    """`modules` maps each local module reached to the SHA-256 of its file; `installed` are packages met on the way.

    `installed` are top-level import names outside of the standard library, as local code outside of this distribution
    imports them.
    """

    modules: dict[str, str]
    installed: frozenset[str]


@dataclass(frozen=True)
class _Module:
    name: str
    path: Path
    is_package: bool


@dataclass(frozen=True)
class _Content:
    """`imports` are names that may be modules, absolute; `eager` those of them that importing the module imports."""

    sha256: str
    imports: tuple[str, ...]
    eager: tuple[str, ...]


def sources(modules: Iterable[str]) -> Sources:
    """Local modules that importing and calling these modules can reach. Names that are no module are ignored.

    Found are imports at any depth, also inside of functions, and strings that name a module of this distribution
    (`compress.models.saved:load_model`, `export.worker`). Not followed are imports for type checkers alone, and what
    functions of a parent package import that is only passed through (`compress/__init__.py` on the way to
    `compress.stages.train`).
    """
    reached: dict[str, str] = {}
    installed: set[str] = set()
    whole: set[str] = set()
    queue = [(name, True) for name in modules]
    while queue:
        name, named = queue.pop()
        module = _find(name)
        if module is None or (name in reached and (name in whole or not named)):
            continue
        if not _is_local(module):
            continue
        content = _read(module, module.path.stat().st_mtime_ns, module.path.stat().st_size)
        reached[name] = content.sha256
        reached |= _data_files(module)
        if named:
            whole.add(name)
        following = content.imports if named else content.eager
        queue += [(parent, False) for parent in _parents(name)]
        for imported in following:
            queue.append((imported, True))
            queue += [(parent, False) for parent in _parents(imported)]
        if name.split(".")[0] not in ROOTS:
            installed |= {top for top in (item.split(".")[0] for item in following) if _is_installed(top)}
    return Sources(dict(sorted(reached.items())), frozenset(installed))


def find_module(name: str) -> Path | None:
    """The source file of a module, without importing it or its parents; None when there is none."""
    module = _find(name)
    return module.path if module is not None else None


def _parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    for count in range(1, len(parts)):
        yield ".".join(parts[:count])


def _find(name: str) -> _Module | None:
    try:
        spec = importlib.util.find_spec(name.split(".")[0])
    except (ImportError, ValueError):
        return None
    for full in [*_parents(name), name][1:]:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(full, list(spec.submodule_search_locations))
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return _Module(name, Path(spec.origin), spec.submodule_search_locations is not None)


def _is_local(module: _Module) -> bool:
    if module.name.split(".")[0] in ROOTS:
        return True
    return not any(module.path.is_relative_to(folder) for folder in _installed_folders())


def _is_installed(top: str) -> bool:
    if top in sys.stdlib_module_names or top in ROOTS:
        return False
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return any(Path(place).is_relative_to(folder) for place in places for folder in _installed_folders())


@cache
def _installed_folders() -> tuple[Path, ...]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple({Path(path) for path in paths if path})


def _data_files(module: _Module) -> dict[str, str]:
    """Data that lies beside a package's code belongs to it: tables that it reads decide what it does."""
    if not module.is_package:
        return {}
    files = sorted(path for path in module.path.parent.iterdir() if path.suffix in _DATA and path.is_file())
    return {f"{module.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@cache
def _read(module: _Module, modified: int, size: int) -> _Content:
    """Parsed once a process for each state of the file; `modified` and `size` only tell states apart."""
    text = module.path.read_bytes()
    visitor = _Imports(module)
    with suppress(SyntaxError):  # importing it will say so; its bytes count all the same
        visitor.visit(ast.parse(text))
    return _Content(hashlib.sha256(text).hexdigest(), tuple(visitor.imports), tuple(visitor.eager))


class _Imports(ast.NodeVisitor):
    """Collects the names that a module imports, and the strings that name modules."""

    def __init__(self, module: _Module) -> None:
        self.package = module.name if module.is_package else module.name.rpartition(".")[0]
        self.imports: dict[str, None] = {}
        self.eager: dict[str, None] = {}
        self._depth = 0

    def visit_If(self, node: ast.If) -> None:
        if _is_type_checking(node.test):
            for child in node.orelse:
                self.visit(child)
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._inside(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._inside(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = self.package.split(".")
            base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
        self._add(base)
        for alias in node.names:
            self._add(f"{base}.{alias.name}")

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and _NAMED.fullmatch(node.value):
            self._add(node.value.partition(":")[0])

    def _inside(self, node: ast.AST) -> None:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    def _add(self, name: str) -> None:
        self.imports[name] = None
        if self._depth == 0:
            self.eager[name] = None


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )
