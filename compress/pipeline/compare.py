"""Two runs side by side: `edgepress compare RUN RUN`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from compress.pipeline.text import size, table
from compress.report.model import Interval, Measurement
from compress.report.terminal import load_report

Unit = Literal["fraction", "ms", "bytes", "count"]


@dataclass(frozen=True)
class Difference:
    """One measurement of one variant in two runs. None where a run has not measured it."""

    variant: str
    measurement: str
    unit: Unit
    first: float | None
    second: float | None
    note: str | None = None
    """`no difference` where the two intervals overlap."""


@dataclass(frozen=True)
class Comparison:
    """`changed` names the keys of the recipe whose values differ between the runs."""

    first: Path
    second: Path
    changed: tuple[str, ...]
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class _Figure:
    unit: Unit
    value: float | None
    interval: Interval | None = None


def compare(first: Path, second: Path) -> Comparison:
    """Compares two run folders (or their report.json). Raises RecipeError for a folder without a readable report."""
    one, two = load_report(first), load_report(second)
    differences = []
    for variant in dict.fromkeys((*one.variants, *two.variants)):
        left, right = _figures(one.variants.get(variant)), _figures(two.variants.get(variant))
        for name in dict.fromkeys((*left, *right)):
            differences.append(_difference(variant, name, left.get(name), right.get(name)))
    return Comparison(first, second, tuple(_changed(one.recipe, two.recipe)), tuple(differences))


def render_comparison(comparison: Comparison) -> str:
    """The comparison as a table for a terminal: what differs, and how many measurements don't."""
    differing = [item for item in comparison.differences if item.first != item.second]
    rows = [("variant", "measurement", "first", "second", "change", "")]
    for item in differing:
        rows.append(
            (
                item.variant,
                item.measurement,
                _text(item.first, item.unit),
                _text(item.second, item.unit),
                _change(item),
                item.note or "",
            )
        )
    lines = [f"first:  {comparison.first}", f"second: {comparison.second}"]
    lines.append(f"recipe: {', '.join(comparison.changed)} differ" if comparison.changed else "recipe: the same")
    lines += ["", *table(rows)] if differing else []
    equal = len(comparison.differences) - len(differing)
    return "\n".join([*lines, "", f"{equal} of {len(comparison.differences)} measurements are equal"])


def _figures(measurement: Measurement | None) -> dict[str, _Figure]:
    if measurement is None:
        return {}
    figures = {
        name: _Figure("fraction", value, measurement.quality_interval.get(name))
        for name, value in measurement.quality.items()
    }
    latency = measurement.latency_ms
    if latency is not None:
        figures["latency median"] = _Figure("ms", latency.median, latency.median_interval)
        figures["latency p90"] = _Figure("ms", latency.p90)
    figures["file size"] = _Figure("bytes", measurement.bytes)
    figures["parameters"] = _Figure("count", measurement.parameters)
    figures["MACs"] = _Figure("count", measurement.macs)
    figures["peak memory"] = _Figure("bytes", measurement.peak_memory_bytes)
    figures["INT8 share of weights"] = _Figure("fraction", measurement.int8_share.weights)
    figures["INT8 share of MACs"] = _Figure("fraction", measurement.int8_share.macs)
    return figures


def _difference(variant: str, name: str, left: _Figure | None, right: _Figure | None) -> Difference:
    known = left or right
    assert known is not None  # the name came from one of them
    note = None
    if left is None or right is None:
        note = f"only in the {'second' if left is None else 'first'}"
    elif left.interval is not None and right.interval is not None and left.value != right.value:
        overlap = left.interval[0] <= right.interval[1] and right.interval[0] <= left.interval[1]
        note = "no difference" if overlap else None
    return Difference(variant, name, known.unit, left.value if left else None, right.value if right else None, note)


def _changed(one: Any, two: Any, path: str = "") -> Iterator[str]:
    """Dotted paths of what differs; entries of `stages` are told by id."""
    one, two = _by_id(one), _by_id(two)
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        for key in dict.fromkeys((*one, *two)):
            yield from _changed(one.get(key), two.get(key), f"{path}.{key}" if path else str(key))
    elif one != two:
        yield path


def _by_id(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(item, Mapping) and "id" in item for item in value):
        return {item["id"]: item for item in value}
    return value


def _text(value: float | None, unit: Unit) -> str:
    if value is None:
        return "-"
    match unit:
        case "fraction":
            return f"{value:.2%}"
        case "ms":
            return f"{value:.3f} ms"
        case "bytes":
            return size(value)
        case _:
            return f"{value:,.0f}"


def _change(item: Difference) -> str:
    if item.first is None or item.second is None:
        return ""
    if item.unit == "fraction":
        return f"{(item.second - item.first) * 100:+.2f} points"
    return f"{item.second / item.first - 1:+.1%}" if item.first else ""
