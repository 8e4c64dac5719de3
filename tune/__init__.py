"""Optuna studies over any objective: many workers, trials that survive them, and pruning with several objectives.

Knows no recipe and no framework. Optuna itself is imported by the modules that need it, when they are used.
"""

from __future__ import annotations

from tune.errors import (
    EveryTrialFailed,
    MissingPackage,
    StorageUnreachable,
    StudyChanged,
    TrialCut,
    TrialLost,
    TuneError,
    UsageError,
)
from tune.settings import Objective, Pruner, StudySettings
from tune.space import Categorical, Range, Space, parse_space

__all__ = [
    "Categorical",
    "EveryTrialFailed",
    "MissingPackage",
    "Objective",
    "Pruner",
    "Range",
    "Space",
    "StorageUnreachable",
    "StudyChanged",
    "StudySettings",
    "TrialCut",
    "TrialLost",
    "TuneError",
    "UsageError",
    "parse_space",
]
