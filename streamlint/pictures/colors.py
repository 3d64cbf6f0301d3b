"""The colours of pictures, light and dark: text has a contrast of 4.5 at least with what it stands on."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Scheme(Enum):
    BOTH = "both"
    """Light, and dark where the reader's system is."""
    LIGHT = "light"
    DARK = "dark"


_SANS: Final = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif'
_MONO: Final = 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'

_SHAPES: Final = f"""\
.picture text {{ font: 12px {_SANS}; }}
.picture .title {{ font-size: 15px; font-weight: 600; }}
.picture .name, .picture .letter {{ font-size: 13px; font-weight: 700; }}
.picture .code, .picture .name-in-text {{ font-family: {_MONO}; }}
.picture .code {{ font-size: 12.5px; }}
.picture .place {{ font-family: {_MONO}; }}
.picture .kind {{ font-size: 11px; }}
.picture .sign-text {{ font-weight: 700; }}
.picture .racing .effect {{ font-weight: 600; }}
.picture path {{ fill: none; }}
.picture .lane {{ stroke-width: 2; }}
.picture .card, .picture .head, .picture .sign {{ stroke-width: 1.2; }}
.picture .racing .card {{ stroke-width: 2.2; }}
.picture .unseen .card {{ stroke-dasharray: 3 3; }}
.picture .held .card {{ stroke-dasharray: 6 4; }}
.picture .waits {{ stroke-width: 2.2; }}
.picture .issued {{ stroke-width: 1.2; }}
.picture .maybe {{ stroke-width: 1.6; stroke-dasharray: 1.5 4; stroke-linecap: round; }}
.picture .missing {{ stroke-width: 2.4; stroke-dasharray: 8 5; }}
.picture .cross {{ stroke-width: 2.2; }}
.picture .break {{ stroke-dasharray: 2 4; }}
"""

_COLORS: Final = """\
.picture text {{ fill: {ink}; }}
.picture .muted, .picture .kind, .picture .place {{ fill: {muted}; }}
.picture .page {{ fill: {page}; }}
.picture .head {{ fill: {head}; stroke: {edge}; }}
.picture .card {{ fill: {card}; stroke: {edge}; }}
.picture .lane, .picture .break {{ stroke: {lane}; }}
.picture .lane-end {{ fill: {lane}; }}
.picture .waits {{ stroke: {blue}; }}
.picture .waits-end {{ fill: {blue}; }}
.picture .issued, .picture .maybe {{ stroke: {grey}; }}
.picture .issued-end, .picture .maybe-end {{ fill: {grey}; }}
.picture .missing, .picture .cross {{ stroke: {red}; }}
.picture .missing-end, .picture .badge {{ fill: {red}; }}
.picture .racing .card, .picture .sign {{ fill: {red_soft}; stroke: {red}; }}
.picture .racing .effect, .picture .sign-text {{ fill: {red_text}; }}
.picture .letter {{ fill: {on_red}; }}
.picture .held .card {{ fill: {head}; stroke: {muted}; }}
"""

COLORS: Final = {
    Scheme.LIGHT: {
        "ink": "#1c2330",
        "muted": "#566072",
        "page": "#ffffff",
        "head": "#e9edf3",
        "card": "#f7f9fb",
        "edge": "#8d97a8",
        "lane": "#b4bdcb",
        "blue": "#1d5fd1",
        "grey": "#6b7587",
        "red": "#c0262d",
        "red_soft": "#fdecec",
        "red_text": "#a01820",
        "on_red": "#ffffff",
    },
    Scheme.DARK: {
        "ink": "#e6ebf2",
        "muted": "#a3aec0",
        "page": "#161b23",
        "head": "#2a323f",
        "card": "#1f2732",
        "edge": "#69768a",
        "lane": "#4a5669",
        "blue": "#7fb0ff",
        "grey": "#97a3b6",
        "red": "#ff7b78",
        "red_soft": "#3d1f21",
        "red_text": "#ffa3a0",
        "on_red": "#2a0d0e",
    },
}


def sheet(scheme: Scheme) -> str:
    """The style sheet of a picture, without variables: not all that draws SVG knows them."""
    if scheme is not Scheme.BOTH:
        return _SHAPES + _COLORS.format(**COLORS[scheme])
    light, dark = (_COLORS.format(**COLORS[each]) for each in (Scheme.LIGHT, Scheme.DARK))
    return f"{_SHAPES}{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"
