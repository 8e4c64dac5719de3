"""Torch module to ONNX: a float file with fixed shapes, named as the contract says, the same bytes every time."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import onnx
import onnxslim
import torch
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, shape_inference
from torch import nn
from torch.export import ExportedProgram

from edge_runtime.contract import Contract
from edge_runtime.version import VERSION
from export import diagnose
from export.module import Interface

_SPATIAL = ({2, 3}, {-2, -1})
"""Height and width of a tensor in NCHW, as axes of a reduction."""
_NAME_SCOPES = "pkg.torch.onnx.name_scopes"


def convert_float(module: nn.Module, contract: Contract) -> ModelProto:
    """The float32 model. Nodes are named by module path; no stack traces, no paths of this machine.

    Raises ConversionError that names the operator and the module's path when an operator has no ONNX form.
    """
    wrapper = Interface(module, contract).eval()
    program = diagnose.trace(wrapper, {contract.inputs[0].name: torch.zeros(contract.inputs[0].shape)})
    model = diagnose.explained(lambda: _export(program, contract), wrapper, lambda: program)
    name_nodes(model)
    model = onnxslim.slim(model)
    pool_globally(model)
    strip(model)
    model = shape_inference.infer_shapes(model)
    onnx.checker.check_model(model)
    return model


def serialize(model: ModelProto) -> bytes:
    """Equal models give equal bytes."""
    return model.SerializeToString(deterministic=True)


def name_nodes(model: ModelProto) -> None:
    """Names every node `<module path>/<operator>`, numbered where that is not unique."""
    seen: dict[str, int] = {}
    for node in model.graph.node:
        scopes = next((entry.value for entry in node.metadata_props if entry.key == _NAME_SCOPES), "[]")
        path = diagnose.without_prefix(_module_of(scopes))
        name = f"{path}/{node.op_type}" if path else node.op_type
        seen[name] = seen.get(name, 0) + 1
        node.name = name if seen[name] == 1 else f"{name}_{seen[name]}"


def pool_globally(model: ModelProto) -> None:
    """Writes means over height and width as GlobalAveragePool, which has an INT8 kernel; ReduceMean has none."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in model.graph.value_info}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        nodes += _pooled(node) if _is_global_mean(node, constants, ranks) else [node]
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    _replace(model.graph.node, nodes)
    _replace(model.graph.initializer, kept)


def strip(model: ModelProto) -> None:
    """Removes what differs between machines or says nothing to a runtime, and names the producer."""
    model.producer_name, model.producer_version, model.doc_string = "edgepress", VERSION, ""
    graph = model.graph
    graph.name, graph.doc_string = "main", ""
    for part in (model, graph, *graph.node, *graph.value_info, *graph.initializer, *graph.input, *graph.output):
        del part.metadata_props[:]
    for node in graph.node:
        node.doc_string = ""


def _export(program: ExportedProgram, contract: Contract) -> ModelProto:
    exported = torch.onnx.export(
        program,
        dynamo=True,
        external_data=False,
        input_names=[spec.name for spec in contract.inputs],
        output_names=[spec.name for spec in contract.outputs],
        verbose=False,
    )
    assert exported is not None
    return exported.model_proto


def _module_of(scopes: str) -> str:
    """The innermost module in the exporter's list of scopes, whose last entry is the node's own name."""
    parsed: list[str] = ast.literal_eval(scopes)
    return parsed[-2] if len(parsed) > 1 else ""


def _is_global_mean(node: NodeProto, constants: Mapping[str, TensorProto], ranks: Mapping[str, int]) -> bool:
    if node.op_type != "ReduceMean" or len(node.input) != 2 or node.input[1] not in constants:
        return False
    axes = set(numpy_helper.to_array(constants[node.input[1]]).tolist())
    return axes in _SPATIAL and ranks.get(node.input[0]) == 4


def _pooled(mean: NodeProto) -> list[NodeProto]:
    source, output = mean.input[0], mean.output[0]
    name = mean.name.replace("ReduceMean", "GlobalAveragePool")
    keep = all(attribute.i for attribute in mean.attribute if attribute.name == "keepdims")
    if keep:
        return [helper.make_node("GlobalAveragePool", [source], [output], name)]
    pooled = f"{output}_pooled"
    return [
        helper.make_node("GlobalAveragePool", [source], [pooled], name),
        helper.make_node("Flatten", [pooled], [output], f"{name}_flatten", axis=1),
    ]


def _replace(repeated: object, entries: list[NodeProto] | list[TensorProto]) -> None:
    """Sets a repeated field, whose entries may already be in it."""
    copies = list(entries)
    del repeated[:]  # type: ignore[attr-defined]
    repeated.extend(copies)  # type: ignore[attr-defined]
