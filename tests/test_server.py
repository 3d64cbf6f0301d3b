"""``streamlint server``, as an editor talks to it: over standard input and output, with a real client."""

from __future__ import annotations

import asyncio
import gc
import io
import re
import sys
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from lsprotocol import types
from pygls import uris
from pygls.exceptions import JsonRpcException
from pygls.io_ import StdoutWriter
from pygls.lsp.client import LanguageClient

from streamlint.server.language import create
from streamlint.server.translate import line_edit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
    from pathlib import Path
    from typing import TypeAlias

    Steps: TypeAlias = "Callable[[Editor], Coroutine[None, None, None]]"
    InEditor: TypeAlias = Callable[[Path, Steps], None]

RACE = """\
import torch

def train(x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    é = "😀"; z = y + 1
    return z
"""
RIGHT = RACE.replace("    é =", "    torch.cuda.current_stream().wait_stream(side)\n    é =")
WAIT = 30.0


class Editor(LanguageClient):
    """Keeps the diagnostics that it was told last, for each file."""

    def __init__(self) -> None:
        super().__init__("editor", "1")
        self.shown: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.said: asyncio.Queue[str] = asyncio.Queue()

    def open(self, path: Path, text: str) -> str:
        uri: str | None = uris.from_fs_path(str(path))
        assert uri is not None
        document = types.TextDocumentItem(uri, "python", 1, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(document))
        return uri

    def type(self, uri: str, text: str, version: int) -> None:
        document = types.VersionedTextDocumentIdentifier(version, uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    async def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        while True:
            told = await asyncio.wait_for(self.shown.get(), WAIT)
            if told.uri == uri:
                return list(told.diagnostics)


@asynccontextmanager
async def editor(folder: Path, command: Sequence[str]) -> AsyncIterator[Editor]:
    client = Editor()

    def shown(params: types.PublishDiagnosticsParams) -> None:
        client.shown.put_nowait(params)

    def said(params: types.ShowMessageParams) -> None:
        client.said.put_nowait(params.message)

    client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(shown)
    client.feature(types.WINDOW_SHOW_MESSAGE)(said)

    await client.start_io(*command, "server")
    uri = uris.from_fs_path(str(folder))
    workspace = types.WorkspaceFolder(uri or "", "folder")
    await client.initialize_async(
        types.InitializeParams(types.ClientCapabilities(), root_uri=uri, workspace_folders=[workspace])
    )
    client.initialized(types.InitializedParams())
    try:
        yield client
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()  # type: ignore[no-untyped-call]


def run(folder: Path, steps: Steps, command: Sequence[str]) -> None:
    async def main() -> None:
        async with editor(folder, command) as client:
            await steps(client)

    (folder / "pyproject.toml").touch()
    asyncio.run(main())


@pytest.fixture
def in_editor(warm_command: list[str]) -> InEditor:
    """Takes steps in a folder; where the start of the server is not what is looked at."""
    return lambda folder, steps: run(folder, steps, warm_command)


def test_what_is_typed_is_checked_and_what_is_mended_goes_away(tmp_path: Path) -> None:
    async def steps(client: Editor) -> None:
        uri = client.open(tmp_path / "new.py", RACE)
        (found,) = await client.diagnostics(uri)
        assert (found.code, found.source) == ("SL101", "streamlint")
        assert found.message.startswith("`y` is read on the current stream while `side`")
        assert "\nhelp: " in found.message
        start = found.range.start  # in UTF-16 units: the emoji has two
        assert (start.line, start.character) == (7, RACE.splitlines()[7].index("y + 1") + 1)
        (other,) = found.related_information or ()
        assert (other.location.uri, other.location.range.start.line) == (uri, 6)
        client.type(uri, RIGHT, 2)
        assert await client.diagnostics(uri) == []
        client.type(uri, "def f(:\n", 3)
        while not (told := await client.diagnostics(uri)):  # a slow machine answers the edit before twice
            pass
        (error,) = told
        assert (error.code, error.range.start.line) == (None, 0)

    run(tmp_path, steps, [sys.executable, "-m", "streamlint"])


def test_hover_tells_the_rule_and_an_action_suppresses(tmp_path: Path, in_editor: InEditor) -> None:
    async def steps(client: Editor) -> None:
        uri = client.open(tmp_path / "new.py", RACE)
        (found,) = await client.diagnostics(uri)
        document = types.TextDocumentIdentifier(uri)
        told = await client.text_document_hover_async(types.HoverParams(document, found.range.start))
        assert told is not None
        assert isinstance(told.contents, types.MarkupContent)
        assert told.contents.value.startswith("**SL101 unordered-read**")
        elsewhere = types.HoverParams(document, types.Position(0, 0))
        assert await client.text_document_hover_async(elsewhere) is None
        context = types.CodeActionContext([found])
        wanted = types.CodeActionParams(document, found.range, context)
        mend, action = await client.text_document_code_action_async(wanted) or ()
        assert isinstance(mend, types.CodeAction)
        assert mend.title.startswith("Make `")
        assert isinstance(action, types.CodeAction)
        assert action.title == "Suppress SL101 for this statement"
        assert action.edit is not None
        ((edit,),) = (action.edit.changes or {}).values()
        beginning = types.Position(found.range.start.line, 0)
        for named, count in ([found], 2), ([], 0):
            there = types.Range(beginning, beginning)
            wanted = types.CodeActionParams(document, there, types.CodeActionContext(named))
            assert len(await client.text_document_code_action_async(wanted) or ()) == count
        lines = RACE.splitlines(keepends=True)
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
        client.type(uri, "".join(lines), 2)
        assert await client.diagnostics(uri) == []

    in_editor(tmp_path, steps)


def test_a_fix_is_applied_to_the_text_that_was_looked_at(tmp_path: Path, in_editor: InEditor) -> None:
    async def steps(client: Editor) -> None:
        uri = client.open(tmp_path / "new.py", RACE)
        (found,) = await client.diagnostics(uri)
        document = types.TextDocumentIdentifier(uri)
        wanted = types.CodeActionParams(document, found.range, types.CodeActionContext([found]))
        mend, _ = await client.text_document_code_action_async(wanted) or ()
        assert isinstance(mend, types.CodeAction)
        assert mend.is_preferred
        assert mend.edit is not None
        ((edit,),) = (mend.edit.changes or {}).values()
        assert isinstance(edit, types.TextEdit)
        lines = RACE.splitlines(keepends=True)
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
        client.type(uri, "".join(lines), 2)
        # Not looked at yet: the places of the fix are those of another text.
        now = await client.text_document_code_action_async(wanted) or ()
        assert not [each for each in now if each.title.startswith("Make `")]
        assert await client.diagnostics(uri) == []

    in_editor(tmp_path, steps)


def test_open_texts_see_each_other_and_saving_checks_the_others(tmp_path: Path, in_editor: InEditor) -> None:
    (tmp_path / "lanes.py").write_text("import torch\n\nSIDE = None\n")
    (tmp_path / "closed.py").write_text(RACE)
    user = RACE.replace("import torch", "import torch\nfrom lanes import SIDE").replace(
        "torch.cuda.Stream()", "SIDE"
    )

    async def steps(client: Editor) -> None:
        lanes = client.open(tmp_path / "lanes.py", "import torch\n\nSIDE = torch.cuda.Stream()\n")
        assert await client.diagnostics(lanes) == []
        uri = client.open(tmp_path / "user.py", user)
        (found,) = await client.diagnostics(uri)
        assert found.code == "SL101"
        client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))
        (closed,) = await client.diagnostics(uris.from_fs_path(str(tmp_path / "closed.py")) or "")
        assert closed.code == "SL101"

    in_editor(tmp_path, steps)


def test_a_change_of_a_module_is_seen_in_the_open_text_that_imports_it(
    tmp_path: Path, in_editor: InEditor
) -> None:
    (tmp_path / "lanes.py").write_text("import torch\n\nSIDE = None\n")
    user = RACE.replace("import torch", "import torch\nfrom lanes import SIDE").replace(
        "torch.cuda.Stream()", "SIDE"
    )

    async def steps(client: Editor) -> None:
        lanes = client.open(tmp_path / "lanes.py", "import torch\n\nSIDE = None\n")
        assert await client.diagnostics(lanes) == []
        uri = client.open(tmp_path / "user.py", user)
        assert await client.diagnostics(uri) == []
        client.type(lanes, "import torch\n\nSIDE = torch.cuda.Stream()\n", 2)
        (found,) = await client.diagnostics(uri)
        assert found.code == "SL101"

    in_editor(tmp_path, steps)


def test_a_closed_text_shows_what_its_file_holds(tmp_path: Path, in_editor: InEditor) -> None:
    (tmp_path / "there.py").write_text(f"# moved\n{RACE}")

    async def steps(client: Editor) -> None:
        for name, lines in (("there.py", [9]), ("new.py", [])):
            uri = client.open(tmp_path / name, RACE)
            assert [each.range.start.line for each in await client.diagnostics(uri)] == [7]
            client.text_document_did_close(
                types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri))
            )
            assert [each.range.start.line + 1 for each in await client.diagnostics(uri)] == lines

    in_editor(tmp_path, steps)


def test_lines_and_columns_are_those_of_the_editor(tmp_path: Path, in_editor: InEditor) -> None:
    """Whatever Python takes for the end of a line beside, and in the encoding that the text names."""
    text = "# coding: latin-1\n\x0c\n" + RACE.replace("😀", "\x85é")

    async def steps(client: Editor) -> None:
        uri = client.open(tmp_path / "new.py", text)
        (found,) = await client.diagnostics(uri)
        start = found.range.start
        assert (start.line, start.character) == (9, text.split("\n")[9].index("y + 1"))

    in_editor(tmp_path, steps)


def test_a_wrong_configuration_is_told_once(tmp_path: Path, in_editor: InEditor) -> None:
    (tmp_path / "streamlint.toml").write_text("selekt = []\n")

    async def steps(client: Editor) -> None:
        uri = client.open(tmp_path / "new.py", RACE)
        assert "`selekt` is not a known key" in await asyncio.wait_for(client.said.get(), WAIT)
        client.type(uri, RIGHT, 2)
        assert await client.diagnostics(uri) == []
        assert client.said.empty()

    in_editor(tmp_path, steps)


NOWHERE = {"textDocument": {"uri": "file:///a.py"}}


def test_it_answers_what_makes_no_sense_and_goes_on(tmp_path: Path, in_editor: InEditor) -> None:
    place = {"position": {"line": -1, "character": 0}}
    asked: list[tuple[str, object, int, str]] = [
        (
            "textDocument/hover",
            {**NOWHERE, **place},
            -32602,
            "the parameters of textDocument/hover are wrong",
        ),
        ("textDocument/hover", {"position": 7}, -32602, "textDocument"),
        ("textDocument/codeAction", None, -32602, "the parameters of textDocument/codeAction are wrong"),
        ("textDocument/nonsense", {"wrong": True}, -32601, "textDocument/nonsense"),
        ("$/nonsense", None, -32601, "nonsense"),
    ]

    async def steps(client: Editor) -> None:
        for method, params, code, said in asked:
            error = await refused(client, {"jsonrpc": "2.0", "method": method, "params": params})
            assert (error.code, said in error.message, "exception" in error.message) == (code, True, False)
        error = await refused(client, {"method": "textDocument/hover", "params": NOWHERE})
        assert error.code == -32600
        for method in ("textDocument/nonsense", "textDocument/didChange", "$/nonsense"):
            client.protocol.notify(method, {"wrong": True})
        client.type("file:///never/opened.py", RACE, 2)
        client.text_document_did_save(
            types.DidSaveTextDocumentParams(types.TextDocumentIdentifier("file:///never/opened.py"))
        )
        uri = client.open(tmp_path / "new.py", RACE)
        (found,) = await client.diagnostics(uri)
        assert found.code == "SL101"
        assert client.said.empty()  # what a user cannot mend is no window

    in_editor(tmp_path, steps)


async def refused(client: Editor, message: Mapping[str, object]) -> JsonRpcException:
    """Send a request as it is, without parameters if they are None, and return the error of its answer."""
    answer: Future[object] = Future()
    client.protocol._request_futures[901] = answer
    client.protocol._send_data(
        {"id": 901, **{key: value for key, value in message.items() if value is not None}}
    )
    with pytest.raises(JsonRpcException) as caught:
        await asyncio.wait_for(asyncio.wrap_future(answer), WAIT)
    return caught.value


def test_files_that_are_opened_at_once_all_have_their_findings(tmp_path: Path, in_editor: InEditor) -> None:
    """An editor opens those of the session before; each is shown in the version that was looked at."""

    async def steps(client: Editor) -> None:
        opened = [client.open(tmp_path / f"{name}.py", RACE) for name in "abc"]
        client.type(opened[0], RACE + "\n", 2)
        missing = set(opened)
        versions: dict[str, int | None] = {}
        while missing or versions[opened[0]] != 2:
            told = await asyncio.wait_for(client.shown.get(), WAIT)
            versions[told.uri] = told.version
            assert [found.code for found in told.diagnostics] == ["SL101"]
            missing.discard(told.uri)
        assert versions == dict(zip(opened, (2, 1, 1), strict=True))
        for uri in opened:
            place = types.Position(7, RACE.splitlines()[7].index("y + 1") + 1)
            asked = types.HoverParams(types.TextDocumentIdentifier(uri), place)
            assert await client.text_document_hover_async(asked) is not None

    in_editor(tmp_path, steps)


def test_before_it_is_initialized_a_request_is_refused() -> None:
    server, written = create(), io.BytesIO()
    server.protocol.set_writer(StdoutWriter(written))
    hover = {"jsonrpc": "2.0", "id": 1, "method": "textDocument/nonsense", "params": {}}
    server.protocol.handle_message(server.protocol.structure_message(hover))
    assert b'"code": -32002' in written.getvalue()


def test_a_text_without_a_name_is_checked(tmp_path: Path, in_editor: InEditor) -> None:
    async def steps(client: Editor) -> None:
        uri = "untitled:Untitled-1"
        for language in ("plaintext", "python"):
            document = types.TextDocumentItem(uri, language, 1, RACE)
            client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        (found,) = await client.diagnostics(uri)
        assert found.code == "SL101"
        (other,) = found.related_information or ()
        assert (other.location.uri, other.location.range.start.line) == (uri, 6)
        asked = types.CodeActionParams(
            types.TextDocumentIdentifier(uri), found.range, types.CodeActionContext([found])
        )
        first = (await client.text_document_code_action_async(asked) or [])[0]
        assert isinstance(first, types.CodeAction)
        assert first.edit is not None
        assert list(first.edit.changes or {}) == [uri]
        client.type(uri, RIGHT, 2)
        assert await client.diagnostics(uri) == []

    in_editor(tmp_path, steps)


def test_nothing_is_kept_of_an_edit() -> None:
    """A day of edits has tens of thousands."""
    server = create()
    server.protocol.set_writer(StdoutWriter(io.BytesIO()))
    uri = "git:new.py"  # no file, so there is nothing to analyze

    async def told(method: str, params: Mapping[str, object], **more: int) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **more}
        server.protocol.handle_message(server.protocol.structure_message(message))
        await asyncio.sleep(0)

    def kept() -> int:
        gc.collect()
        return sum(isinstance(each, asyncio.Future | Future) for each in gc.get_objects())

    async def main() -> None:
        await told("initialize", {"capabilities": {}}, id=1)
        document = {"uri": uri, "languageId": "python", "version": 0, "text": RACE}
        await told("textDocument/didOpen", {"textDocument": document})
        before = kept()
        for version in range(1, 51):
            changed = {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": RIGHT}]}
            await told("textDocument/didChange", changed)
        await asyncio.sleep(0)
        assert server.workspace.text_documents[uri].source == RIGHT
        assert kept() <= before

    asyncio.run(main())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nx\nb\nc\n"),
        ("a\nb\n", "a\nc\n"),
        ("a\n", "a\n"),
        ("a", "b\na"),
        ("a\na\n", "a\na\na\n"),
        ("\x0ca\u2028\x85\nb\n", "\x0ca\u2028\x85\nc\nb\n"),
        ("a\r\nb\rc\n", "a\r\nb\rx\nc\n"),
    ],
)
def test_an_edit_makes_the_one_of_the_other(before: str, after: str) -> None:
    edit = line_edit(before, after)
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", before)  # what the protocol takes for lines
    lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
    assert "".join(lines) == after
