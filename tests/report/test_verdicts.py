from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compress.report.claims import load_claims
from compress.report.model import Verdict
from compress.report.proof import MeasuredProof
from compress.report.verdicts import Techniques, judge, verdicts
from tests.report.made_up import BASELINE, PRUNED, STUDENT, chain_proof, file_variant, make_proof, recipe

VARIANTS = {variant.name: variant for variant in (BASELINE, PRUNED, STUDENT)}


@pytest.mark.parametrize(
    ("measured", "outcome"),
    [
        ((-0.60, -0.50), "beats"),
        ((-0.50, -0.40), "reproduces"),
        ((-0.45, -0.40), "reproduces"),
        ((-0.40, -0.30), "falls short"),
        ((0.10, 0.20), "falls short"),
    ],
)
def test_a_claim_of_less_is_beaten_only_by_the_whole_interval(measured: tuple[float, float], outcome: str) -> None:
    assert judge((-0.45, -0.45), "lower", measured) == outcome


@pytest.mark.parametrize(
    ("measured", "outcome"),
    [
        ((-0.005, 0.001), "beats"),
        ((-0.009, -0.001), "reproduces"),
        ((-0.02, -0.009), "falls short"),
    ],
)
def test_a_claim_of_a_small_loss_is_beaten_by_a_smaller_one(measured: tuple[float, float], outcome: str) -> None:
    assert judge((-0.008, -0.008), "higher", measured) == outcome


def test_a_claimed_range_is_reproduced_where_the_interval_meets_it() -> None:
    assert judge((-0.5, -0.4), "lower", (-0.45, -0.44)) == "reproduces"
    assert judge((-0.5, -0.4), "lower", (-0.6, -0.51)) == "beats"
    assert judge((-0.5, -0.4), "lower", (-0.39, -0.3)) == "falls short"


def by_claim(results: tuple[Verdict, ...]) -> dict[str, Verdict]:
    return {verdict.claim: verdict for verdict in results}


def all_verdicts(proof: MeasuredProof, task: str = "image-classification") -> tuple[Verdict, ...]:
    asked = replace(recipe(), task=task)
    return verdicts(load_claims("compression-table"), asked, Techniques.of(recipe(), VARIANTS), [proof])


def test_every_row_of_the_table_is_answered_by_the_chain(chain: MeasuredProof) -> None:
    found = by_claim(all_verdicts(chain))
    assert found["int8-quantization.latency"].verdict == "falls short"
    assert found["int8-quantization.latency"].measured == pytest.approx(0.14, abs=0.01)
    assert found["int8-quantization.size"].verdict == "falls short"
    assert found["int8-quantization.quality"].verdict == "beats"
    assert found["pruning-50.parameters"].verdict == "beats"
    assert found["pruning-50.latency"].verdict == "beats"
    assert found["pruning-50.latency"].of == "pruned/tflite-fp32"
    assert found["prune-distill.latency"].of == "student/tflite-fp32"
    assert found["prune-distill.latency"].against == "baseline/tflite-fp32 (litert fp32)"


def test_int8_is_set_against_the_same_engines_float_of_the_uncut_model(chain: MeasuredProof) -> None:
    rows = [verdict for verdict in all_verdicts(chain) if verdict.claim == "int8-quantization.latency"]
    assert [row.of for row in rows] == ["baseline/tflite-int8"]
    assert rows[0].against == "baseline/tflite-fp32 (litert fp32)"


def test_a_claim_that_no_file_answers_is_not_measured_and_says_how_it_would_be(chain: MeasuredProof) -> None:
    row = by_claim(all_verdicts(chain))["edge.network-latency"]
    assert row.verdict == "not measured"
    assert row.measured is None
    assert row.note is not None
    assert "shaped link" in row.note


def test_every_claim_has_at_least_one_row(chain: MeasuredProof) -> None:
    assert {verdict.claim for verdict in all_verdicts(chain)} == {c.id for c in load_claims("compression-table")}


def test_a_light_cut_does_not_answer_what_half_of_the_parameters_costs(tmp_path: Path) -> None:
    """Cutting 10 % loses little quality: that must not beat a claim about cutting 50 %."""
    from dataclasses import replace

    light = replace(PRUNED, parameters=900_000)
    whole = file_variant(tmp_path, BASELINE, "tflite", "fp32", 4000)
    cut = file_variant(tmp_path, light, "tflite", "fp32", 3600)
    files = {whole.name: (whole, "litert", 10.0, 0.02), cut.name: (cut, "litert", 9.0, 0.02)}
    found = by_claim(all_verdicts(make_proof(tmp_path, files, whole.name)))
    assert found["pruning-50.parameters"].verdict == "falls short"
    assert found["pruning-50.quality"].verdict == "not measured"
    assert "−50 % parameters" in str(found["pruning-50.quality"].note)


def test_rows_on_another_task_than_the_claims_are_marked_as_an_extension(chain: MeasuredProof) -> None:
    assert by_claim(all_verdicts(chain))["int8-quantization.size"].extension
    assert not by_claim(all_verdicts(chain, "text-classification"))["int8-quantization.size"].extension


def test_what_was_measured_names_the_command_that_measures_it_again(chain: MeasuredProof) -> None:
    rows = all_verdicts(chain)
    assert {row.command for row in rows if row.verdict != "not measured"} == {"python -m compress run recipe.yaml"}
    assert {row.command for row in rows if row.verdict == "not measured"} == {None}


def test_a_quality_claim_in_another_metric_says_so(chain: MeasuredProof) -> None:
    row = by_claim(all_verdicts(chain))["prune-distill.quality"]
    assert "the claim is in roc_auc, measured in accuracy" in str(row.note)


def test_without_timing_latency_claims_are_not_measured(tmp_path: Path) -> None:
    found = by_claim(all_verdicts(chain_proof(tmp_path, timed=False)))
    assert found["int8-quantization.latency"].verdict == "not measured"
    assert found["int8-quantization.size"].verdict == "falls short"


def test_every_engine_that_ran_int8_gets_its_own_row(tmp_path: Path) -> None:
    fp32 = file_variant(tmp_path, BASELINE, "onnx", "fp32", 400)
    int8 = file_variant(tmp_path, BASELINE, "onnx", "int8", 100)
    files = {
        f"{variant.name}{suffix}": (variant, engine, ms, 0.0)
        for variant, base in ((fp32, 10.0), (int8, 5.0))
        for suffix, engine, ms in (("", "onnxruntime", base), ("@openvino", "openvino", base * 0.9))
    }
    rows = [
        verdict
        for verdict in all_verdicts(make_proof(tmp_path, files, fp32.name))
        if verdict.claim == "int8-quantization.latency"
    ]
    assert [row.of for row in rows] == ["baseline/onnx-int8", "baseline/onnx-int8@openvino"]
    assert [row.against for row in rows] == [
        "baseline/onnx-fp32 (onnxruntime fp32)",
        "baseline/onnx-fp32@openvino (openvino fp32)",
    ]
    assert all(row.verdict == "beats" for row in rows)


def test_a_size_is_answered_once_for_each_file_however_many_engines_ran_it(tmp_path: Path) -> None:
    fp32 = file_variant(tmp_path, BASELINE, "onnx", "fp32", 400)
    int8 = file_variant(tmp_path, BASELINE, "onnx", "int8", 100)
    files = {
        f"{variant.name}{suffix}": (variant, engine, 1.0, 0.0)
        for variant in (fp32, int8)
        for suffix, engine in (("", "onnxruntime"), ("@openvino", "openvino"))
    }
    found = all_verdicts(make_proof(tmp_path, files, fp32.name))
    assert [v.of for v in found if v.claim == "int8-quantization.size"] == ["baseline/onnx-int8"]
    assert len([v for v in found if v.claim == "int8-quantization.quality"]) == 2


def test_techniques_follow_a_variant_back_through_the_recipe() -> None:
    techniques = Techniques.of(recipe(), VARIANTS)
    assert techniques.uses("student") == {"train", "prune", "distill"}
    assert techniques.start("student") == "baseline"
    assert techniques.start("pruned") == "baseline"
    assert techniques.start("baseline") is None
