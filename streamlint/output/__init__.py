"""The forms of output, one module each, all made from the same ``Outcome``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if sys.version_info >= (3, 11):  # the other one takes longer to import than many a run
    from typing import assert_never
else:
    from typing_extensions import assert_never

from streamlint.output import text
from streamlint.output.outcome import Format, Outcome

if TYPE_CHECKING:
    from streamlint.output.style import Style

__all__ = ["Format", "Outcome", "render"]


def render(form: Format, outcome: Outcome, style: Style) -> str:
    """Return the whole output, ending in a newline unless it is empty; a form is loaded when it is wanted."""
    match form:
        case Format.FULL:
            return text.full(outcome, style)
        case Format.CONCISE:
            return text.concise(outcome, style)
        case Format.JSON:
            from streamlint.output import json

            return json.render(outcome)
        case Format.SARIF:
            from streamlint.output import sarif

            return sarif.render(outcome)
        case Format.HTML:
            from streamlint.output import html

            return html.render(outcome)
        case Format.GITHUB:
            from streamlint.output import github

            return github.render(outcome)
        case Format.GITLAB:
            from streamlint.output import gitlab

            return gitlab.render(outcome)
        case Format.JUNIT:
            from streamlint.output import junit

            return junit.render(outcome)
        case _:
            assert_never(form)
