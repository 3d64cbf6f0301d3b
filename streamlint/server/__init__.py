"""``streamlint server``: findings in an editor, by the language server protocol, over standard streams."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from streamlint.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Serve until the editor says that it is done, or goes away. Raises UserError without pygls."""
    parser().parse_args(argv)
    try:
        from streamlint.server.language import serve
    except ModuleNotFoundError as error:
        raise UserError(f"the server needs {error.name}: install streamlint with its extra `lsp`") from error
    serve()
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="streamlint server", description=__doc__)
    made.add_argument("--stdio", action="store_true", help="the only way; for editors that ask for it")
    return made
