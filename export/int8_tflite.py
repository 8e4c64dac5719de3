"""Float TFLite file to its other precisions: INT8 with true min-max ranges, weights INT8, fp16."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools import flatbuffer_utils
from litert_quantizer import qtyping, quantizer, recipe
from litert_quantizer.algorithm_manager import AlgorithmName
from litert_quantizer.calibrator import CalibrationMode, Calibrator
from litert_quantizer.recipe_manager import RecipeManager
from litert_quantizer.utils import qsv_utils
from numpy.typing import NDArray

from export.errors import ConversionError
from export.learned import Learned, match_activations, match_weights
from export.ranges import Estimator, estimate
from export.request import IODType
from export.tensors_tflite import TfliteTensors

SCHEME = "s8s8 per-channel"
DYNAMIC_SCHEME = "s8s8 per-channel dynamic"
SIGNATURE = "serving_default"

MIN_MAX = Estimator()

Ranges = dict[str, dict[str, NDArray[np.float32]]]

_OPERATION = qtyping.TFLOperationName


def to_int8(
    model: bytes,
    inputs: Iterable[dict[str, NDArray[np.float32]]],
    input_dtype: IODType = "float32",
    output_dtype: IODType = "float32",
    threads: int = 1,
    learned: Learned | None = None,
    estimator: Estimator = MIN_MAX,
) -> bytes:
    """INT8 weights per channel and INT8 activations.

    `inputs` are calibration inputs by name as the model takes them, with batch, read one at a time: once, and once more
    unless the estimator is min-max. `learned` scales take the place of measured ranges; calibration still gives those
    of what a converter added.
    """
    rules = quantizer.Quantizer(model, recipe.static_wi8_ai8())
    for operation, dtype in ((_OPERATION.INPUT, input_dtype), (_OPERATION.OUTPUT, output_dtype)):
        if dtype == "float32":
            rules.update_quantization_recipe(".*", operation, algorithm_key=AlgorithmName.NO_QUANTIZE)
    ranges = measure_ranges(model, inputs, threads, learned, estimator)
    result = _quantized(rules, ranges)
    if "uint8" in (input_dtype, output_dtype):
        result = _with_uint8(result, input_dtype == "uint8", output_dtype == "uint8")
    return result


def to_int8_dynamic(model: bytes) -> bytes:
    """INT8 weights per channel; activations are quantized while running, with ranges of the moment."""
    return _quantized(quantizer.Quantizer(model, recipe.dynamic_wi8_afp32()))


def to_fp16(model: bytes) -> bytes:
    """Weights in half precision, expanded when the file is loaded; computation in float32 where fp16 is no faster."""
    half = qtyping.TensorQuantizationConfig(num_bits=16, dtype=qtyping.TensorDataType.FLOAT)
    rules = quantizer.Quantizer(model)
    rules.update_quantization_recipe(
        ".*",
        _OPERATION.ALL_SUPPORTED,
        qtyping.OpQuantizationConfig(weight_tensor_config=half, compute_precision=qtyping.ComputePrecision.FLOAT),
        algorithm_key=AlgorithmName.FLOAT_CASTING,
    )
    return _quantized(rules)


def measure_ranges(
    model: bytes,
    inputs: Iterable[dict[str, NDArray[np.float32]]],
    threads: int = 1,
    learned: Learned | None = None,
    estimator: Estimator = MIN_MAX,
) -> Ranges:
    """The range of every activation over all inputs; true min-max unless another estimator is asked for.

    The library's own `calibrate` takes a moving average instead, and makes a list of all samples first.
    """
    calibrator = Calibrator(
        model,
        num_threads=threads,
        mode=CalibrationMode.CALIBRATION_PROFILER_BASED,
        qsv_update_func=qsv_utils.min_max_update,
    )
    everything = RecipeManager()
    everything.load_quantization_recipe(recipe.static_wi8_ai8())
    for named in inputs:
        calibrator.calibrate({SIGNATURE: [named]}, everything)
    ranges: Ranges = {
        # Scales are computed in the precision of the ranges; those of the library's other mode are float32.
        name: {end: np.asarray(values[end], np.float32).reshape(-1) for end in ("min", "max")}
        for name, values in calibrator.get_model_qsvs().items()
        if values
    }
    if estimator.method != "min-max":
        extremes = {name: (float(ends["min"][0]), float(ends["max"][0])) for name, ends in ranges.items()}
        tensors = TfliteTensors(model, threads)
        samples = (tensors.run(array) for named in inputs for array in named.values())
        ranges = {name: _range(*ends) for name, ends in estimate(estimator, samples, extremes).items()}
    if learned is not None:
        ranges |= learned_ranges(model, learned)
    return _bounded(ranges, model)


def learned_ranges(model: bytes, learned: Learned) -> Ranges:
    """The ranges from which the library computes exactly the learned scales and zero points, weights included.

    Raises ConversionError when a scale has no tensor.
    """
    activations = {
        name: _range((0 - entry.zero_point) * entry.scale, (255 - entry.zero_point) * entry.scale)
        for name, entry in match_activations(learned.injection, _activations(model, learned.probes)).items()
    }
    constants = _constants(model)
    weights = {}
    for name, layer in match_weights(learned.injection, constants).items():
        # The library quantizes a weight to -127..127 by the largest value; its scale is what counts here.
        depthwise = constants[name].ndim == 4 and constants[name].shape[0] == 1 and len(layer.scales) > 1
        shape = (1, 1, 1, -1) if depthwise else (-1, *(1,) * (constants[name].ndim - 1))
        bound = (layer.scales.astype(np.float64) * 127).astype(np.float32).reshape(shape)
        weights[name] = {"min": -bound, "max": bound}
    return activations | weights


def _range(low: float, high: float) -> dict[str, NDArray[np.float32]]:
    return {"min": np.asarray([low], np.float32), "max": np.asarray([high], np.float32)}


def _activations(model: bytes, probes: Sequence[NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Every float tensor over the samples (N, ...), by name."""
    tensors = TfliteTensors(model)
    collected: dict[str, list[NDArray[np.float32]]] = {}
    for array in probes:
        for name, value in tensors.run(array).items():
            if value.ndim > 1 and value.shape[0] == 1:
                collected.setdefault(name, []).append(value[0])
    return {name: np.stack(values) for name, values in collected.items() if len(values) == len(probes)}


def _constants(model: bytes) -> dict[str, NDArray[np.float32]]:
    """Every float constant of the main graph, by the name of its tensor."""
    parsed = schema.ModelT.InitFromPackedBuf(model, 0)
    found = {}
    for tensor in parsed.subgraphs[0].tensors:
        data = parsed.buffers[tensor.buffer].data
        if data is not None and len(data) and tensor.type == schema.TensorType.FLOAT32:
            values = np.frombuffer(np.asarray(data, np.uint8).tobytes(), np.float32)
            found[tensor.name.decode()] = values.reshape(tuple(tensor.shape))
    return found


def _bounded(ranges: Ranges, model: bytes) -> Ranges:
    """Replaces the infinite ranges of padding by those of what is padded: max pooling pads with minus infinity."""
    result = dict(ranges)
    parsed = schema.ModelT.InitFromPackedBuf(model, 0)
    graph = parsed.subgraphs[0]
    for operator in graph.operators:
        if parsed.operatorCodes[operator.opcodeIndex].builtinCode != schema.BuiltinOperator.PADV2:
            continue
        source, *_ = (graph.tensors[index].name.decode() for index in operator.inputs)
        for index in operator.outputs:
            name = graph.tensors[index].name.decode()
            if name in result and not _finite(result[name]) and source in result:
                result[name] = result[source]
    unbounded = [name for name, values in result.items() if not _finite(values)]
    if unbounded:
        raise ConversionError(
            f"calibration: '{unbounded[0]}' takes infinite or NaN values, so no INT8 scale fits it", "calibration"
        )
    return result


def _finite(values: dict[str, NDArray[np.float32]]) -> bool:
    return bool(np.isfinite(values["min"]).all() and np.isfinite(values["max"]).all())


def _quantized(rules: quantizer.Quantizer, ranges: Ranges | None = None) -> bytes:
    result = rules.quantize(ranges, enable_progress_bar=False, enable_progress_report=False)
    return bytes(result.quantized_model)


def _with_uint8(model: bytes, inputs: bool, outputs: bool) -> bytes:
    """An INT8 file that takes or gives uint8: the same scale, the zero point moved by 128, one lossless conversion."""
    parsed = schema.ModelT.InitFromPackedBuf(model, 0)
    graph = parsed.subgraphs[0]
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.QUANTIZE
    code.version = 2  # the first that converts between 8-bit types
    parsed.operatorCodes.append(code)
    conversion = len(parsed.operatorCodes) - 1
    if inputs:
        for index in list(graph.inputs):
            outer = _uint8_twin(graph, int(index))
            graph.operators.insert(0, _operator(conversion, outer, int(index)))
            graph.inputs = [outer if other == index else other for other in graph.inputs]
            _repoint(parsed.signatureDefs, "inputs", int(index), outer)
    if outputs:
        for index in list(graph.outputs):
            outer = _uint8_twin(graph, int(index))
            graph.operators.append(_operator(conversion, int(index), outer))
            graph.outputs = [outer if other == index else other for other in graph.outputs]
            _repoint(parsed.signatureDefs, "outputs", int(index), outer)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(parsed))


def _uint8_twin(graph: Any, index: int) -> int:
    """Adds a uint8 tensor that holds the same numbers as the int8 tensor `index`; gives its index."""
    inner = graph.tensors[index]
    twin = copy.deepcopy(inner)
    twin.type = schema.TensorType.UINT8
    twin.quantization.zeroPoint = np.asarray(inner.quantization.zeroPoint, np.int64) + 128
    inner.name = inner.name + b"_int8"
    graph.tensors.append(twin)
    return len(graph.tensors) - 1


def _operator(code: int, source: int, output: int) -> Any:
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = code, [source], [output]
    return operator


def _repoint(signatures: Any, kind: str, old: int, new: int) -> None:
    for signature in signatures or ():
        for entry in getattr(signature, kind):
            if entry.tensorIndex == old:
                entry.tensorIndex = new
