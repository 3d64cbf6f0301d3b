"""What a day of edits costs in an editor: how soon each is answered, and whether memory grows.

    python benchmarks/editing.py FILE... [--edits 1000]

Types a statement into one function after the other, with a real client of `streamlint server`, and waits for
the findings and until the server rests: of a large file, those of the edited function come first.
Time of processors is that of the server and its analysis; it says something on a busy machine too.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import os
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from lsprotocol import types
from pygls import uris
from pygls.lsp.client import LanguageClient

from streamlint.server.language import PAUSE

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
ASIDE = 20
"""Edits at the beginning that are not counted: modules are imported, and the memory settles."""
RESTED = 0.1
"""Seconds without work after which nothing more is to come."""


class Use(NamedTuple):
    """What the server and all processes below it have used."""

    seconds: float
    megabytes: float


def used(root: int) -> Use:
    """Look it up in /proc (Linux)."""
    parents, numbers = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text().rpartition(")")[2].split()
            resident = int((folder / "statm").read_text().split()[1]) * PAGE
        except OSError:
            continue
        parents[int(folder.name)] = int(text[1])
        # Time of children that have ended counts as their parent's.
        numbers[int(folder.name)] = (sum(map(int, text[11:15])) / TICK, resident / 1e6)
    found, family = {root}, {root}
    while found:
        found = {child for child, parent in parents.items() if parent in found} - family
        family |= found
    return Use(*map(sum, zip(*(numbers[each] for each in family), strict=True)))


async def rested(server: int) -> Use:
    """Wait until the server has nothing to do."""
    before, now = Use(-1.0, 0.0), used(server)
    while now.seconds > before.seconds:
        await asyncio.sleep(RESTED)
        before, now = now, used(server)
    return now


def beginnings(text: str) -> list[tuple[int, str]]:
    """The line at which each function's body begins, and what it is indented by."""
    bodies = [node.body for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return [(body[0].lineno - 1, " " * body[0].col_offset) for body in bodies] or [(0, "")]


async def edit(file: Path, edits: int) -> None:
    client = LanguageClient("editing", "1")
    answers: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def _(told: types.PublishDiagnosticsParams) -> None:
        answers.put_nowait(told)

    await client.start_io(sys.executable, "-m", "streamlint", "server")
    server = client._server.pid
    folder = uris.from_fs_path(str(file.parent)) or ""
    await client.initialize_async(types.InitializeParams(types.ClientCapabilities(), root_uri=folder))
    client.initialized(types.InitializedParams())
    text, uri = file.read_text(encoding="utf-8"), uris.from_fs_path(str(file)) or ""
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 0, text))
    )
    await answers.get()
    places, lines = beginnings(text), text.split("\n")
    walls, firsts, uses = [], [], [await rested(server)]
    for number in range(1, edits + 1):
        document = types.VersionedTextDocumentIdentifier(number, uri)
        line, indent = places[number % len(places)]
        typed = [*lines[:line], f"{indent}edited = {number}", *lines[line:]]
        change = types.TextDocumentContentChangeWholeDocument("\n".join(typed))
        start = time.perf_counter()
        client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        shown = await answers.get()
        walls.append(time.perf_counter() - start)
        firsts.append(used(server).seconds - uses[-1].seconds)
        uses.append(await rested(server))
        while not answers.empty():
            shown = answers.get_nowait()
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    aside = min(ASIDE, edits // 2)
    seconds = [after.seconds - before.seconds for before, after in pairwise(uses)][aside:]
    memory = [use.megabytes for use in uses]
    print(
        f"{file.name}: {len(text.splitlines())} lines, {len(shown.diagnostics)} findings, {edits} edits\n"
        f"  answered after {statistics.median(walls[aside:]):.2f} s (median; {PAUSE} s of it is the pause), "
        f"{statistics.quantiles(walls[aside:], n=20)[-1]:.2f} s (95 %)\n"
        f"  processor time {statistics.median(firsts[aside:]):.3f} s until the first answer (median; 95 %: "
        f"{statistics.quantiles(firsts[aside:], n=20)[-1]:.3f} s), {statistics.mean(seconds):.3f} s in all\n"
        f"  memory {memory[0]:.0f} MB when opened, {memory[aside]:.0f} MB after {aside} edits, "
        f"{memory[len(memory) // 2]:.0f} MB at half, {memory[-1]:.0f} MB at the end, "
        f"{max(memory):.0f} MB at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--edits", type=int, default=1000)
    options = parser.parse_args()
    for file in options.files:
        asyncio.run(edit(file.resolve(), options.edits))


if __name__ == "__main__":
    main()
