"""Figures as people read them: signed percents, points, intervals, sizes. Shared by Markdown, HTML and the terminal."""

from __future__ import annotations

from compress.report.model import Comparison, Interval, Measurement, Report, Unit

MINUS = "\N{MINUS SIGN}"
NONE = "-"


def signed(value: float, digits: int = 1) -> str:
    """A relative change in percent with its sign: -0.45 is `−45.0 %`."""
    text = f"{value * 100:+.{digits}f} %"
    return _tidy(text)


def points(value: float, digits: int = 2) -> str:
    """An absolute change of a metric, in percentage points: -0.008 is `−0.80`."""
    return _tidy(f"{value * 100:+.{digits}f}")


def percent(value: float, digits: int = 2) -> str:
    """A share in percent: 0.9812 is `98.12 %`."""
    return _tidy(f"{value * 100:.{digits}f} %")


def interval(bounds: Interval | None, digits: int = 1) -> str:
    """An interval of relative changes in percent, or nothing: `[−46.0, −44.1]`."""
    if bounds is None:
        return ""
    return f"[{_tidy(f'{bounds[0] * 100:+.{digits}f}')}, {_tidy(f'{bounds[1] * 100:+.{digits}f}')}]"


def size(count: int) -> str:
    """Bytes in the largest binary unit that leaves at least one: 4404019 is `4.20 MiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.2f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


def milliseconds(value: float) -> str:
    """Three significant digits: 0.1234 is `0.123 ms`."""
    return f"{value:.3g} ms" if value < 1000 else f"{value:.0f} ms"


def duration(seconds: float) -> str:
    """`3 min 20 s`, `12.4 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def number(value: float, unit: Unit) -> str:
    """A gate's number in its unit."""
    if unit == "fraction":
        return percent(value)
    if unit == "ms":
        return milliseconds(value)
    return size(int(value)) if unit == "bytes" else f"{value:.0f}"


def latency_words(comparison: Comparison) -> str:
    """`61.0 % faster [59.2, 62.5]`, `14.1 % slower [...]`, `no difference in latency [...]`."""
    if comparison.latency is None or comparison.latency_interval is None:
        return "latency not measured"
    low, high = comparison.latency_interval
    if comparison.latency_change == "no difference":
        return f"no difference in latency {interval((low, high))}"
    if comparison.latency < 0:
        return f"{percent(-comparison.latency, 1)} faster [{-high * 100:.1f}, {-low * 100:.1f}]"
    return f"{percent(comparison.latency, 1)} slower [{low * 100:.1f}, {high * 100:.1f}]"


def quality_words(comparison: Comparison, metric: str) -> str:
    """The paired change of the metric in points with its interval, and whether it is one."""
    text = f"{metric} {points(comparison.quality)} points {interval(comparison.quality_interval, 2)}"
    return f"{text} (no difference)" if comparison.quality_change == "no difference" else text


def size_words(comparison: Comparison) -> str:
    """`13.2 times smaller`, `4.0 % smaller`, `equal in size`, `2.0 % larger`."""
    if comparison.bytes <= -0.5:
        return f"{1 / (1 + comparison.bytes):.1f} times smaller"
    if abs(comparison.bytes) < 5e-4:
        return "equal in size"
    return f"{percent(abs(comparison.bytes), 1)} {'smaller' if comparison.bytes < 0 else 'larger'}"


def best(report: Report) -> str | None:
    """Key of the file to speak of first: the one that gates ask for, else the fastest that loses no quality.

    Where every file loses quality, the one that loses least. None when nothing was compared with a baseline.
    """
    compared = {key: entry.relative for key, entry in report.variants.items() if entry.relative is not None}
    for gate in report.gates:
        for key in compared:
            entry = report.variants[key]
            if key == gate.of or (entry.name == gate.of and entry.engine == gate.engine):
                return key
    kept = {key: relative for key, relative in compared.items() if relative.quality_change != "worse"}
    if kept:
        return min(kept, key=lambda key: (kept[key].latency if kept[key].latency is not None else 0.0, kept[key].bytes))
    return max(compared, key=lambda key: compared[key].quality, default=None)


def headline(report: Report) -> str:
    """One sentence: the best file against its baseline."""
    key = best(report)
    if key is None:
        return "Nothing was compared with a baseline."
    entry = report.variants[key]
    relative = entry.relative
    assert relative is not None  # `best` gives compared files only
    return (
        f"{key} is {size_words(relative)} than {relative.of} and {latency_words(relative)} on {entry.engine} "
        f"({entry.threads} thread{'s' if entry.threads != 1 else ''}); {quality_words(relative, entry.metric)}."
    ).replace("equal in size than", "equal in size to")


def strays(report: Report) -> list[str]:
    """A sentence for every fp32 file that loses quality against its own torch model: the engine or the conversion."""
    return [
        f"Wrong before INT8: {key} loses against its torch model, {entry.metric} {points(change.quality)} points "
        f"{interval(change.quality_interval, 2)} on {entry.engine}."
        for key, entry in report.variants.items()
        if entry.precision == "fp32"
        and (change := entry.relative_to_torch) is not None
        and change.quality_change == "worse"
    ]


def losses(report: Report) -> list[str]:
    """A sentence for every quantized file that is not faster than its own float file on the same engine."""
    return [sentence for key, entry in report.variants.items() if (sentence := _loss(key, entry)) is not None]


def _loss(key: str, entry: Measurement) -> str | None:
    comparison = entry.relative_to_float
    if not entry.precision.startswith("int8") or comparison is None or comparison.latency_change is None:
        return None
    if comparison.latency_change == "worse":
        return f"INT8 lost: {key} is {latency_words(comparison)} than {comparison.of} on {entry.engine}."
    if comparison.latency_change == "no difference":
        return (
            f"INT8 gained no speed: {key} shows {latency_words(comparison)} against {comparison.of} on {entry.engine}."
        )
    return None


def _tidy(text: str) -> str:
    """A proper minus sign, and no sign on a rounded zero."""
    number = text.split()[0]
    if float(number) == 0:
        text = text.replace("+", "").replace("-", "")
    return text.replace("-", MINUS)
