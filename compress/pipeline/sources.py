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
from typing import Literal

ROOTS = ("compress", "export", "tune", "edge_runtime")
_NAMED = re.compile(rf"(?:{'|'.join(ROOTS)})(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*)?")
_EMPTY = hashlib.sha256(b"").hexdigest()
_Kind = Literal["local", "installed", "none"]
_DATA = (".json", ".yaml", ".yml", ".toml", ".txt", ".csv")


@dataclass(frozen=True)
class Sources:
    """`modules` maps each local module reached to the SHA-256 of its file; `installed` are packages met on the way.

    `installed` are top-level names of installed packages among the modules asked for, and those that local code outside
    of this distribution imports.
    """

    modules: dict[str, str]
    installed: frozenset[str]


@dataclass(frozen=True)
class _Module:
    """`places` are the folders of a package's modules, None for a plain module; a bare folder has no `path`."""

    name: str
    path: Path | None
    places: tuple[str, ...] | None


@dataclass(frozen=True)
class _Content:
    """`imports` are names that may be modules, absolute; `eager` those of them that importing the module imports."""

    sha256: str
    imports: tuple[str, ...]
    eager: tuple[str, ...]
    data: dict[str, str]


class SourceReader:
    """Finds local modules and what they import. Remembers what it read: use one for a run, in which code is fixed."""

    def __init__(self) -> None:
        self._modules: dict[str, _Module | None] = {}
        self._contents: dict[Path, _Content] = {}
        self._kinds: dict[str, _Kind] = {}
        self._found: dict[tuple[str, ...], Sources] = {}

    def sources(self, modules: Iterable[str]) -> Sources:
        """Local modules that importing and calling these modules can reach. Names that are no module are ignored.

        Found are imports at any depth, also inside of functions, and strings that name a module of this distribution
        (`compress.models.saved:load_model`, `export.worker`). Not followed are imports for type checkers alone, and
        what functions of a parent package import that is only passed through (`compress/__init__.py` on the way to
        `compress.stages.train`).
        """
        names = tuple(sorted(set(modules)))
        if names not in self._found:
            self._found[names] = self._walk(names)
        return self._found[names]

    def _walk(self, names: tuple[str, ...]) -> Sources:
        reached: dict[str, str] = {}
        installed: set[str] = {top for top in map(_top, names) if self._kind(top) == "installed"}
        seen: set[tuple[str, bool]] = set()
        queue = [(name, True) for name in names]
        while queue:
            name, named = queue.pop()
            if (name, named) in seen:
                continue
            seen.add((name, named))
            module = self._module(name)
            if module is None:
                continue
            content = self._content(module)
            reached[name] = content.sha256
            reached |= content.data
            following = content.imports if named else content.eager
            queue += [(parent, False) for imported in (name, *following) for parent in _parents(imported)]
            queue += [(imported, True) for imported in following]
            if _top(name) not in ROOTS:
                installed |= {top for top in map(_top, following) if self._kind(top) == "installed"}
        return Sources(dict(sorted(reached.items())), frozenset(installed))

    def _module(self, name: str) -> _Module | None:
        """A local module; None for one that is installed, built in, no module at all, or has no source."""
        if name not in self._modules:
            self._modules[name] = self._locate(name) if self._kind(_top(name)) == "local" else None
        return self._modules[name]

    def _locate(self, name: str) -> _Module | None:
        parent, _, last = name.rpartition(".")
        if not parent:
            return _top_module(name)
        package = self._module(parent)
        if package is None or package.places is None:
            return None
        for folder in (Path(place) for place in package.places):
            if (folder / last / "__init__.py").is_file():
                return _Module(name, folder / last / "__init__.py", (str(folder / last),))
            if (folder / f"{last}.py").is_file():
                return _Module(name, folder / f"{last}.py", None)
        bare = tuple(str(Path(place) / last) for place in package.places if (Path(place) / last).is_dir())
        return _Module(name, None, bare) if bare else None

    def _content(self, module: _Module) -> _Content:
        """A folder without `__init__.py` has no content, but may be passed through."""
        if module.path is None:
            return _Content(_EMPTY, (), (), {})
        if module.path not in self._contents:
            self._contents[module.path] = _read(module, module.path)
        return self._contents[module.path]

    def _kind(self, top: str) -> _Kind:
        if top not in self._kinds:
            self._kinds[top] = _kind_of(top)
        return self._kinds[top]


def _top(name: str) -> str:
    return name.partition(".")[0]


def _parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    for count in range(1, len(parts)):
        yield ".".join(parts[:count])


def _top_spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """Finding a top-level module imports nothing."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _top_module(name: str) -> _Module | None:
    spec = _top_spec(name)
    if spec is None:
        return None
    places = tuple(spec.submodule_search_locations) if spec.submodule_search_locations is not None else None
    path = Path(spec.origin) if spec.origin is not None and spec.origin.endswith(".py") else None
    return _Module(name, path, places) if path is not None or places is not None else None


def _kind_of(top: str) -> _Kind:
    if top in ROOTS:
        return "local"
    if not top or top in sys.stdlib_module_names:
        return "none"
    spec = _top_spec(top)
    if spec is None:
        return "none"
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    inside = any(Path(place).is_relative_to(folder) for place in places for folder in _installed_folders())
    return "installed" if inside else "local"


@cache
def _installed_folders() -> tuple[Path, ...]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple({Path(path) for path in paths if path})


def _read(module: _Module, path: Path) -> _Content:
    text = path.read_bytes()
    imports, eager = _parse(text, module.name if module.places is not None else module.name.rpartition(".")[0])
    return _Content(_sha256(text), imports, eager, _data_files(module, path))


@cache
def _parse(text: bytes, package: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Parsing takes longest by far, and the same text always gives the same imports."""
    visitor = _Imports(package)
    with suppress(SyntaxError):  # importing it will say so; its bytes count all the same
        visitor.visit(ast.parse(text))
    return tuple(visitor.imports), tuple(visitor.eager)


def _data_files(module: _Module, path: Path) -> dict[str, str]:
    """Data that lies beside a package's code belongs to it: tables that it reads decide what it does."""
    if module.places is None:
        return {}
    files = sorted(file for file in path.parent.iterdir() if file.suffix in _DATA and file.is_file())
    return {f"{module.name}/{file.name}": _sha256(file.read_bytes()) for file in files}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Imports(ast.NodeVisitor):
    """Collects the names that a module imports, and the strings that name modules."""

    def __init__(self, package: str) -> None:
        self.package = package
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
