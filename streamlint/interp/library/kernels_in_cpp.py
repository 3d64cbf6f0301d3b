"""What a kernel in C++ does to its parameters, from its signature and the indices in its body."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.library.kernel_places import FIXED, OF_THREADS, Access, Flow, Number, Place
from streamlint.interp.library.kernels import Use
from streamlint.source import Span
from streamlint.trace import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine

_ADDS = r"\batomic(?:Add|Sub)(?:_system)?"
"""Additions that hold beyond a block of threads (CUDA C++ Programming Guide, atomic functions)."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def as_text(source: str | bytes) -> str:
    return source if isinstance(source, str) else source.decode("utf-8", "replace")


def uses_by_name(m: Machine, name: str) -> dict[str, Use] | None:
    """By parameter, for a kernel known by name only, if its source is a literal of a module at work.

    ``SOURCE = b'extern "C" __global__ void scale(...)'``, compiled with NVRTC and loaded as binary.
    """
    for module in dict.fromkeys(frame.env.module for frame in reversed(m.frames)):
        for source in m.project.kernel_sources(module):
            found = uses(source, name)
            if found is not None:
                return found
    return None


@lru_cache(maxsize=256)
def uses(code: str, name: str) -> dict[str, Use] | None:
    """By parameter, in order, from ``__global__ void name(const float* x, int n) {``; None if not found."""
    text = _COMMENT.sub(" ", code)
    plain = name.partition("<")[0].rpartition("::")[2]
    found = re.search(rf"\b{re.escape(plain)}\s*\(([^)]*)\)\s*\{{", text)
    if found is None:
        return None
    parts = [part for part in found.group(1).split(",") if part.strip() not in ("", "void")]
    modes = {_name(part, i): _mode(part) for i, part in enumerate(parts)}
    arrays = frozenset(param for param, mode in modes.items() if mode is not None)
    body = text[found.end() : _end(text, found.end(), "{}")]
    modes |= {array: Mode.ADD for array in arrays if _only_adds(array, body)}
    places = _places(frozenset(modes), arrays, body)
    return {param: Use(mode, mode is not None, places.get(param)) for param, mode in modes.items()}


def _name(parameter: str, position: int) -> str:
    """``x`` of ``const float* __restrict__ x``; a parameter without a name has its position."""
    words = re.findall(r"[A-Za-z_]\w*", parameter)
    return words[-1] if len(words) > 1 else f"{position}"


def _mode(parameter: str) -> Mode | None:
    if "*" not in parameter and "[" not in parameter:
        return None
    pointee = parameter.partition("*")[0]
    return Mode.READ if re.search(r"\bconst\b", pointee) else Mode.UPDATE


def _only_adds(array: str, body: str) -> bool:
    """Whether the array is mentioned where it is added to, and nowhere else: ``atomicAdd(&bins[b], 1)``."""
    mentions = len(re.findall(rf"(?<![\w.]){re.escape(array)}\b", body))
    return mentions > 0 and mentions == len(re.findall(rf"{_ADDS}\s*\(\s*&?\s*{re.escape(array)}\b", body))


def _end(text: str, start: int, pair: str) -> int:
    """Where what has begun before ``start`` is closed."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] == pair[0]) - (text[at] == pair[1])
        if not depth:
            return at
    return len(text)


# ----------------------------------------------------------------------------- where it works

_ASSIGNED = re.compile(r"(\w+)\s*([-+*/]?)=(?!=)\s*([^;,]*)")
_CAST = re.compile(
    r"\(\s*(?:const\s+)?(?:unsigned\s+|signed\s+|long\s+)*(?:int|long|size_t|u?int\d+_t|unsigned)\s*\)"
)


def _places(parameters: frozenset[str], arrays: frozenset[str], body: str) -> dict[str, Place]:
    """By array: what tells where all its indices are. Of the body assignments and indices are read."""
    flow = Flow(parameters)
    body = _CAST.sub("", body)
    for found in _ASSIGNED.finditer(body):
        name, op, value = found.groups()
        flow.locals[name] = flow.locals.get(name, FIXED) | (OF_THREADS if op else _number(flow, value))
    for array in arrays:
        for found in re.finditer(rf"(?<![\w.]){re.escape(array)}\b\s*(\[?)", body):
            if not found.group(1):
                flow.anywhere.add(array)
                continue
            index = body[found.end() : _end(body, found.end(), "[]")].strip()
            first = index if index in parameters - flow.locals.keys() else ""
            flow.accesses.append(Access(array, _number(flow, index), first))
    return flow.places(arrays)


def _number(flow: Flow, text: str) -> Number:
    """What cannot be read is shifted by all that it mentions."""
    expression = _Reader(_TOKEN.findall(text)).whole()
    if expression is not None:
        return flow.number(expression)
    return flow.together([ir.Name(_NOWHERE, word) for word in re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)])


# ----------------------------------------------------------------------------- expressions

_TOKEN = re.compile(r"\d[\w.]*|[A-Za-z_][\w:]*|<<|>>|->|\S")
_LOOSEST_FIRST = (("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
_NOWHERE = Span("", 1, 0, 1, 0)
_DEEPEST = 50


class _Reader:
    """Arithmetic of C++: names, members, calls, indices and operators. None where there is something else."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> ir.Expr | None:
        found = self._binary(0)
        return found if self._at == len(self._tokens) else None

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _takes(self, *tokens: str) -> str:
        here = self._next()
        if here and here in tokens:
            self._at += 1
            return here
        return ""

    def _binary(self, level: int) -> ir.Expr | None:
        if level == len(_LOOSEST_FIRST):
            return self._unary()
        left = self._binary(level + 1)
        while left is not None and (op := self._takes(*_LOOSEST_FIRST[level])):
            right = self._binary(level + 1)
            left = ir.Binary(_NOWHERE, op, left, right) if right is not None else None
        return left

    def _unary(self) -> ir.Expr | None:
        if self._takes("-", "+"):
            return self._unary()
        here = self._next()
        self._at += 1
        found: ir.Expr | None = None
        if here == "(":
            found = self._enclosed(")")
        elif here[:1].isdigit():
            found = ir.Const(_NOWHERE, 1)
        elif here[:1].isalpha() or here[:1] == "_":
            found = ir.Name(_NOWHERE, here)
        while found is not None and (mark := self._takes(".", "->", "[", "(")):
            found = self._behind(found, mark)
        return found

    def _behind(self, value: ir.Expr, mark: str) -> ir.Expr | None:
        if mark == "[":
            index = self._enclosed("]")
            return ir.Index(_NOWHERE, value, index) if index is not None else None
        if mark == "(":
            args: list[ir.Arg] = []
            while not self._takes(")"):
                arg = self._enclosed(",", ")", keep=")")
                if arg is None:
                    return None
                args.append(ir.Arg(arg))
            return ir.Call(_NOWHERE, value, tuple(args))
        self._at += 1
        return ir.Attr(_NOWHERE, value, "member")

    def _enclosed(self, *ends: str, keep: str = "") -> ir.Expr | None:
        self._depth += 1
        found = self._binary(0) if self._depth < _DEEPEST else None
        self._depth -= 1
        here = self._next()
        if here not in ends:
            return None
        self._at += here != keep
        return found
