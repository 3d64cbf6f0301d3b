"""What a day of edits costs in an editor: how soon each is answered, and whether memory grows.

    python benchmarks/editing.py FILE... [--edits 1000]

Types a number into a statement of one function after the other, with a real client of `streamlint server`.
Waits for the findings and until the server rests: of a large file, those of the edited function come first.
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
TELL = 50
"""Edits after which the memory is told."""
RESTED = 0.1
"""Seconds without work after which nothing more is to come."""


class Use(NamedTuple):
    """What the server and all processes below it have used."""

    seconds: float
    megabytes: float
    own: float = 0.0
    """Megabytes of the server itself, without the processes of the analysis."""


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
    seconds, megabytes = map(sum, zip(*(numbers[each] for each in family), strict=True))
    return Use(seconds, megabytes, numbers[root][1])


async def rested(server: int) -> Use:
    """Wait until the server has nothing to do."""
    before, now = Use(-1.0, 0.0), used(server)
    while now.seconds > before.seconds:
        await asyncio.sleep(RESTED)
        before, now = now, used(server)
    return now


def with_places(text: str) -> tuple[list[str], list[int]]:
    """The lines of a file, with a statement put before the body of each function, and where these are."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    bodies = [node.body[0] for node in functions if node.body[0].lineno > node.lineno]
    indents = {body.lineno - 1: " " * body.col_offset for body in bodies} or {0: ""}
    lines, places = [], []
    for number, line in enumerate(text.split("\n")):
        if number in indents:
            places.append(len(lines))
            lines.append(f"{indents[number]}edited = 0")
        lines.append(line)
    return lines, places


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
    (lines, places), uri = with_places(file.read_text(encoding="utf-8")), uris.from_fs_path(str(file)) or ""
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 0, "\n".join(lines)))
    )
    await answers.get()
    walls, firsts, uses = [], [], [await rested(server)]
    for number in range(1, edits + 1):
        document = types.VersionedTextDocumentIdentifier(number, uri)
        place = places[number % len(places)]
        lines[place] = f"{lines[place].partition('=')[0]}= {number}"
        change = types.TextDocumentContentChangeWholeDocument("\n".join(lines))
        start = time.perf_counter()
        client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        shown = await answers.get()
        walls.append(time.perf_counter() - start)
        firsts.append(used(server).seconds - uses[-1].seconds)
        uses.append(await rested(server))
        if number % TELL == 0:
            now = uses[-1]
            print(f"  {number} edits: {now.own:.1f} MB, {now.megabytes:.1f} MB with the analysis", flush=True)
        while not answers.empty():
            shown = answers.get_nowait()
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    aside = min(ASIDE, edits // 2)
    seconds = [after.seconds - before.seconds for before, after in pairwise(uses)][aside:]
    memory, own = [use.megabytes for use in uses], [use.own for use in uses]
    print(
        f"{file.name}: {len(lines)} lines, {len(shown.diagnostics)} findings, {edits} edits\n"
        f"  answered after {statistics.median(walls[aside:]):.2f} s (median; {PAUSE} s of it is the pause), "
        f"{statistics.quantiles(walls[aside:], n=20)[-1]:.2f} s (95 %)\n"
        f"  processor time {statistics.median(firsts[aside:]):.3f} s until the first answer (median; 95 %: "
        f"{statistics.quantiles(firsts[aside:], n=20)[-1]:.3f} s), {statistics.mean(seconds):.3f} s in all\n"
        f"  memory {memory[0]:.0f} MB when opened, {memory[aside]:.0f} MB after {aside} edits, "
        f"{memory[len(memory) // 2]:.0f} MB at half, {memory[-1]:.0f} MB at the end, "
        f"{max(memory):.0f} MB at most; "
        f"of the server itself {own[aside]:.1f}, {own[len(own) // 2]:.1f} and {own[-1]:.1f} MB"
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
