from __future__ import annotations

import pytest

from compress.report.proof import MeasuredProof
from tests.report.made_up import chain_proof


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> MeasuredProof:
    """One made-up proof of baseline, pruned and student, TFLite in fp32 and INT8; immutable, so shared."""
    return chain_proof(tmp_path_factory.mktemp("chain"))
