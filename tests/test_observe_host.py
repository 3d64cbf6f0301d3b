"""Rewritten modules behave as before, and show which host memory they read and write."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from streamlint.confirm.observe.events import HostTouch
from streamlint.confirm.observe.host_access import HostMemory, compile_source
from streamlint.confirm.observe.host_functions import HostFunctions
from streamlint.confirm.observe.recorder import Recorder, Window
from streamlint.trace import Mode, Space, StreamKind

SIZE = 16


class Program:
    """Runs text as a rewritten module would run, with one block of pinned memory in ``host``."""

    def __init__(self) -> None:
        self.windows: list[Window] = []
        self.recorder = Recorder(lambda: None, lambda: (), lambda _: StreamKind.BLOCKING, self.windows.append)
        self.memory = HostMemory(self.recorder, HostFunctions(self.recorder))
        self.array = (ctypes.c_int32 * SIZE)(*range(SIZE))
        self.start = ctypes.addressof(self.array)
        self.recorder.unseen(self.start, 4 * SIZE, Space.PINNED, "cpu")
        self.names: dict[str, Any] = {"host": self.array, "ctypes": ctypes, **self.memory.names()}

    def run(self, text: str) -> Any:  # noqa: ANN401
        exec(compile_source(text.encode(), "program.py"), self.names)  # noqa: S102
        return self.names.get("result")

    def touches(self) -> list[tuple[Mode, int, int]]:
        self.recorder.turn()
        return [
            touch[1:4]
            for window in self.windows
            for half in window.halves
            for entry in half.entries
            if isinstance(entry, HostTouch)
            for touch in entry.touches
        ]


@pytest.mark.parametrize(
    ("text", "touches"),
    [
        ("result = host[2]", [(Mode.READ, 8, 12)]),
        ("host[2] = 5", [(Mode.WRITE, 8, 12)]),
        ("host[2] += 5", [(Mode.READ, 8, 12), (Mode.WRITE, 8, 12)]),
        ("result = list(host)", [(Mode.READ, 0, 64)]),
        ("result = len(host)", []),
        ("result = id(host)", []),
        ("result = [host]", []),
        ("result = host == 7", [(Mode.READ, 0, 64)]),
        ("result = 1 in host", [(Mode.READ, 0, 64)]),
        ("result = None is host", []),
        ("result = not host", [(Mode.READ, 0, 64)]),
    ],
)
def test_what_is_touched(text: str, touches: list[tuple[Mode, int, int]]) -> None:
    program = Program()
    program.run(text)
    assert program.touches() == touches


def test_memory_that_no_block_holds_is_nobodys() -> None:
    program = Program()
    assert program.run("own = (ctypes.c_int32 * 4)(1, 2, 3, 4); own[1] = 9; result = own[1]") == 9
    assert program.touches() == []


@pytest.mark.parametrize(
    "text",
    [
        "result = [1, 2, 3][1:]",
        "result = {'a': 1}['a']",
        "x = [1, 2]; x[0] += 5; del x[1]; result = x",
        "def f(*a, **k): return a, k\nresult = f(*[1, 2], **{'b': 3})",
        "class A:\n    def f(self): return 1\n"
        "class B(A):\n    def f(self): return super().f() + 1\n"
        "result = B().f()",
        "result = sorted([3, 1], key=lambda v: -v)",
        "result = list[int]",
        "import math\nresult = math.floor(2.5) + sum(v * 2 for v in range(3))",
        "result = f'{[1, 2][0]:>3}' + str(1 + 2) * 2",
        "from __future__ import annotations\ndef f(x: list[undefined]) -> a[b]: y: c[d] = 1\nz: e[g]\n"
        "result = f.__annotations__, __annotations__",
        "matches = []\nfor v in ([1, 2], {'a': [3]}):\n"
        "    match v:\n        case [a, b]: matches.append(a)\n        case {'a': [c]}: matches.append(c)\n"
        "result = matches",
    ],
)
def test_rewritten_text_means_the_same(text: str) -> None:
    names: dict[str, Any] = {}
    exec(compile(text, "program.py", "exec", dont_inherit=True), names)  # noqa: S102
    assert Program().run(text) == names["result"]


def test_an_error_keeps_its_line() -> None:
    with pytest.raises(IndexError) as caught:
        Program().run("\n\nx = [1]\nx[5]\n")
    lines = [entry.lineno for entry in caught.traceback[1:] if str(entry.path).endswith("program.py")]
    assert [line + 1 for line in lines] == [4]


def test_numpy_arrays() -> None:
    numpy = pytest.importorskip("numpy")
    program = Program()
    program.names["np"] = numpy
    program.run(
        "view = np.ctypeslib.as_array(host)\n"
        "part = view[4:8]\n"
        "view[1] = 3\n"
        "part[:] = 7\n"
        "result = float(view[5]) + part.sum()\n"
        "np.copyto(view[:2], [1, 2])\n"
        "other = part + 1\n"
        "shape = part.reshape(2, 2)[1, 0], part.shape\n"
        "same = part == 7\n"
        "part += 1\n"
    )
    assert program.names["result"] == 35.0
    assert program.touches() == [
        (Mode.WRITE, 4, 8),
        (Mode.WRITE, 16, 32),
        (Mode.READ, 20, 24),
        (Mode.READ, 16, 32),
        (Mode.WRITE, 0, 8),
        (Mode.READ, 16, 32),
        (Mode.READ, 24, 28),
        (Mode.READ, 16, 32),
        (Mode.WRITE, 16, 32),
    ]


def test_what_a_gpu_compiler_reads_stays_as_it_is() -> None:
    program = Program()
    program.names["jit"] = lambda function: function
    program.run("@jit\ndef kernel(x):\n    x[0] = 1\n\ndef plain(x):\n    x[0] = 1\n")
    assert program.names["kernel"].__code__.co_names == ()
    assert program.names["plain"].__code__.co_names != ()
