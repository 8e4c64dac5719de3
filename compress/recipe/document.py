"""A recipe's text as plain values, each with its position. Strict: no duplicate keys, no tags, no merge keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from compress.recipe.problems import KeyPath, Place, PlacedProblem
from compress.recipe.scalars import ScalarError, resolve_plain
from compress.recipe.variables import VariableError, Variables, find_variables

_MOST_CHARACTERS, _MOST_VALUES, _DEEPEST = 1_000_000, 50_000, 40
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


@dataclass
class Document:
    """`value` is made of dict, list, str, int, float, bool and None. `places` has the position of every value,

    `key_places` that of every key. `faults` are what could not be read, by the path of the value, which is None then.
    """

    origin: str
    value: Any
    places: dict[KeyPath, Place] = field(default_factory=dict)
    key_places: dict[KeyPath, Place] = field(default_factory=dict)
    faults: dict[KeyPath, list[PlacedProblem]] = field(default_factory=dict)

    def place(self, path: KeyPath, at_key: bool = False) -> Place:
        """The position of a value, or of what encloses it when there is no such value."""
        if at_key and path in self.key_places:
            return self.key_places[path]
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place(1, 1, self.origin))

    def unread(self, path: KeyPath) -> bool:
        """Whether there is a value at this path that could not be read."""
        if path not in self.faults:
            return False
        value = self.value
        for step in path:
            value = value[step]
        return value is None


class _SyntaxError(ValueError):
    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class _Composer(yaml.SafeLoader):
    """PyYAML's parser without its rules for unquoted words; those are `resolve_plain`'s."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (the name and form that PyYAML reads)
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _SyntaxError("nested too deeply", self.peek_event().start_mark.index)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def parse(text: str, origin: str, environment: Mapping[str, str]) -> Document:
    """Parses one YAML document and fills in its variables. What is wrong is in the document's `faults`."""
    try:
        variables = find_variables(text, environment)
        root = _compose(variables.masked)
    except (VariableError, _SyntaxError) as error:
        fault = PlacedProblem(_place_at(text, error.offset, origin), str(error))
        return Document(origin, None, faults={(): [fault]})
    reader = _Reader(text, origin, variables)
    if root is not None:
        reader.document.value = reader.read(root, ())
    return reader.document


def _compose(text: str) -> yaml.Node | None:
    if len(text) > _MOST_CHARACTERS:
        raise _SyntaxError(f"a recipe has at most {_MOST_CHARACTERS} characters", 0)
    loader = None
    try:
        loader = _Composer(text)
        return loader.get_single_node()
    except _SyntaxError:
        raise
    except yaml.reader.ReaderError as error:
        raise _SyntaxError(f"character U+{ord(text[error.position]):04X} is not allowed", error.position) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        context = f" ({error.context})" if error.context else ""
        message = f"not valid YAML: {error.problem}{context}"
        raise _SyntaxError(message, mark.index if mark else 0) from None
    except (ValueError, OverflowError) as error:  # escapes such as "\UFFFFFFFF", versions with thousands of digits
        raise _SyntaxError(f"not valid YAML: {error}", loader.index if loader else 0) from None
    finally:
        if loader is not None:
            loader.dispose()


def _place_at(text: str, offset: int, origin: str) -> Place:
    before = text[:offset]
    return Place(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1, origin)


class _Reader:
    """Walks the node tree once; aliases are walked again where they are used."""

    def __init__(self, text: str, origin: str, variables: Variables) -> None:
        self.document = Document(origin, None)
        self._text = text
        self._variables = variables
        self._open: list[yaml.Node] = []
        self._values = 0

    def read(self, node: yaml.Node, path: KeyPath) -> Any:
        place = self._place(node)
        self.document.places[path] = place
        self._values += 1
        if self._values > _MOST_VALUES:
            if self._values == _MOST_VALUES + 1:
                self._fault(
                    (), place, f"a recipe has at most {_MOST_VALUES} values, aliases counted where they are used"
                )
            return None
        if any(node is parent for parent in self._open):
            return self._fault(path, place, "this alias contains itself")
        if len(self._open) >= _DEEPEST:
            return self._fault(path, place, "nested too deeply")
        if node.tag not in _PLAIN_TAGS and node.tag != "!":
            return self._fault(
                path, place, f"tags are not supported, got {node.tag.replace('tag:yaml.org,2002:', '!!')}"
            )
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path, place)
        self._open.append(node)
        try:
            return self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._sequence(node, path)
        finally:
            self._open.pop()

    def _sequence(self, node: yaml.Node, path: KeyPath) -> list[Any]:
        return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = self._place(key_node)
            key = self._key(key_node, path, place)
            if key is None:
                continue
            if key in result:
                first = self.document.key_places[(*path, key)]
                self._fault(path, place, f"key '{key}' is given twice, first in line {first.line}")
                continue
            self.document.key_places[(*path, key)] = place
            result[key] = self.read(value_node, (*path, key))
        return result

    def _key(self, node: yaml.Node, path: KeyPath, place: Place) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            return self._fault(path, place, "expected a name as key")
        written = self._variables.written(node.value)
        if written != node.value:
            return self._fault(path, place, f"variables are not allowed in keys, got {written}")
        if node.style is None and node.value == "<<":
            return self._fault(path, place, "merge keys (<<) are not supported")
        if node.value == "" or not _is_text(node.value):
            return self._fault(path, place, "expected a name as key")
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath, place: Place) -> Any:
        try:
            text = self._variables.fill(node.value)
            value = resolve_plain(text) if node.style is None else text
        except VariableError as error:
            return self._fault(path, _place_at(self._text, error.offset, place.origin), str(error))
        except ScalarError as error:
            return self._fault(path, place, str(error))
        if isinstance(value, str) and not _is_text(value):
            return self._fault(path, place, "this text holds half of a surrogate pair")
        return value

    def _place(self, node: yaml.Node) -> Place:
        return Place(node.start_mark.line + 1, node.start_mark.column + 1, self.document.origin)

    def _fault(self, path: KeyPath, place: Place, message: str) -> Any:
        self.document.faults.setdefault(path, []).append(PlacedProblem(place, message))
        return None


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)
