"""Finds out which operator of which module a converter could not take, after it failed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import fx, nn
from torch.export import ExportedProgram

from export.errors import ConversionError

T = TypeVar("T")
_PREFIX = "module"
_OPERATORS = (
    re.compile(r"Lowering not found: (?P<op>[\w.]+)"),
    re.compile(r"OpOverload\(op='(?P<op>[\w.]+)', overload='(?P<overload>\w+)'\)"),
)
_FIRST_ARGUMENT = re.compile(r"%\w+ : \[num_users=\d+\].*?args = \(%(?P<name>\w+)")


def trace(module: nn.Module, named: dict[str, torch.Tensor]) -> ExportedProgram:
    """`torch.export` with named inputs. Raises ConversionError that names the module whose code cannot be traced."""
    try:
        return torch.export.export(module, (), named, strict=False)
    except Exception as error:  # torch raises whatever its passes and the user's code raise
        path = _where_it_fails(module, named)
        where = f" of {_described(module, path)}" if path is not None else ""
        raise ConversionError(
            f"torch.export cannot trace the code{where}: {_first_line(error)}", "unsupported-operator"
        ) from error


def explained(convert: Callable[[], T], module: nn.Module, program: Callable[[], ExportedProgram]) -> T:
    """What `convert` gives. When it fails over an operator, the ConversionError names it and its module's path.

    `program` is the traced module; it is called only when there is something to look up.
    """
    try:
        return convert()
    except ConversionError:
        raise
    except Exception as error:  # converters have no common error type
        traced = program()  # raises with a place of its own when it was the tracing that failed
        operator = failed_operator(str(error))
        if operator is None:
            raise
        path = find_operator(traced, operator, str(error))
        where = f" in {_described(module, path)}" if path is not None else ""
        raise ConversionError(f"operator {operator}{where} is not supported", "unsupported-operator") from error


def failed_operator(message: str) -> str | None:
    """The operator that a converter's message is about, as `aten.lgamma.default`; None when it names none."""
    for pattern in _OPERATORS:
        match = pattern.search(message)
        if match:
            name = match["op"].replace("::", ".")
            overload = match.groupdict().get("overload")
            return f"{name}.{overload}" if overload else name
    return None


def find_operator(program: ExportedProgram, operator: str, message: str) -> str | None:
    """The path of the module that calls `operator`; None when it is nowhere in the program.

    Converters break operators down before they fail, so the name in the message may be another than in the program:
    then the reader of the value that the failed operator reads is the one.
    """
    for graph in (program.graph, program.run_decompositions().graph):
        for node in graph.nodes:
            if node.op == "call_function" and str(node.target) == operator:
                return _path(node)
    match = _FIRST_ARGUMENT.search(message)
    for node in program.graph.nodes:
        if match and node.name == match["name"] and node.users:
            return _path(next(iter(node.users)))
    return None


def module_path(stack: dict[str, tuple[str, object]] | None) -> str:
    """The path of the innermost module on a node's `nn_module_stack`, as the user knows it: without our wrapper."""
    if not stack:
        return ""
    path, _ = list(stack.values())[-1]
    return without_prefix(path)


def _where_it_fails(module: nn.Module, named: dict[str, torch.Tensor]) -> str | None:
    """Traces again, watching which modules run: the path of the innermost one that did not come to its end."""
    running: list[str] = []
    for path, part in module.named_modules():
        part.register_forward_pre_hook(lambda *_, path=path: running.append(path))
        part.register_forward_hook(lambda *_: running.pop() and None)
    try:
        torch.export.export(module, (), named, strict=False)
    except Exception:  # the same as before
        return running[-1] if running else None
    return None


def _path(node: fx.Node) -> str:
    return module_path(node.meta.get("nn_module_stack"))


def without_prefix(path: str) -> str:
    """A module path as the user knows it: without our wrapper."""
    return path.removeprefix(_PREFIX).removeprefix(".")


def _described(module: nn.Module, path: str) -> str:
    """`body.0.norm (LayerNorm)`, or the network itself. `module` is the wrapper; `path` may hold its prefix."""
    path = without_prefix(path)
    inner = module.get_submodule(_PREFIX)
    return f"module '{path}' ({type(inner.get_submodule(path)).__name__})" if path else f"{type(inner).__name__}"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
