"""Weaves probes into the modules of a program while they are imported; no file is changed.

``streamlint confirm TARGET -- COMMAND`` puts a folder with a ``sitecustomize.py`` first on
``PYTHONPATH``, which calls ``install`` in the program and in every Python process that it starts.
Needs nothing outside the standard library: it runs in the user's environment.
"""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
import runpy
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamlint.confirm.inside.finders import spec_of_others
from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.inside.probe import Mode
from streamlint.confirm.inside.seeds import begin, seeded
from streamlint.confirm.inside.turns import Order, Stop
from streamlint.confirm.inside.watch import Watch
from streamlint.confirm.text.instrument import PROBE, Place
from streamlint.confirm.text.weave import Role, Site, weave

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

JOB: Final = "STREAMLINT_CONFIRM_JOB"
"""The environment variable that names the file with the order."""

_LAUNCHED: Final = "STREAMLINT_CONFIRM_LAUNCHED"

SITECUSTOMIZE: Final = """\
from streamlint.confirm.inside import hook
hook.install(__file__)
"""


class Weaver:
    """The sites of a job by file, and the code of those files with probes."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self._by_file: dict[str, dict[int, Site]] = {}
        for number, site in enumerate(sites):
            self._by_file.setdefault(os.path.realpath(site.path), {})[number] = site

    def weaves(self, path: str) -> bool:
        return os.path.realpath(path) in self._by_file

    def code(self, path: str) -> CodeType:
        """:raises SyntaxError: the file is not Python."""
        # utf-8 with or without mark, or what the first lines declare, as Python itself reads it
        source = importlib.util.decode_source(Path(path).read_bytes())
        tree = weave(source, path, self._by_file[os.path.realpath(path)])
        return compile(tree, path, "exec", dont_inherit=True)


class _Loader(SourceFileLoader):
    weaver: Weaver

    def get_code(self, fullname: str) -> CodeType:
        return self.weaver.code(self.get_filename(fullname))


class _Finder:
    """Asks the other finders, and loads the modules that have sites by itself."""

    def __init__(self, weaver: Weaver) -> None:
        self._weaver = weaver

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = spec_of_others(self, name, path, target)
        return self._with_probes(seeded(spec)) if spec is not None else None

    def _with_probes(self, spec: ModuleSpec) -> ModuleSpec:
        if isinstance(spec.loader, SourceFileLoader) and spec.origin and self._weaver.weaves(spec.origin):
            loader = _Loader(spec.name, spec.origin)
            loader.weaver = self._weaver
            spec.loader = loader
        return spec


class _Out:
    """Appends one line an event to a file of this process, at once: it may end in any way."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = 0
        self._file = -1

    def __call__(self, event: dict[str, Any]) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            path = self._folder / f"{self._pid}.jsonl"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        os.write(self._file, json.dumps(event).encode() + b"\n")


def install(own_file: str) -> None:
    """Called by the ``sitecustomize.py`` at ``own_file``; chains to the user's own."""
    job = os.environ.get(JOB)
    if job:
        with suppress(OSError, ValueError):  # the folder is gone: the run is over
            _install(json.loads(Path(job).read_text("utf-8")))
    users_own(own_file)


def _install(job: dict[str, Any]) -> None:
    sites = [Site(s["finding"], Role(s["role"]), s["path"], Place(s["line"], s["col"])) for s in job["sites"]]
    weaver, out = Weaver(sites), _Out(Path(job["out"]))
    script = script_of(sys.orig_argv)
    if script is not None and weaver.weaves(script[1]) and os.environ.get(_LAUNCHED) != str(os.getpid()):
        # The interpreter is about to read the script by itself. Start over, with a reader of ours.
        os.environ[_LAUNCHED] = str(os.getpid())
        options, path, arguments = script
        again = [sys.executable, *options, "-m", "streamlint.confirm.inside.launch", path, *arguments]
        os.execv(sys.executable, again)  # noqa: S606
    os.environ.pop(_LAUNCHED, None)
    order = Order(
        Mode(job["mode"]),
        frozenset((finding, turn) for finding, turn in job["held"]),
        job["delay_ms"],
        frozenset(job["reuse"]),
        frozenset(job["stuck"]),
        Hold(job["hold"]),
        Stop(job["stop"]),
        frozenset(job["records"]),
        Path(job["images"]) if job["images"] else None,
        frozenset((finding, turn) for finding, turn in job["free"]),
        job["measures"],
    )
    begin()
    setattr(builtins, PROBE, Watch(sites, order, out))
    setattr(builtins, _WEAVER, weaver)
    sys.meta_path.insert(0, _Finder(weaver))
    _patch_runpy(weaver)
    out({"event": "start", "argv": sys.orig_argv[:8]})


_WEAVER: Final = "__streamlint_weaver__"


def installed() -> Weaver | None:
    return getattr(builtins, _WEAVER, None)


def script_of(command: Sequence[str]) -> tuple[list[str], str, list[str]] | None:
    """Options of the interpreter, script, and arguments; ``None`` for ``-c``, ``-m`` and standard input."""
    words = list(command)
    index = 1
    while index < len(words) and words[index].startswith("-"):
        word = words[index]
        # `-Wonce` and `-Xdev` hold their argument; `-Bm` is `-B -m`.
        ends = not word.startswith(("--", "-W", "-X")) and set(word[1:]) & set("cm")
        if word in ("-", "--") or ends:
            return None
        index += 2 if word in ("-W", "-X", "--check-hash-based-pycs") else 1
    if index >= len(words):
        return None
    return words[1:index], words[index], words[index + 1 :]


def _patch_runpy(weaver: Weaver) -> None:
    """``multiprocessing`` reads the main script again in each process that it spawns, by ``runpy``."""
    original: Any = getattr(runpy, "_get_code_from_file", None)
    if original is None:
        return

    def reading(*arguments: str) -> Any:  # noqa: ANN401
        path = arguments[-1]
        if not weaver.weaves(path):
            return original(*arguments)
        code = weaver.code(path)
        # Before Python 3.13 the name of the run is passed as well, and the path is wanted back.
        return (code, path) if len(arguments) == 2 else code

    runpy._get_code_from_file = reading  # type: ignore[attr-defined]


def users_own(own_file: str) -> None:
    """Run the ``sitecustomize`` that ours stands in front of."""
    own = os.path.realpath(Path(own_file).parent)
    others = [entry for entry in sys.path if os.path.realpath(entry or os.curdir) != own]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)
