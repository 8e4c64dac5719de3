"""A working directory in which the pages' recipes find the files that they name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks

RUN = "2026-01-31T12-00-00Z"
ENVIRONMENT = {"DATA": "data", "RUN": RUN}
_FOLDERS = ("photos/train", "photos/test", "data", f"runs/quickstart/{RUN}/variants/baseline", "recipes")
_FILES = ("data/train-0.tar", "data/train-1.tar", "data/test.tar", "mine.safetensors", "resnet18.safetensors")


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files that snippets name exist and are empty; Python blocks with a file name lie there as modules."""
    for folder in _FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
    for file in _FILES:
        (tmp_path / file).touch()
    for recipe in (ROOT / "recipes").glob("*.yaml"):
        (tmp_path / "recipes" / recipe.name).write_bytes(recipe.read_bytes())
    modules = []
    for block in (block for page in PAGES for block in blocks(page, "python") if len(block.info) > 1):
        (tmp_path / block.info[1]).write_text(block.text, encoding="utf-8")
        modules.append(block.info[1].removesuffix(".py"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    yield tmp_path
    for module in modules:
        sys.modules.pop(module, None)
