"""docs/stages.md is what the command prints."""

from __future__ import annotations

import pytest

from compress.__main__ import main
from tests.docs.pages import read


def test_the_page_of_stages_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stages", "--format", "markdown"]) == 0
    assert read("stages.md") == capsys.readouterr().out, (
        "write it anew: python -m compress stages --format markdown > docs/stages.md"
    )
