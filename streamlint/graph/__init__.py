"""``streamlint graph``: what is ordered before what in a function, as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamlint.graph import as_json, dot, mermaid
from streamlint.graph.picture import picture
from streamlint.output.terminal import complain, show

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamlint.graph.picture import Picture
    from streamlint.trace import Trace

_FORMATS: Final[dict[str, Callable[[Sequence[Picture]], str]]] = {
    "dot": dot.render,
    "json": as_json.render,
    "mermaid": mermaid.render,
}


def main(argv: Sequence[str]) -> int:
    """Run ``streamlint graph``; 0: drawn, 2: the function could not be found or analyzed."""
    options = _parser().parse_args(argv)
    name, separator, function = str(options.target).partition("::")
    if not separator or not function:
        return _refuse("name the function to draw: FILE::function")
    path = Path(name)
    if not path.is_file():
        return _refuse(f"{name} is not a file")
    # The analysis is imported late: a wrong command line needs none.
    from streamlint.ir import LoweringError
    from streamlint.run.session import traces_of
    from streamlint.settings.config import find_root

    root, _ = find_root([path])
    try:
        traces = traces_of(root, path.resolve(), function)
    except LoweringError as error:
        return _refuse(f"{error.path}:{error.line}: {error.message}")
    except LookupError:
        return _refuse(f"{name} has no function {function}")
    traces = [trace for trace in traces if len(trace.ops) > 1]  # the first stands for what came before
    if not traces:
        return _refuse(f"{function} of {name} does no GPU work")
    show(draw(traces[: 1 if not options.all_paths else None], options.format))
    if len(traces) > 1 and not options.all_paths:
        complain(f"{len(traces)} paths, the first is shown; --all-paths shows all")
    return 0


def draw(traces: Sequence[Trace], notation: str) -> str:
    """Pictures of traces in ``dot``, ``json`` or ``mermaid``.

    Raises KeyError for another notation.
    """
    return _FORMATS[notation]([picture(trace) for trace in traces])


def _refuse(reason: str) -> int:
    complain(reason)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="streamlint graph", description="Draw what is ordered before what in a function."
    )
    parser.add_argument("target", metavar="FILE::FUNCTION")
    parser.add_argument("--format", choices=sorted(_FORMATS), default="dot", help="notation (default dot)")
    parser.add_argument("--all-paths", action="store_true", help="one picture for each path")
    return parser
