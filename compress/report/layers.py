"""What the debugger found, for a terminal and as one HTML page with one chart."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from compress.report.html import STYLE
from export.debug import Diagnosis, Layer

_HEAD = (
    "tensor",
    "operator",
    "signal to noise",
    "own rounding",
    "cosine",
    "float values",
    "its scale holds",
    "clipped",
)
_NAME = 48
_ROW, _LEFT, _WIDTH = 16, 330, 760
_SCALE = 60.0
"""Decibels at the right edge of the chart: above it nothing is worth looking at."""
_SHOWN = 5


def render_text(variant: str, found: Diagnosis, top: int) -> str:
    """The worst tensors as a table, then what stayed float."""
    rows = [_HEAD, *(_row(layer) for layer in found.layers[:top])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    left = len(found.layers) - top
    more = [f"and {left} tensors that are closer"] if left > 0 else []
    return "\n".join([f"{variant}: {_about(found)}", "", *lines, *more, "", *_notes(found)])


def render_page(variant: str, found: Diagnosis) -> str:
    """A self-contained page: the chart of all tensors in the order of the table, the table, what stayed float."""
    head = "".join(f"<th>{cell}</th>" for cell in _HEAD)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _row(layer, short=False)) + "</tr>"
        for layer in found.layers
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in _notes(found))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(variant)}</title><style>{STYLE}</style></head>\n<body>\n<h1>{escape(variant)}</h1>"
        f"<p>{escape(_about(found))}</p>{_chart(found.layers)}{notes}<table><tr>{head}</tr>{body}</table>\n</body></html>\n"
    )


def _about(found: Diagnosis) -> str:
    return (
        f"{len(found.layers)} activations compared with the float file on {found.samples} validation samples, worst "
        f"first, run by {found.how}"
    )


def _row(layer: Layer, short: bool = True) -> tuple[str, ...]:
    name = layer.name if not short or len(layer.name) <= _NAME else "…" + layer.name[1 - _NAME :]
    return (
        name,
        layer.operator,
        f"{layer.decibel:.1f} dB",
        f"{layer.rounding_decibel:.1f} dB",
        f"{layer.cosine:.5f}",
        f"{layer.low:.3g} to {layer.high:.3g}",
        f"{layer.covered[0]:.3g} to {layer.covered[1]:.3g}",
        f"{100 * layer.clipped:.2f} %",
    )


def _notes(found: Diagnosis) -> list[str]:
    notes = [f"{found.conversions} operators convert between float and INT8."]
    if found.float_operators:
        notes.append(f"Computed on floats: {_listed(found.float_operators)}.")
    notes += [f"A float region between INT8 ones: {_listed(island)}." for island in found.islands]
    return notes


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _chart(layers: Sequence[Layer]) -> str:
    """Two bars a tensor: the signal-to-noise ratio of its INT8 value, and that of its own rounding behind it."""
    span = _WIDTH - _LEFT
    marks = []
    for index, layer in enumerate(layers):
        top = 24 + index * _ROW
        own, whole = (max(0.0, min(value, _SCALE)) / _SCALE * span for value in (layer.rounding_decibel, layer.decibel))
        marks.append(
            f'<text x="{_LEFT - 6}" y="{top + 10}" text-anchor="end">{escape(_row(layer)[0])}</text>'
            f'<rect x="{_LEFT}" y="{top}" width="{own:.1f}" height="12" fill="#d5dbe8"/>'
            f'<rect x="{_LEFT}" y="{top + 3}" width="{whole:.1f}" height="6" fill="#c44e52"><title>'
            f"{escape(layer.name)}: {layer.decibel:.1f} dB, own rounding {layer.rounding_decibel:.1f} dB</title></rect>"
        )
    label = f"signal to noise, 0 to {_SCALE:.0f} dB; red: the INT8 value, grey: its own rounding alone"
    height = 32 + len(layers) * _ROW
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" aria-label="{label}">'
        f'<text x="{_LEFT}" y="14">{label}</text>{"".join(marks)}</svg>'
    )
