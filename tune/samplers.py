"""Optuna's samplers and pruners by the names that settings use, and designs: points that are fixed before any trial."""

from __future__ import annotations

import itertools
import math
import random
import warnings
from typing import TYPE_CHECKING, Any

from tune.errors import MissingPackage
from tune.settings import Pruner, StudySettings
from tune.space import Categorical, Choice, Parameter, Range, Space, grid

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

_LARGEST_POPULATION = 50


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The space as Optuna describes it."""
    return {name: _distribution(parameter) for name, parameter in space.parameters.items()}


def _distribution(parameter: Parameter) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(parameter, Categorical):
        return CategoricalDistribution(parameter.choices)
    if parameter.whole:
        step = int(parameter.step) if parameter.step is not None else 1
        return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log, step=step)
    return FloatDistribution(parameter.low, parameter.high, log=parameter.log, step=parameter.step)


def build_sampler(settings: StudySettings, seed: int) -> BaseSampler:
    """The sampler of one worker; every worker needs a seed of its own. Raises MissingPackage (CMA-ES).

    A sampler with a design proposes nothing itself: every trial has its point already.
    """
    from optuna import samplers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ExperimentalWarning
        match settings.sampler:
            case "tpe":
                return samplers.TPESampler(seed=seed)
            case "cma-es":
                if not _installed("cmaes"):
                    raise MissingPackage("the sampler cma-es needs the package 'cmaes'; install edgepress[tune]")
                return samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
            case "nsga-ii":
                population = min(_LARGEST_POPULATION, max(4, settings.trials // 5))
                return samplers.NSGAIISampler(seed=seed, population_size=population)
            case _:
                return samplers.RandomSampler(seed=seed)


def build_pruner(pruner: Pruner) -> BasePruner:
    """The pruner of a study with one objective. Steps are counted from 1: a report after the first epoch is step 1."""
    from optuna import pruners

    median = pruners.MedianPruner(n_startup_trials=pruner.startup, n_warmup_steps=pruner.warmup + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ExperimentalWarning
        match pruner.use:
            case "median":
                return median
            case "patient":
                return pruners.PatientPruner(median, patience=pruner.patience)
            case "successive-halving":
                return pruners.SuccessiveHalvingPruner(
                    min_resource=max(1, pruner.warmup), reduction_factor=pruner.reduction
                )
            case "hyperband":
                return pruners.HyperbandPruner(
                    min_resource=max(1, pruner.warmup),
                    max_resource=pruner.most if pruner.most is not None else "auto",
                    reduction_factor=pruner.reduction,
                )
            case "wilcoxon":
                return pruners.WilcoxonPruner(p_threshold=pruner.p, n_startup_steps=max(2, pruner.warmup))
            case _:
                return pruners.NopPruner()


def design(settings: StudySettings) -> list[dict[str, Choice]] | None:
    """The points of all trials in order, for samplers that have a design; None for the others.

    A grid is tried in a random order that the seed fixes, so that its first points are spread over it, and that stays
    the same when trials are added. Raises UsageError for a space that has no grid, MissingPackage (qmc).
    """
    if settings.sampler == "grid":
        points = list(grid(settings.space))
        random.Random(settings.seed).shuffle(points)
        return points[: settings.trials]
    return sobol(settings.space, settings.trials, settings.seed) if settings.sampler == "qmc" else None


def sobol(space: Space, count: int, seed: int) -> list[dict[str, Choice]]:
    """The first `count` points of a scrambled Sobol sequence (Owen 1998) over the space. Raises MissingPackage.

    Made here and not by Optuna's sampler, whose workers may draw the same point of the sequence.
    """
    try:
        from scipy.stats import qmc
    except ModuleNotFoundError as error:
        raise MissingPackage("the sampler qmc needs the package 'scipy'; install edgepress[tune]") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on counts that are no power of two: the balance is a little less
        rows: Any = qmc.Sobol(len(space.parameters), scramble=True, rng=seed).random(count)
    names = list(space.parameters.items())
    return [
        {name: _at(parameter, float(place)) for (name, parameter), place in zip(names, row, strict=True)}
        for row in itertools.islice(rows, count)
    ]


def _at(parameter: Parameter, place: float) -> Choice:
    """The value at a place in [0, 1) of a parameter's range."""
    if isinstance(parameter, Categorical):
        return parameter.choices[min(int(place * len(parameter.choices)), len(parameter.choices) - 1)]
    if parameter.log:
        # Whole numbers get equal widths on the logarithmic scale by reaching half a step beyond both ends.
        edge = 0.5 if parameter.whole else 0.0
        low, high = math.log(parameter.low - edge), math.log(parameter.high + edge)
        value = math.exp(low + place * (high - low))
    elif parameter.step is not None or parameter.whole:
        step = parameter.step or 1
        count = math.floor((parameter.high - parameter.low) / step + 1e-9) + 1
        value = parameter.low + step * min(int(place * count), count - 1)
    else:
        value = parameter.low + place * (parameter.high - parameter.low)
    value = min(max(value, parameter.low), parameter.high)
    return round(value) if isinstance(parameter, Range) and parameter.whole else value


def _installed(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None
