"""What training learned is what the INT8 files hold, and the files answer as the fake-quantized network does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from compress.measurement.samples import in_layout, write_samples
from compress.models.architecture import Architecture, BuilderReference
from compress.models.builders import build
from compress.models.network import Network
from compress.models.saved import load_model, read_architecture
from compress.models.variant import TorchVariant
from compress.quantization.fake import FakeQuantize
from compress.quantization.network import QuantizedNetwork, quantized
from compress.stages.quantize import STAGE, QuantizeSettings
from edge_runtime.session import open_session
from export.convert import convert
from export.request import ConversionRequest, ConvertedFile, Format, LearnedQuantization, ModuleSource
from tests.toy import ToyData, ToyTask, context, variant

pytest.importorskip("litert_torch", reason="both converters are run")

FORMATS: tuple[Format, ...] = ("onnx", "tflite")


@dataclass(frozen=True)
class Made:
    result: TorchVariant
    learned: LearnedQuantization
    files: dict[Format, ConvertedFile]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("qat")
    reference = BuilderReference(
        "module:function", {"function": "tests.quantization.nets:mixed", "num_classes": 3, "in_channels": 3}
    )
    torch.manual_seed(0)
    parent = variant(Network(build(reference).eval(), Architecture(reference)), folder)
    settings = QuantizeSettings.model_validate({"epochs": 12, "batch_size": 16, "learning_rate": 1e-2})
    (result,) = STAGE.run((parent,), settings, context(folder))
    learned = read_architecture(result.directory).quantization
    assert learned is not None
    for name, split, count in (("parity", "validation", 8), ("calibration", "calibration", 30)):
        write_samples(ToyData(), _contract(result), split, count, folder / f"{name}.npy")  # type: ignore[arg-type]
    requests = [_request(result, format_, folder, learned) for format_ in FORMATS]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda request: convert(request, timeout=600), requests))
    return Made(result, learned, {f: answer.files[0] for f, answer in zip(FORMATS, answers, strict=True)})


def _contract(result: TorchVariant):
    """The toy images are no pixels: any value is allowed."""
    spec = result.contract.inputs[0]
    return replace(result.contract, inputs=(replace(spec, preprocess=None),))


def _request(result: TorchVariant, format_: Format, folder: Path, learned: LearnedQuantization) -> ConversionRequest:
    output = folder / format_
    output.mkdir()
    return ConversionRequest(
        source=ModuleSource("compress.models.saved:load_model", {"directory": str(result.directory)}),
        contract=in_layout(_contract(result), "NHWC" if format_ == "tflite" else "NCHW"),
        format=format_,
        precisions=("int8",),
        output_directory=str(output),
        parity=str(folder / "parity.npy"),
        calibration=str(folder / "calibration.npy"),
        target="x86-avx2",
        learned=learned,
    )


def simulate(made: Made) -> QuantizedNetwork:
    """The fake-quantized network again, from the saved variant alone."""
    network, _ = quantized(load_model(made.result.directory), torch.zeros(1, 3, 8, 8), levels=64, steps=0)
    scales = {entry.point: entry for entry in made.learned.activations}
    for path, layer in network.named_modules():
        if isinstance(layer, FakeQuantize):
            entry = scales[path.removeprefix("quantizers.")]
            layer.fixed = (entry.scale, entry.zero_point)
    network.set_phase("quantize")
    return network


def file_scales(file: ConvertedFile) -> list[tuple[float, int]]:
    """Scale and zero point (as of uint8) of every per-tensor quantized activation of a file."""
    if file.path.endswith(".onnx"):
        import onnx
        from onnx import numpy_helper

        model = onnx.load(file.path)
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        nodes = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
        return [(float(constants[node.input[1]]), int(constants[node.input[2]])) for node in nodes]
    from ai_edge_litert.interpreter import Interpreter

    tensors = Interpreter(model_path=file.path).get_tensor_details()
    return [
        (float(entry["quantization"][0]), int(entry["quantization"][1]) + 128)
        for entry in tensors
        if entry["dtype"] is np.int8 and len(entry["quantization_parameters"]["scales"]) == 1
    ]


def file_weight_scales(file: ConvertedFile) -> list[np.ndarray]:
    if file.path.endswith(".onnx"):
        import onnx
        from onnx import TensorProto, numpy_helper

        model = onnx.load(file.path)
        constants = {tensor.name: tensor for tensor in model.graph.initializer}
        return [
            numpy_helper.to_array(constants[node.input[1]])
            for node in model.graph.node
            if node.op_type == "DequantizeLinear"
            and node.input[0] in constants
            and constants[node.input[0]].data_type == TensorProto.INT8
        ]
    from ai_edge_litert.interpreter import Interpreter

    tensors = Interpreter(model_path=file.path).get_tensor_details()
    return [
        entry["quantization_parameters"]["scales"]
        for entry in tensors
        if entry["dtype"] is np.int8 and len(entry["quantization_parameters"]["scales"]) > 1
    ]


@pytest.mark.parametrize("format_", FORMATS)
def test_the_files_scales_are_the_learned_ones(made: Made, format_: Format) -> None:
    held = file_scales(made.files[format_])
    for entry in made.learned.activations:
        assert any(
            zero_point == entry.zero_point and abs(scale - entry.scale) <= 1e-6 * entry.scale
            for scale, zero_point in held
        ), f"{entry} is none of {held}"
    learned = {(round(entry.scale, 7), entry.zero_point) for entry in made.learned.activations}
    assert {(round(scale, 7), zero_point) for scale, zero_point in held} == learned  # and there is no other


@pytest.mark.parametrize("format_", FORMATS)
def test_the_files_weights_have_the_learned_scales(made: Made, format_: Format) -> None:
    held = file_weight_scales(made.files[format_])
    for entry in made.learned.weights:
        scales = np.asarray(entry.scales, np.float32)
        assert any(other.shape == scales.shape and np.allclose(other, scales, rtol=1e-6, atol=0) for other in held)
    assert len(held) == len(made.learned.weights)


@pytest.mark.parametrize("format_", FORMATS)
def test_the_files_answer_as_the_fake_quantized_network_within_a_step(made: Made, format_: Format) -> None:
    file = made.files[format_]
    session = open_session(file.path, {"onnx": "onnxruntime", "tflite": "litert"}[format_], 1, file.contract)
    inputs = ToyData().inputs
    with torch.no_grad():
        expected = simulate(made)(inputs).numpy()
    layout = (0, 2, 3, 1) if format_ == "tflite" else (0, 1, 2, 3)
    answers = []
    for sample in inputs.numpy():
        array = np.ascontiguousarray(sample[None].transpose(layout))
        answers.append(session.dequantize(session.engine.run(session.quantize([array])))[0][0])
    step = next(entry.scale for entry in made.learned.activations if entry.point == "classifier")
    steps = np.abs(np.stack(answers) - expected) / step
    assert steps.max() <= 1.01, f"{np.bincount(steps.round().astype(int).ravel())}"
    assert (steps < 0.5).mean() > 0.9
    assert (np.stack(answers).argmax(1) == expected.argmax(1)).mean() >= 0.99


def test_the_score_of_the_variant_is_that_of_the_network_rebuilt_from_its_folder(made: Made) -> None:
    score = ToyTask().evaluate(simulate(made), ToyData(), "validation", 64, "cpu")
    assert score == made.result.validation
    assert score["accuracy"] > 0.8


def test_parts_of_a_concatenation_share_one_scale_and_a_residual_addition_reads_what_the_layer_reads(
    made: Made,
) -> None:
    scales = {entry.point: (entry.scale, entry.zero_point) for entry in made.learned.activations}
    assert scales["cat"] == scales["right_0"] == scales["relu_2"]
    assert "pool" not in scales  # max pooling keeps the scale of what it reads
    assert "add" not in scales  # it is rounded behind its activation function


def test_dropout_stays_a_dropout_even_where_it_is_written_as_a_function(made: Made) -> None:
    network = simulate(made)
    kept = [layer for layer in network.modules() if isinstance(layer, torch.nn.Dropout)]
    assert sorted(layer.p for layer in kept) == [0.1, 0.2]
    inputs = ToyData().inputs[:8]
    assert not torch.equal(network.train()(inputs), network(inputs))
    assert torch.equal(network.eval()(inputs), network(inputs))
