"""What a key depends on, and what it does not: byte by byte."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from compress.pipeline import key as keys
from compress.pipeline.key import canonical, stage_seed, versions
from compress.recipe.model_reference import ModelReference
from edge_runtime.engines import EngineSpec, engine_specs
from tests.pipeline.conftest import STEPS, Project
from tests.pipeline.fakes import MakeSettings, registry

CODE = '''
"""A user's module."""
from user_helper import halve

def loss(outputs, targets):
    return halve((outputs - targets) ** 2)
'''
HELPER = """
def halve(value):
    return value / 2
"""


@pytest.fixture
def user_code(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module beside the recipe that the recipe names, and a helper that this module imports."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (project.path / "user_loss.py").write_text(CODE)
    (project.path / "user_helper.py").write_text(HELPER)
    project.replaced("size: 2000", "size: 2000\n    loss: user_loss:loss")
    importlib.invalidate_caches()
    return project.path


def computed(project: Project, *overrides: str) -> list[str]:
    """Runs, and names the stages that were computed."""
    project.run(*overrides)
    return [event.stage or "" for event in project.events if event.kind == "stage-finished"]


ALL = ["baseline", "small", "student", "files", "files"]


def test_one_byte_of_calibration_data_is_a_miss(project: Project) -> None:
    assert computed(project) == ALL
    assert computed(project) == []
    (project.data / "calibration.bin").write_bytes(b"abd")
    assert computed(project) == ALL


def test_one_byte_of_a_loss_function_is_a_miss(project: Project, user_code: Path) -> None:
    assert computed(project) == ALL
    assert computed(project) == []
    (user_code / "user_loss.py").write_text(CODE.replace("** 2", "** 4"))
    assert computed(project)[0] == "baseline"


def test_one_byte_of_what_a_loss_function_imports_is_a_miss(project: Project, user_code: Path) -> None:
    assert computed(project) == ALL
    (user_code / "user_helper.py").write_text(HELPER.replace("/ 2", "/ 3"))
    assert computed(project)[0] == "baseline"


def test_code_that_built_a_parent_is_a_miss_for_every_stage_that_takes_it(project: Project, user_code: Path) -> None:
    """Weights and scores may come out equal: what the network computes is not what it was."""
    first = computed(project)
    (user_code / "user_helper.py").write_text(HELPER.replace("/ 2", "/ 3"))
    assert first == computed(project) == ALL
    assert computed(project) == []


def test_code_that_built_a_saved_variant_is_part_of_the_key(tmp_path: Path) -> None:
    from compress.models.builders import MODEL_SOURCES
    from compress.recipe.registry import Registry

    known = Registry({}, {}, {name: source.Settings for name, source in MODEL_SOURCES.items()}, {}, (), ())
    builder = {"source": "module:function", "arguments": {"function": "user_nets:small"}}
    (tmp_path / "architecture.json").write_text(json.dumps({"builder": builder}))
    model = ModelReference.model_validate({"source": "variant", "directory": str(tmp_path)})
    assert "user_nets" in keys._modules_of_settings(model, known)


def test_a_module_that_the_recipe_does_not_name_is_no_miss(project: Project, user_code: Path) -> None:
    computed(project)
    (user_code / "other.py").write_text("x = 1\n")
    assert computed(project) == []


def test_one_byte_of_the_task_is_a_miss_for_every_stage(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    computed(project)
    _change_source(monkeypatch, "tests.pipeline.fakes")
    assert computed(project)[0] == "baseline"


def test_a_comment_the_order_of_keys_and_the_name_of_the_file_are_hits(project: Project) -> None:
    computed(project)
    project.replaced("    use: make\n    size: 2000\n", "    size: 2000  # bytes\n    use: make\n\n")
    project.replaced("recipe: 1\nname: chain\nseed: 7\n", "# a comment\nseed: 7\nname: chain\nrecipe: 1\n")
    project.name = "renamed.yml"
    assert computed(project) == []


def test_the_name_of_the_recipe_is_a_hit(project: Project) -> None:
    computed(project)
    assert computed(project.replaced("name: chain", "name: other")) == []


def test_a_default_that_is_written_out_is_a_hit(project: Project) -> None:
    computed(project)
    assert computed(project.replaced("size: 2000", "size: 2000\n    steps: 3\n    note: ''")) == []


@pytest.mark.parametrize("change", ["stages.baseline.size=2001", "stages.baseline.note=x", "seed=8"])
def test_a_setting_and_the_seed_are_misses(project: Project, change: str) -> None:
    computed(project)
    assert computed(project, change)[0] == "baseline"


def test_a_setting_of_a_later_stage_leaves_earlier_ones_alone(project: Project) -> None:
    computed(project)
    assert computed(project, "stages.student.keep=0.3") == ["student", "files"]


def test_a_parent_that_comes_out_equal_makes_no_child_new(project: Project) -> None:
    """The key holds what a parent is, not how it was made."""
    computed(project)
    assert computed(project, "stages.baseline.pause=0.001") == ["baseline"]


def test_a_reference_counts_like_a_parent(project: Project) -> None:
    project.replaced("teacher: baseline", "teacher: other").replaced(
        "  - id: small", "  - {id: other, use: make, size: 500}\n  - id: small"
    )
    computed(project)
    assert computed(project, "stages.other.note=better") == ["other", "student", "files"]


def test_renaming_a_stage_is_a_miss_because_its_seed_comes_from_its_name(project: Project) -> None:
    computed(project)
    assert computed(project.replaced("id: small", "id: tiny").replaced("from: small", "from: tiny"))[0] == "tiny"


def test_the_content_of_a_named_file_counts_and_its_place_does_not(project: Project) -> None:
    weights = project.path / "weights.bin"
    weights.write_bytes(b"123")
    assert computed(project, f"stages.baseline.weights={weights}") == ALL
    moved = project.path / "elsewhere.bin"
    weights.rename(moved)
    assert computed(project, f"stages.baseline.weights={moved}") == []
    moved.write_bytes(b"124")
    assert computed(project, f"stages.baseline.weights={moved}")[0] == "baseline"


def test_the_place_of_the_data_does_not_count(project: Project) -> None:
    computed(project)
    project.data.rename(project.path / "moved")
    (project.path / "data").symlink_to(project.path / "moved")
    project.replaced("${DATA}", str(project.path / "moved"))
    assert computed(project) == []


def test_settings_of_the_data_count(project: Project) -> None:
    computed(project)
    assert computed(project, "data.scale=0.5")[0] == "baseline"


def test_the_target_counts(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    computed(project, "target=arm-cortex-a53")
    assert computed(project, "target=arm-cortex-a76")[0] == "baseline"


def test_versions_of_the_packages_of_a_stage_count(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    computed(project)
    real = keys.version
    monkeypatch.setattr(keys, "version", lambda name: "99.0" if name == "numpy" else real(name))
    assert computed(project)[0] == "baseline"


@pytest.mark.parametrize("stage", ["load", "train", "prune", "distill", "quantize", "export", "benchmark"])
def test_what_builds_networks_and_decodes_images_counts_for_every_stage(stage: str) -> None:
    """A parent that comes out equal under a new version must not serve what the old version made of it."""
    from compress.pipeline.registry import installed_registry

    assert {"torch", "torchvision", "numpy", "pillow"} <= set(installed_registry().stages[stage].packages)


def test_processor_and_engines_count_for_measuring_stages_alone(
    measured: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(computed(measured)) == STEPS + 1
    monkeypatch.setattr(keys, "processor", lambda: "another processor")
    assert computed(measured) == ["proof"]
    real = keys.version
    monkeypatch.setattr(keys, "version", lambda name: "99.0" if name == "onnxruntime" else real(name))
    assert computed(measured) == ["proof"]
    built_in = engine_specs()
    other = EngineSpec("other", "other_engine", "other_engine", "other-engine", "other", (".onnx",))
    monkeypatch.setattr("edge_runtime.engines.engine_specs", lambda: built_in | {"other": other})
    assert computed(measured) == ["proof"]


def test_a_key_has_256_bits_and_the_provenance_that_it_follows_from(project: Project) -> None:
    from compress.pipeline.files import digest_of
    from compress.pipeline.record import Record

    project.run()
    for key in project.store.stored_keys():
        found = project.store.read(key)
        assert isinstance(found, Record)
        assert len(key) == 64
        assert digest_of(found.provenance) == key
        assert found.provenance["sources"]["tests.pipeline.fakes"]


def test_the_seed_of_a_stage_depends_on_the_recipe_and_on_its_id() -> None:
    assert stage_seed(0, "baseline") == stage_seed(0, "baseline")
    assert len({stage_seed(seed, name) for seed in (0, 1) for name in ("a", "b")}) == 4
    assert 0 <= stage_seed(123, "x") < 2**32


def test_a_missing_package_is_part_of_the_key_too() -> None:
    assert versions(["numpy", "no-such-distribution"])["no-such-distribution"] == "missing"


def test_a_model_reference_counts_by_the_settings_of_its_source() -> None:
    from compress.models.builders import MODEL_SOURCES
    from compress.recipe.registry import Registry

    known = Registry({}, {}, {name: source.Settings for name, source in MODEL_SOURCES.items()}, {}, (), ())
    short = canonical(ModelReference.model_validate({"source": "residual"}), known)
    written_out = canonical(ModelReference.model_validate({"source": "residual", "blocks": [3], "width": 16}), known)
    assert short == written_out
    assert short != canonical(ModelReference.model_validate({"source": "residual", "width": 8}), known)


def test_a_saved_variant_that_is_the_model_counts_by_content(tmp_path: Path) -> None:
    from compress.models.builders import MODEL_SOURCES
    from compress.recipe.registry import Registry

    known = Registry({}, {}, {name: source.Settings for name, source in MODEL_SOURCES.items()}, {}, (), ())
    (tmp_path / "one").mkdir()
    (tmp_path / "one/weights.safetensors").write_bytes(b"123")
    (tmp_path / "two").mkdir()
    (tmp_path / "two/weights.safetensors").write_bytes(b"123")
    one, two = (
        canonical(ModelReference.model_validate({"source": "variant", "directory": str(tmp_path / name)}), known)
        for name in ("one", "two")
    )
    assert one == two
    (tmp_path / "two/weights.safetensors").write_bytes(b"124")
    again = ModelReference.model_validate({"source": "variant", "directory": str(tmp_path / "two")})
    assert canonical(again, known) != one


def test_settings_are_canonical_whatever_their_types() -> None:
    assert canonical(MakeSettings(size=3), registry()) == {
        "size": 3,
        "steps": 3,
        "epochs": None,
        "pause": 0.0,
        "loss": None,
        "weights": None,
        "note": "",
    }
    assert canonical({"b": (1, 2), "a": {"y", "x"}}, registry()) == {"b": [1, 2], "a": ["x", "y"]}


def _change_source(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """As if a byte of a module's file were another, without touching the file."""
    from compress.pipeline import sources

    real = sources._read

    def read(found: object, path: Path) -> object:
        content = real(found, path)  # type: ignore[arg-type]
        if getattr(found, "name", "") != module:
            return content
        return sources._Content("0" * 64, content.imports, content.eager, content.data)

    monkeypatch.setattr(sources, "_read", read)
