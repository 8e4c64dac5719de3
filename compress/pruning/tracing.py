"""Runs torch-pruning's tracer, and corrects what it gets wrong about splits."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from typing import TYPE_CHECKING, Any

from compress.errors import StageError

if TYPE_CHECKING:
    from torch import Tensor, nn


def dependency_graph(module: nn.Module, inputs: Tensor) -> Any:
    """The torch_pruning.DependencyGraph of a module; puts the module into evaluation mode. `inputs` (N, C, H, W).

    Raises StageError when the network cannot be traced.
    """
    import torch
    import torch_pruning

    graph = torch_pruning.DependencyGraph()
    try:
        with warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")
            graph.build_dependency(module, example_inputs=(inputs,), verbose=False)
    except Exception as error:  # the network's own code runs here, and torch-pruning's assertions
        if not getattr(graph, "module2node", None):
            raise StageError(f"the network cannot be traced for pruning: {type(error).__name__}: {error}") from error
        # The last step, index mapping, failed at one operator; it is done again below, operator by operator.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of recursion that was cut short: the trial decides
        _map_indices(graph)
    return graph


def _map_indices(graph: Any) -> None:
    """Maps channels across operators that move them.

    An operator that torch-pruning cannot map is left without a mapping: whether its channels can be cut is then
    decided by trial.
    """
    from torch_pruning.dependency import index_mapping
    from torch_pruning.ops import OPTYPE

    updates = {
        OPTYPE.RESHAPE: _map_reshape,
        OPTYPE.UNBIND: index_mapping.update_unbind_index_mapping,
        OPTYPE.EXPAND: index_mapping.update_expand_index_mapping,
        OPTYPE.SLICE: index_mapping.update_slice_index_mapping,
        OPTYPE.CONCAT: index_mapping.update_concat_index_mapping,
    }
    nodes = list(graph.module2node.values())
    for node in nodes:
        for dependency in node.dependencies:
            dependency.index_mapping = [None, None]
    splits = [node for node in nodes if node.type == OPTYPE.SPLIT]
    for node in splits:
        _set_sizes(node)
    for node in nodes:
        if node.type == OPTYPE.CONCAT and splits:
            node.module.concat_sizes = None  # were inferred from the sizes before
        with contextlib.suppress(ArithmeticError, LookupError, TypeError, ValueError):
            updates.get(node.type, lambda *_: None)(graph, node)
    for node in splits:
        _map_uses(node)


def _map_reshape(graph: Any, node: Any) -> None:
    """Maps a flattening of maps, (N, C, H, W) to (N, C * H * W), and its reverse; other views keep the channels.

    torch-pruning's own test for that reads names that autograd no longer has.
    """
    from torch_pruning.dependency import index_mapping, shape_infer

    shape: tuple[int, ...] = getattr(node.grad_fn, "_saved_self_sym_sizes", ())
    if len(shape) == 4:
        after = [shape_infer.infer_in_channels_recursively(graph, user, [0]) for user in node.outputs]
        if shape[1] * shape[2] * shape[3] not in after:
            return
    if len(shape) in (2, 4):
        index_mapping.update_reshape_index_mapping(graph, node)


def _set_sizes(split: Any) -> None:
    """Reads the sizes of the parts from autograd; torch-pruning adds up what it finds behind the split, and counts a

    part that is used twice two times."""
    function = split.grad_fn
    shape = getattr(function, "_saved_self_sym_sizes", None)
    if shape is None:
        return
    axis = function._saved_dim if function._saved_dim < 2**32 else function._saved_dim - 2**64
    if axis % len(shape) not in ({2} if len(shape) == 3 else {1, len(shape) - 1}):
        split.module.split_sizes = split.module.offsets = None  # not along the channels
        return
    total = shape[axis]
    sizes = getattr(function, "_saved_split_sizes", None)
    if sizes is None:
        size = function._saved_split_size
        sizes = [min(size, total - start) for start in range(0, total, size)]
    split.module.split_sizes = list(sizes)
    split.module.offsets = [0, *itertools.accumulate(sizes)]


def _map_uses(split: Any) -> None:
    """Maps each use of a split to the part that is used, which autograd knows.

    torch-pruning takes the uses in the order in which it met them.
    """
    from torch_pruning.dependency.index_mapping import _SplitIndexMapping

    offsets = split.module.offsets
    for user in {id(node): node for node in split.outputs}.values():
        parts = [part for function, part in user.grad_fn.next_functions if function is split.grad_fn]
        forward = [dependency for dependency in split.dependencies if dependency.target is user]
        backward = [dependency for dependency in user.dependencies if dependency.target is split]
        for dependencies, reverse in ((forward, False), (backward, True)):
            for dependency, part in zip(dependencies, parts, strict=False):
                mapping = _SplitIndexMapping(offset=offsets[part : part + 2], reverse=reverse) if offsets else None
                dependency.index_mapping[0] = mapping
