"""Pictures as PNG, drawn by resvg: its wheels bring all that they need but fonts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.errors import UserError
from streamlint.pictures import svg

if TYPE_CHECKING:
    from streamlint.pictures.colors import Scheme
    from streamlint.pictures.model import Picture

_ZOOM = 2.0
"""Pixels for each unit: sharp on today's screens."""


def render(picture: Picture, scheme: Scheme) -> bytes:
    """Raises UserError where the library is missing."""
    try:
        import resvg_py
    except ImportError as error:
        raise UserError(
            "PNG needs resvg_py: install streamlint with its extra `png`, or write an .svg instead"
        ) from error
    drawn: bytes = resvg_py.svg_to_bytes(svg_string=svg.render(picture, scheme), zoom=_ZOOM)
    return bytes(drawn)
