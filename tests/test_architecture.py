"""Imports go one way, and heavy libraries stay where they belong."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import networkx as nx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "streamlint"
BENCHMARKS = TESTS.parent / "benchmarks"

TEXT = {"characters", "source", "finding", "files", "errors", "notebook", "parsing", "patterns", "prefilter"}
COMMANDS = {*TEXT, "trace", "run", "settings", "output"}

MAY_IMPORT: dict[str, set[str]] = {
    "frozen": set(),
    "source": set(),
    "names": set(),
    "trace": {"source"},
    "witness": set(),
    "ir": {"source"},
    "finding": {"source", "trace"},
    # The analysis: text -> IR -> trace -> order -> findings.
    "lower": {"ir", "names", "parsing", "source"},
    "models": {"trace", "source"},
    "interp": {"ir", "models", "trace", "source"},
    "order": {"trace", "source"},
    "rules": {"order", "trace", "finding", "source", "witness"},
    "fixes": {"files", "interp", "ir", "models", "parsing", "trace", "finding", "source"},
    "judging": {"interp", "parsing", "models", "order", "rules", "trace", "finding", "source"},
    # Around the analysis.
    "errors": set(),
    "characters": set(),
    "parsing": set(),
    "notebook": {"parsing"},
    "files": {"notebook", "parsing"},
    "patterns": set(),
    "prefilter": set(),
    "cache": {"errors", "files", "finding", "source"},
    "settings": {
        "errors",
        "files",
        "finding",
        "notebook",
        "parsing",
        "patterns",
        "prefilter",
        "rules",
        "source",
    },
    "pictures": {*TEXT - {"parsing", "patterns", "prefilter"}, "judging", "order", "rules", "trace"},
    "output": {"characters", "errors", "files", "finding", "notebook", "pictures", "settings", "source"},
    "run": {
        *TEXT,
        "cache",
        "lower",
        "ir",
        "models",
        "names",
        "interp",
        "judging",
        "fixes",
        "trace",
        "settings",
        "output",
    },
    "docs": {"fixes", "settings", "models"},
    "api": COMMANDS - {"trace", "output", "notebook", "patterns", "source"},
    "cli": {*COMMANDS - {"trace"}, "api", "cache", "watch"},
    "completion": {"output"},
    "watch": {"errors", "notebook", "output", "settings"},
    "explain": {*COMMANDS - {"trace"}, "api", "cache", "pictures"},
    "init": {"errors", "files", "output", "settings"},
    "server": {
        "api",
        "cache",
        "errors",
        "files",
        "finding",
        "fixes",
        "interp",
        "rules",
        "run",
        "settings",
        "source",
    },
    "graph": {*COMMANDS, "api", "ir", "pictures"},
    # The observed trace comes from the tables, and goes to the judge; what is captured, interp knows.
    "confirm": {*COMMANDS, "api", "order", "pictures", "interp", "judging", "models", "rules", "witness"},
    # In the user's own tests.
    "pytest_plugin": {"api", "confirm", "errors", "finding", "output", "run"},
    "__init__": {"api", "errors", "finding", "source"},
    "__main__": {"cli"},
}
"""For each part, the parts it may import besides itself, the version, and what makes values."""

WITHIN: dict[str, dict[str, set[str]]] = {
    "confirm": {
        # Needs nothing outside the standard library: this is imported in the user's process.
        "gpu": set(),
        "terms": set(),
        "text": {"terms"},
        "inside": {"gpu", "terms", "text"},
        # Around the user's process, in the order of a run.
        "verdict": {"gpu", "terms"},
        "plan": {"inside", "text"},
        "run": {"inside", "plan", "terms", "text", "verdict"},
        "reproduce": {"gpu", "run"},
        "report": {"inside", "reproduce", "verdict"},
        "observe": {"gpu", "inside", "text"},
        "doctor": {"gpu", "run"},
        "command": {"gpu", "observe", "plan", "report", "reproduce", "run", "verdict"},
        "__init__": {"command"},
    },
    "interp": {
        "state": set(),
        "facts": {"state"},
        "library": {"facts", "state"},
        # What the library's effects lead back to, the machine has: ``interp/state/python.py``.
        "python": {"facts", "library", "state"},
        "entries": {"facts", "library", "python", "state"},
        "__init__": set(),
    },
}
"""For the folders and files of a part, which others they may import; in ``confirm``, when they run."""

CIRCLES: dict[str, int] = {}
"""How many files of a folder may import each other in a circle, by their nature: none."""

OF_TYPES = {"interp/state": 3}
"""With what files of ``interp`` import for types only: a machine holds what takes a machine."""

HOMES = {
    "networkx": {"order"},
    **{library: {"confirm"} for library in ("torch", "cupy", "numba", "cuda", "pycuda", "numpy")},
}


MODULES = sorted(PACKAGE.rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULE_NAMES = {module_of(path) for path in MODULES}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def nodes(tree: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    """All nodes; without ``types`` not those that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if types or not is_for_types(node):
            yield node
            yield from nodes(node, types=types)


@cache
def imported(path: Path, *, types: bool = True) -> set[str]:
    """Return the modules a file imports anywhere, ``from streamlint import ir`` as ``streamlint.ir``."""
    names: set[str] = set()
    for node in nodes(tree_of(path), types=types):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = str(node.module)
            inner = {f"{module}.{alias.name}" for alias in node.names} & MODULE_NAMES
            names |= inner or {module}
    return names


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_imports(path: Path) -> None:
    part = part_of(path)
    assert part in MAY_IMPORT, f"say here which parts {part} may import"
    for name in imported(path):
        top, _, rest = name.partition(".")
        if top == "streamlint" and rest:
            module = rest.split(".")[0]
            assert module in {part, "frozen", *MAY_IMPORT[part]}, f"{part} imports {module}"
        if top in HOMES:
            assert part in HOMES[top], f"{part} imports {top}"


@pytest.mark.parametrize("path", [path for path in MODULES if part_of(path) in WITHIN], ids=named)
def test_imports_within_a_part(path: Path) -> None:
    part = part_of(path)
    folder = path.relative_to(PACKAGE).parts[1].removesuffix(".py")
    assert folder in WITHIN[part], f"say here what {part}/{folder} may import"
    for name in imported(path, types=part != "confirm"):
        if name.startswith(f"streamlint.{part}."):
            other = name.split(".")[2]
            assert other in {folder, *WITHIN[part][folder]}, f"{part}/{folder} imports {name}"


@pytest.mark.parametrize("table", [MAY_IMPORT, *WITHIN.values()], ids=["streamlint", *WITHIN])
def test_the_allowed_imports_have_no_cycle(table: dict[str, set[str]]) -> None:
    done: set[str] = set()
    while len(done) < len(table):
        ready = {part for part, others in table.items() if others <= done} - done
        assert ready, f"a cycle among {sorted(table.keys() - done)}"
        done |= ready


def circles(paths: Iterable[Path], *, types: bool) -> Iterator[tuple[set[str], set[str]]]:
    """Files that import each other in a circle, and the folders they are in."""
    files = {module_of(path): path for path in paths}
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module, path in files.items():
        graph.add_edges_from((module, name) for name in imported(path, types=types) if name in files)
    for circle in nx.strongly_connected_components(graph):
        if len(circle) > 1:
            yield circle, {named(files[module].parent) for module in circle}


@pytest.mark.parametrize(
    ("paths", "types", "most"),
    [(MODULES, False, CIRCLES), ([path for path in MODULES if part_of(path) == "interp"], True, OF_TYPES)],
    ids=["run", "types"],
)
def test_files_do_not_import_each_other_in_a_circle(
    paths: list[Path], types: bool, most: dict[str, int]
) -> None:
    largest: dict[str, int] = {}
    for circle, folders in circles(paths, types=types):
        assert len(folders) == 1, f"a circle between folders: {sorted(circle)}"
        (folder,) = folders
        assert len(circle) <= most.get(folder, 1), f"a circle of {sorted(circle)}"
        largest[folder] = max(len(circle), largest.get(folder, 1))
    assert largest == most, "it got smaller: say so here"


@pytest.mark.parametrize(
    "path",
    [*MODULES, *sorted(BENCHMARKS.rglob("*.py"))],
    ids=lambda path: path.relative_to(PACKAGE.parent).as_posix(),
)
def test_modules_stay_readable(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


PARSERS = {
    "parsing.py": {"ast.parse"},
    # Programs that are run then: Python itself parses them whole, whatever that costs.
    "confirm/text/instrument.py": {"ast.parse"},
    "confirm/text/weave.py": {"ast.parse"},
    "confirm/inside/child.py": {"compile"},
    "confirm/inside/hook.py": {"compile"},
    "confirm/observe/host_access.py": {"ast.parse", "compile"},
}
"""Who may call a parser of Python himself. All others ask ``parsing``, which keeps it from being held up."""
PARSES = re.compile(r"compile|eval|ast\.(parse|literal_eval)")


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_source_is_parsed_in_one_place(path: Path) -> None:
    called = {ast.unparse(node.func) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)}
    parsers = {name for name in called if PARSES.fullmatch(name)}
    assert parsers == PARSERS.get(named(path), set())


def test_values_are_changed_in_one_way() -> None:
    """``dataclasses.replace`` does what ``frozen.replace`` does in twice the time."""
    from_dataclasses = {
        named(path)
        for path in MODULES
        for node in nodes(tree_of(path), types=False)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(alias.name == "replace" for alias in node.names)
    }
    assert from_dataclasses == set()


@pytest.mark.parametrize("path", sorted(TESTS.glob("*.py")), ids=lambda path: path.name)
def test_no_test_is_skipped_where_the_project_itself_does_not_import(path: Path) -> None:
    """``pytest.importorskip("streamlint.x")`` would pass in silence over the worst of all faults."""
    skips = [
        argument.value
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("importorskip")
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    assert not [name for name in skips if name.partition(".")[0] in ("streamlint", "tests")]


WORDS: dict[str, dict[str, str]] = {
    "fixes/hazards.py": {"_LANGUAGES": "library", "_COMPILES": "library"},
    "fixes/plans.py": {"_PLANS": "ours"},
    "interp/library/unresolved.py": {"_GETTERS": "guess"},
    "rules/sl302_blocking_host_callback.py": {"_SET": "ours"},
    "rules/sl601_handoff_without_stream.py": {"_BY_CAPSULE": "ours"},
    "rules/sl901_pageable_async_copy.py": {"_TORCH": "library", "_FLAGS": "library"},
}
"""Lists of words outside of the tables, and whose words they are: those of Python or of a library are facts.
A guess by a name stands in ``docs/limits.md``, and there are no more of them."""


INLINE = {
    "fixes": set[str](),
    "interp": {
        # How the vocabulary of our own calls it.
        *("positional", "*", "count"),
        # The roots of packages, to which whole files belong.
        *("torch.", "torch", "torch.cuda", "torch_npu.", "numpy.", "cupy.", "cupyx."),
        # Of Python beside its builtins, and of C.
        *("OrderedDict", "defaultdict", "void"),
    },
    "judging": set[str](),
    "order": set[str](),
    "rules": {"Async", "AsyncV2"},
}
"""Words that stand in a list without a name, beside operators and builtins of Python: whose they are must be
plain where they stand. All others are facts of a table."""


def inline_words(path: Path) -> Iterator[str]:
    """The words of lists in which a name is looked for at once: ``if name in ("narrow", "select")``."""
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=lists):
                pass
            case ast.Call(func=ast.Attribute(attr="startswith" | "endswith"), args=lists):
                pass
            case _:
                continue
        for listed in lists:
            elements = listed.elts if isinstance(listed, (ast.Tuple, ast.Set, ast.List)) else []
            words = [e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)]
            if len(words) == len(elements) > 1:
                yield from words


@pytest.mark.parametrize("part", INLINE)
def test_words_without_a_list_are_pythons(part: str) -> None:
    words = {word for path in MODULES if part_of(path) == part for word in inline_words(path)}
    plain = {word for word in words if hasattr(builtins, word) or not re.search(r"\w{3}", word)}
    operators = {"not in", "is not"}
    dunder = {word for word in words if word.startswith("__")}
    assert words - plain - operators - dunder == INLINE[part] - plain


def word_lists(path: Path) -> Iterator[str]:
    """The variables of a module that hold two identifiers or more, and nothing else."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        nodes = list(ast.walk(value))
        listed = any(isinstance(node, (ast.Set, ast.Tuple, ast.List, ast.Dict)) for node in nodes)
        split = any(isinstance(node, ast.Attribute) and node.attr == "split" for node in nodes)
        texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        words = [word for text in texts for word in text.split()]
        plain = all(re.fullmatch(r"[^\W\d][\w.()=]*", word) for word in words)
        if (listed or split) and len(words) > 1 and plain and name == name.upper():
            yield name


def test_words_that_decide_are_facts() -> None:
    """A new list of words has to say here whose words they are, and no new one is a guess."""
    parts = ("fixes", "interp", "judging", "order", "rules")
    found = {
        named(path): set(lists)
        for path in MODULES
        if part_of(path) in parts and (lists := list(word_lists(path)))
    }
    assert found == {path: set(lists) for path, lists in WORDS.items()}
    guesses = {name for lists in WORDS.values() for name, whose in lists.items() if whose == "guess"}
    limits = (PACKAGE.parent / "docs" / "limits.md").read_text(encoding="utf-8")
    assert {name for name in guesses if f"`{name}`" not in limits} == set()
