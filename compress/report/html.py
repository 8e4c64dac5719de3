"""report.html: one self-contained page, the report's text with one chart. No script, nothing loaded from elsewhere."""

from __future__ import annotations

import math
import re
from html import escape

from compress.report import text
from compress.report.markdown import render_markdown
from compress.report.model import Measurement, Report

_WIDTH, _HEIGHT, _MARGIN = 760, 380, 56
_COLOURS = {"fp32": "#4c72b0", "fp16": "#8172b3", "int8-dynamic": "#ccb974", "int8": "#c44e52"}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0 }
td, th { border-bottom: 1px solid #ddd; padding: .25rem .6rem; text-align: right; white-space: nowrap }
td:first-child, th:first-child { text-align: left }
svg text { font: 11px system-ui, sans-serif; fill: #444 }
""".strip()


def render_html(report: Report) -> str:
    """The page: the Markdown report's sections as HTML, and a chart of size against quality."""
    body = _from_markdown(render_markdown(report))
    chart = render_chart(report)
    head, _, rest = body.partition("<h2>")
    page = f"{head}{chart}{'<h2>' if rest else ''}{rest}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(report.name)}</title><style>{STYLE}</style></head>\n<body>\n{page}\n</body></html>\n"
    )


def render_chart(report: Report) -> str:
    """SVG: file size (logarithmic) against quality; the area of a circle is the median latency. Empty without files."""
    entries = list(report.variants.items())
    if not entries:
        return ""
    sizes = [math.log10(entry.bytes) for _, entry in entries]
    qualities = [entry.quality[entry.metric] for _, entry in entries]
    slowest = max((entry.latency_ms.median for _, entry in entries if entry.latency_ms), default=1.0)
    marks = [
        _mark(
            key,
            entry,
            x=_scale(size, min(sizes), max(sizes), _MARGIN, _WIDTH - _MARGIN * 3),
            y=_scale(quality, min(qualities), max(qualities), _HEIGHT - _MARGIN, _MARGIN),
            radius=4 + 14 * math.sqrt(entry.latency_ms.median / slowest) if entry.latency_ms else 4,
        )
        for (key, entry), size, quality in zip(entries, sizes, qualities, strict=True)
    ]
    metric = escape(entries[0][1].metric)
    axes = (
        f'<path d="M{_MARGIN / 2} {_MARGIN / 2}V{_HEIGHT - _MARGIN / 2}H{_WIDTH}" fill="none" stroke="#999"/>'
        f'<text x="{_WIDTH}" y="{_HEIGHT - 8}" text-anchor="end">file size, logarithmic</text>'
        f'<text x="{_MARGIN / 2}" y="16">{metric} on test, {text.percent(min(qualities))} to '
        f"{text.percent(max(qualities))}; area of a circle: median latency</text>"
    )
    legend = "".join(
        f'<circle cx="{_WIDTH - 110}" cy="{34 + 18 * row}" r="5" fill="{_COLOURS[name]}"/>'
        f'<text x="{_WIDTH - 98}" y="{38 + 18 * row}">{name}</text>'
        for row, name in enumerate(name for name in _COLOURS if any(e.precision == name for _, e in entries))
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img" '
        f'aria-label="size against {metric}">{axes}{legend}{"".join(marks)}</svg>\n'
    )


def _mark(key: str, entry: Measurement, x: float, y: float, radius: float) -> str:
    latency = text.milliseconds(entry.latency_ms.median) if entry.latency_ms else "latency not measured"
    title = f"{key}: {text.size(entry.bytes)}, {text.percent(entry.quality[entry.metric])}, {latency}"
    colour = _COLOURS.get(entry.precision, "#777")
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" fill-opacity="0.55">'
        f"<title>{escape(title)}</title></circle>"
        f'<text x="{x + radius + 3:.1f}" y="{y + 4:.1f}">{escape(key)}</text>'
    )


def _scale(value: float, low: float, high: float, start: float, end: float) -> float:
    return (start + end) / 2 if high == low else start + (value - low) / (high - low) * (end - start)


def _from_markdown(markdown: str) -> str:
    """HTML of the few forms that the Markdown report uses: headings, paragraphs, lists, tables, bold."""
    return "\n".join(_block(block) for block in markdown.strip().split("\n\n"))


def _block(block: str) -> str:
    lines = block.splitlines()
    if heading := re.fullmatch(r"(#+) (.*)", block):
        level = len(heading[1])
        return f"<h{level}>{_inline(heading[2])}</h{level}>"
    if lines[0].startswith("| "):
        header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
        head = "".join(f"<th>{_inline(cell)}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><tr>{head}</tr>{body}</table>"
    if lines[0].startswith("- "):
        return f"<ul>{''.join(f'<li>{_inline(line[2:])}</li>' for line in lines)}</ul>"
    return f"<p>{_inline(' '.join(lines))}</p>"


def _inline(line: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(line))
