"""The benchmark scripts are no package: they run from their folder, and are imported here the same way."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
