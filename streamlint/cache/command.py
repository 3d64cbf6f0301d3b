"""``streamlint cache``: what is kept of earlier runs, and where."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.cache.folder import VARIABLE, default_folder
from streamlint.cache.store import Store
from streamlint.errors import UserError
from streamlint.files import absolute

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = (
    "What `streamlint check` keeps of earlier runs. It is never needed: what is missing is found again."
)


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    folder = absolute(options.cache_dir) if options.cache_dir is not None else default_folder()
    if folder is None:
        raise UserError(f"there is no cache folder: name one by --cache-dir or {VARIABLE}")
    store = Store(folder)
    match options.action:
        case "dir":
            sys.stdout.write(f"{folder}\n")
        case "clear":
            if not store.clear():
                raise UserError(f"cannot remove {store.path}")
        case _:
            sys.stdout.write(_info(store))
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="streamlint cache", description=DESCRIPTION)
    made.add_argument("action", choices=("info", "dir", "clear"), help="tell, tell where, or remove it")
    made.add_argument("--cache-dir", type=Path, metavar="FOLDER", help="instead of the user's cache folder")
    return made


def _info(store: Store) -> str:
    refusal = store.refusal()
    if refusal is not None:
        return f"{store.path}: not used: {refusal}\n"
    if not store.path.exists():
        return f"{store.path}: nothing is kept yet\n"
    trees, results = store.counts()
    size = store.path.stat().st_size / 1e6
    return f"{store.path}: {size:.1f} MB, {results} results, {trees} trees\n"
