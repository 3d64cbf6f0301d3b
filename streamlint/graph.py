"""``streamlint graph``: a picture of what runs where in a function, and of what orders it."""

from __future__ import annotations

import argparse
import difflib
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.api import request
from streamlint.errors import UserError
from streamlint.files import SourceFiles, absolute
from streamlint.output.ours import signed
from streamlint.output.terminal import complain, report_file, save, show
from streamlint.settings.catalog import suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.pictures.model import Picture
    from streamlint.run.check import Request
    from streamlint.run.function import Walk


class Notation(Enum):
    """The forms of a picture; files of other names than ``.name`` need ``--format``."""

    TEXT = "txt"
    SVG = "svg"
    HTML = "html"
    PNG = "png"
    MERMAID = "mmd"
    JSON = "json"


_MOST_NAMES = 8


def main(argv: Sequence[str]) -> int:
    """Run ``streamlint graph``; 0: drawn. Raises UserError where the function cannot be found or analyzed."""
    options = parser().parse_args(argv)
    notation = _notation(options)
    asked = request((Path(str(options.target).partition("::")[0]),))
    walks = _walks(options, asked)
    if not options.all_paths:
        if len(walks) > 1:
            complain(f"{len(walks)} paths, the first is shown; --all-paths shows all")
        walks = walks[:1]
    pictures = _pictures(options, asked.root, walks)
    if notation is Notation.PNG:
        from streamlint.pictures import png
        from streamlint.pictures.colors import Scheme

        if len(pictures) > 1:
            raise UserError("a PNG has one picture: leave --all-paths out, or write .html")
        drawn = png.render(pictures[0], Scheme.DARK if options.dark else Scheme.LIGHT)
        save(options.output, signed(drawn))
        return 0
    text = _drawn(pictures, notation, options.target)
    if options.output is None:
        show(text.rstrip("\n"))
    else:
        save(options.output, text)
    return 0


def _drawn(pictures: Sequence[Picture], notation: Notation, title: str) -> str:
    from streamlint.pictures import as_json, mermaid, page, svg, text

    match notation:
        case Notation.SVG:
            if len(pictures) > 1:
                raise UserError("an SVG has one picture: leave --all-paths out, or write .html")
            return svg.render(pictures[0])
        case Notation.HTML:
            return page.of_pictures(title, pictures)
        case Notation.MERMAID:
            return mermaid.render(pictures)
        case Notation.JSON:
            return as_json.render(pictures)
        case Notation.TEXT | Notation.PNG:
            return text.render(pictures)


def _notation(options: argparse.Namespace) -> Notation:
    names = [each.value for each in Notation]
    if options.format is not None:
        chosen = Notation(options.format)
    elif options.output is None:
        return Notation.TEXT
    elif options.output.suffix[1:] not in names:
        raise UserError(f"{options.output}: a name that ends in one of .{', .'.join(names)}, or --format")
    else:
        chosen = Notation(options.output.suffix[1:])
    if chosen is Notation.PNG and options.output is None:
        raise UserError("a PNG goes into a file: -o NAME.png")
    return chosen


def _walks(options: argparse.Namespace, asked: Request) -> Sequence[Walk]:
    name, _, function = str(options.target).partition("::")
    path = Path(name)
    if not path.is_file():
        raise UserError(f"{name} is not a file")
    # The analysis is imported late: a wrong command line needs none.
    from streamlint.ir import LoweringError
    from streamlint.run.function import UnknownFunctionError, walks_of, works

    try:
        walks = walks_of(asked, absolute(path), function)
    except LoweringError as error:
        raise UserError(f"{error.path}:{error.line}: {error.message}") from error
    except UnknownFunctionError as error:
        others = _others(function, error.names)
        if not function:
            what = (
                f"name the function to draw: {name}::FUNCTION{others}"
                if error.names
                else f"{name} does no GPU work"
            )
            raise UserError(what) from error
        near = suggestion(function, error.names)
        more = others.replace("; it", " It", 1) if near else others
        raise UserError(f"{name} has no function {function}{near}{more}") from error
    walks = [walk for walk in walks if works(walk)]
    if not walks:
        raise UserError(f"{function} of {name} does no GPU work")
    return walks


def _others(function: str, names: Sequence[str]) -> str:
    """The nearest names first; of ``Prefetcher.nxt`` that is ``Prefetcher.next``, of ``next`` too."""
    if not names:
        return ", nor any other"

    def nearness(name: str) -> float:
        last = name.rpartition(".")[2]
        return -max(difflib.SequenceMatcher(None, function, each).ratio() for each in (name, last))

    nearest = sorted(names, key=nearness)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"; it has {', '.join(nearest[:_MOST_NAMES])}{more}"


def _pictures(options: argparse.Namespace, root: Path, walks: Sequence[Walk]) -> list[Picture]:
    from streamlint.pictures.build import picture, whole_scene

    name, _, function = str(options.target).partition("::")
    sources = SourceFiles(root)
    drawn = []
    for walk in walks:
        evidence = [found.evidence for found in walk.findings if found.evidence is not None]
        scene = whole_scene(walk.trace, evidence, sources, everything=options.all_operations)
        messages = [found.message for found in walk.findings]
        title = (
            messages[0] if len(messages) == 1 else f"`{function or name}`: {len(messages) or 'no'} findings"
        )
        drawn.append(picture(scene, title, f"{function} in {name}" if function else name))
    return drawn


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="streamlint graph",
        description="Draw what runs where in a function, what orders it, and what nothing orders.",
    )
    add = made.add_argument
    add(
        "target",
        metavar="FILE::FUNCTION",
        help="FILE::function or FILE::Class.method; FILE is what a script or a notebook does outside of both",
    )
    add(
        "-o",
        "--output",
        type=report_file,
        metavar="FILE",
        help="write into a file; its name tells the format",
    )
    add(
        "--format",
        choices=[each.value for each in Notation],
        help="txt (default), svg, html, png (extra `png`), mmd (Mermaid), json",
    )
    add("--all-paths", action="store_true", help="one picture for each path")
    add("--all-operations", action="store_true", help="leave no operation out")
    add("--dark", action="store_true", help="a PNG for dark pages; SVG and HTML follow the reader's system")
    return made
