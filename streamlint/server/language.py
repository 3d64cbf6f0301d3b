"""The features: diagnostics while typing, those of the workspace on saving, hover, and code actions."""

from __future__ import annotations

import logging
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from streamlint import __version__
from streamlint.files import SourceFiles, encoded, lines_of
from streamlint.fixes.edits import applied
from streamlint.frozen import replace
from streamlint.server.analysis import Answer, Question
from streamlint.server.analyst import Analyst
from streamlint.server.protocol import Protocol
from streamlint.server.translate import Translator, described, line_edit, overlap
from streamlint.settings.catalog import catalog, find_rule, vocabulary
from streamlint.settings.ignores import commented

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.finding import Finding
    from streamlint.run.first import Whole

PAUSE = 0.15
"""Seconds without a key before a text is looked at."""
LATER = 1.0
"""Seconds without a key before other texts are looked at that import what was changed."""
UNTITLED = "untitled:"
"""The scheme of texts that were never saved, in VS Code and what follows it."""
MOST_CHARACTERS = 100
REASON = "TODO: say why this is safe"


class Server(LanguageServer):
    """One editor: its open texts, and processes for what is typed, what comes first, and what is saved."""

    def __init__(self) -> None:
        # The whole text each time: of parts of it pygls takes a form feed for the end of a line.
        whole = types.TextDocumentSyncKind.Full
        super().__init__("streamlint", __version__, text_document_sync_kind=whole, protocol_cls=Protocol)
        self.typed = Analyst()
        self.edited = Analyst()
        self.saved = Analyst()
        self.found: dict[str, tuple[tuple[Finding, types.Diagnostic], ...]] = {}
        """What is shown in each file, by its URI."""
        self.whole: dict[str, Whole] = {}
        """What files gave that take long, as they were when all of them was analyzed."""
        self.looked_at: dict[str, str] = {}
        """The text of each open file of which all findings are shown."""
        self.placed: dict[str, str] = {}
        """The text of each open file in which the findings that are shown have their places."""
        self._told: set[str] = set()

    def report_server_error(self, error: Exception, source: type[Exception]) -> None:
        """Write down what a client did wrong; pygls has the editor show it, with each key at worst."""
        logging.getLogger(__name__).error("%s: %s", source.__name__, error)

    def stop(self) -> None:
        """End the processes."""
        for analyst in (self.typed, self.edited, self.saved):
            analyst.stop()

    def lines(self, path: Path) -> Sequence[str]:
        """Return the lines of a file as the editor has them, or as they are on disk."""
        uri = self.untitled().get(path) or uris.from_fs_path(str(path)) or ""
        if uri in self.workspace.text_documents:
            return lines_of(self.workspace.text_documents[uri].source)
        return SourceFiles(path.parent).lines(path.name)

    def texts(self) -> dict[Path, bytes]:
        """Return what the open files hold."""
        opened = self.workspace.text_documents.items()
        named = ((self.path(uri), document.source) for uri, document in opened)
        return {path: encoded(text) for path, text in named if path is not None}

    def path(self, uri: str) -> Path | None:
        """Return the file of an open text; of one that has no name yet, one that it might get."""
        named = _path(uri)
        if named is not None or not uri.startswith(UNTITLED):
            return named
        document = self.workspace.text_documents.get(uri)
        if document is None or document.language_id != "python":
            return None
        folder = next(filter(None, map(_path, self.workspace.folders)), Path.cwd())
        name = quote(uri.removeprefix(UNTITLED), safe="")[-MOST_CHARACTERS:]
        return folder / f"{name.removesuffix('.py')}.py"

    def untitled(self) -> dict[Path, str]:
        """Return the URIs of the open texts that have no name yet."""
        opened = (uri for uri in self.workspace.text_documents if uri.startswith(UNTITLED))
        return {path: uri for uri in opened if (path := self.path(uri)) is not None}

    def show(self, answer: Answer, uri: str | None, version: int | None = None) -> None:
        """Show what was found in one file of that version, or with None in all files that are not open."""
        translate = Translator(answer.root, self.lines, self.workspace.position_codec, self.untitled())
        found: dict[str, list[tuple[Finding, types.Diagnostic]]] = {}
        for finding in answer.findings:
            item = (finding, translate.diagnostic(finding))
            found.setdefault(translate.uri(finding.primary.path), []).append(item)
        errors = {translate.uri(error.path): translate.error(error) for error in answer.errors}
        opened = set(self.workspace.text_documents)
        shown = {uri} if uri is not None else (set(found) | set(errors) | set(self.found)) - opened
        for each in sorted(shown):
            self.found[each] = tuple(found.get(each, ()))
            diagnostics = [diagnostic for _, diagnostic in self.found[each]]
            diagnostics += [errors[each]] if each in errors else []
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(each, diagnostics, version if each == uri else None)
            )
            if not diagnostics:
                del self.found[each]
        if answer.problem and answer.problem not in self._told:
            self._told.add(answer.problem)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, answer.problem))
        elif not answer.problem:
            self._told.clear()


def _path(uri: str) -> Path | None:
    name = uris.to_fs_path(uri)
    return Path(name) if name and uri.startswith("file:") else None


async def _look(ls: Server, uri: str, pause: float, *, is_typed: bool = False) -> None:
    """Check one open text, and show what is found in it, in a slow one first in what is edited."""
    path, document = ls.path(uri), ls.workspace.text_documents.get(uri)
    if path is None or document is None:
        return
    version = document.version
    question = Question((), ls.texts(), (path,), is_typed)
    last = ls.whole.get(uri)
    if last is not None:
        answer = await ls.edited.ask(uri, path.parent, replace(question, last=last), pause)
        if answer is None:
            return
        if not answer.is_nothing and uri in ls.workspace.text_documents:
            ls.placed[uri] = ls.workspace.text_documents[uri].source
            ls.show(answer, uri, version)
        pause = 0.0
    answer = await ls.typed.ask(uri, path.parent, question, pause)
    if answer is None or uri not in ls.workspace.text_documents:
        return
    # A change of the text would have come with another question, and this one had no answer then.
    ls.looked_at[uri] = ls.placed[uri] = ls.workspace.text_documents[uri].source
    ls.show(answer, uri, version)
    if answer.whole is not None and answer.is_slow:
        ls.whole[uri] = answer.whole
    elif answer.whole is not None:
        ls.whole.pop(uri, None)


async def _look_at_importers(ls: Server, uri: str) -> None:
    """Check the other open texts that name a module that was changed, when nobody has typed for a while."""
    changed = _path(uri)
    if changed is None:
        return
    module = changed.parent.name if changed.stem == "__init__" else changed.stem
    for other, document in tuple(ls.workspace.text_documents.items()):
        path = ls.path(other)
        if other == uri or path is None or module not in document.source:
            continue
        text, version = document.source, document.version
        answer = await ls.saved.ask(
            other, path.parent, Question((), ls.texts(), (path,), is_typed=True), LATER
        )
        now = ls.workspace.text_documents.get(other)
        if answer is not None and now is not None and now.source == text:
            ls.looked_at[other] = ls.placed[other] = text
            ls.show(answer, other, version)


async def _look_at_all(ls: Server) -> None:
    """Check the workspace as it is saved, and show what is found in files that are not open."""
    for folder in filter(None, map(_path, ls.workspace.folders)):
        answer = await ls.saved.ask(str(folder), folder, Question((folder,), {}, ()), PAUSE)
        if answer is not None:
            ls.show(answer, None)


async def opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
    await _look(ls, params.text_document.uri, 0.0)


async def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
    await _look(ls, params.text_document.uri, PAUSE, is_typed=True)
    await _look_at_importers(ls, params.text_document.uri)


async def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    """Show what the file holds again, which need not be what the editor had; nothing where there is none."""
    uri = params.text_document.uri
    for kept in (ls.whole, ls.looked_at, ls.placed):
        kept.pop(uri, None)
    path = _path(uri)
    nothing = Answer(path.parent if path is not None else Path.cwd())
    answer = (
        await ls.saved.ask(uri, path.parent, Question((path,), {}, ()), 0.0)
        if path and path.is_file()
        else None
    )
    if uri not in ls.workspace.text_documents:
        ls.show(answer or nothing, uri)


async def saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
    await _look(ls, params.text_document.uri, 0.0)
    await _look_at_all(ls)


def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    place = types.Range(params.position, params.position)
    for finding, diagnostic in ls.found.get(params.text_document.uri, ()):
        if overlap(place, diagnostic.range):
            text = described(find_rule(finding.code, catalog()))
            return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), diagnostic.range)
    return None


def actions(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri = params.text_document.uri
    # Neovim asks with the place of the cursor, and names what is anywhere in its line.
    asked = [params.range, *(diagnostic.range for diagnostic in params.context.diagnostics)]
    found = ls.found.get(uri, ())
    here = [item for item in found if any(overlap(place, item[1].range) for place in asked)]
    fixes = [action for item in here for action in _fixed(ls, uri, *item)]
    return [*fixes, *(action for item in here if (action := _suppressed(ls, uri, *item)) is not None)]


def _fixed(
    ls: Server, uri: str, finding: Finding, diagnostic: types.Diagnostic
) -> Iterator[types.CodeAction]:
    """Yield the fixes of a finding that change its own file; none once the text has changed."""
    text = ls.workspace.get_text_document(uri).source
    if ls.looked_at.get(uri) != text:
        return
    for number, fix in enumerate(finding.fixes):
        if any(edit.span.path != finding.primary.path for edit in fix.edits):
            continue
        yield types.CodeAction(
            title=fix.title if fix.safe else f"{fix.title} (unsafe)",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic],
            is_preferred=fix.safe and number == 0,
            edit=types.WorkspaceEdit({uri: [line_edit(text, applied(text, [fix]))]}),
        )


def _suppressed(
    ls: Server, uri: str, finding: Finding, diagnostic: types.Diagnostic
) -> types.CodeAction | None:
    text = ls.workspace.get_text_document(uri).source
    if ls.placed.get(uri) != text:  # the lines are those of an earlier text
        return None
    try:
        edit = line_edit(text, commented(text, [finding], REASON, vocabulary(catalog())))
    except (tokenize.TokenError, SyntaxError, LookupError):  # the text has changed since
        return None
    return types.CodeAction(
        title=f"Suppress {finding.code} for this statement",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic],
        edit=types.WorkspaceEdit({uri: [edit]}),
    )


def shut_down(ls: Server, _: None) -> None:
    ls.stop()


def create() -> Server:
    """Return a server that has all features and serves nobody yet."""
    server = Server()
    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(opened)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(changed)
    server.feature(types.TEXT_DOCUMENT_DID_SAVE)(saved)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(closed)
    server.feature(types.TEXT_DOCUMENT_HOVER)(hover)
    kinds = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, kinds)(actions)
    server.feature(types.SHUTDOWN)(shut_down)
    return server


def serve() -> None:
    """Serve on standard input and output."""
    server = create()
    try:
        server.start_io()
    finally:
        server.stop()
