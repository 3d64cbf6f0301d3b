"""Host code that reads and writes memory which copies use: NumPy arrays and ctypes arrays.

No library call shows that ``view[0]`` reads pinned memory. So the program's own modules are rewritten
when they are loaded: what is subscripted, the receivers of method calls, and the operands and arguments
that reach NumPy and the builtins that look at values go through a function that compares addresses. Lines
and columns stay those of the source, and the files are not changed. What the call of a name means comes
from ``models/host.py``.
"""

from __future__ import annotations

import ast
import ctypes
import sys
import threading
from typing import TYPE_CHECKING, Any

from streamlint.confirm.observe.events import HostTouch, Touch
from streamlint.confirm.text.instrument import compiled
from streamlint.models.host import (
    ALLOCATORS,
    ARRAY_META,
    ARRAY_VIEWS,
    ARRAY_WRITES,
    MEMORY_FUNCTIONS,
    READ_BUILTINS,
    VIEW_FUNCTIONS,
)
from streamlint.trace import Mode

if TYPE_CHECKING:
    from types import CodeType

    from streamlint.confirm.observe.host_functions import HostFunctions
    from streamlint.confirm.observe.recorder import Recorder

ELEMENT, RECEIVER, READ, WRITE = (
    "__streamlint_element__",
    "__streamlint_receiver__",
    "__streamlint_read__",
    "__streamlint_write__",
)
_MODULES = {"np": "numpy", "numpy": "numpy", "ctypes": "ctypes"}
_NEW_FROM_VALUES = frozenset({"numpy.array"})
"""Allocators that read what they are given."""


def compile_source(source: bytes, path: str) -> CodeType:
    """Compile a module with its uses of host memory made visible. Raises SyntaxError."""
    tree = ast.parse(source, path)
    return compile(_Rewriter(compiled(tree)).visit(tree), path, "exec", dont_inherit=True)


class _Rewriter(ast.NodeTransformer):
    """Leaves annotations as they are: programs read them (``from __future__ import annotations``).

    So are the functions that a GPU compiler reads (``kernels``): it knows no function of ours.
    """

    def __init__(self, kernels: frozenset[str]) -> None:
        self._kernels = kernels

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.target = self.visit(node.target)
        node.value = None if node.value is None else self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node if node.name in self._kernels else self._without_result(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._without_result(node)

    def _without_result(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        node.value = _through(ELEMENT, node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        node.left, node.right = (_operand(side) for side in (node.left, node.right))
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        node.operand = _operand(node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """``flags == 7`` computes; ``flags is None`` looks at no element."""
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        looking = [i for i, one in enumerate(node.ops) if not isinstance(one, ast.Is | ast.IsNot)]
        read = {side for i in looking for side in (i, i + 1)}
        node.left, *node.comparators = [_operand(side) if i in read else side for i, side in enumerate(sides)]
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        """``flags += 1`` writes into an array; so does ``flags[2] += 1``, by its brackets."""
        self.generic_visit(node)
        node.value = _operand(node.value)
        if not isinstance(node.target, ast.Name):
            return node
        written = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        return [ast.copy_location(ast.Expr(_through(WRITE, written)), node), node]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = _dotted(node.func)
        if name in READ_BUILTINS:
            node.args = [_through(READ, arg) if _plain(arg) else arg for arg in node.args]
        elif name in MEMORY_FUNCTIONS:
            written, read = MEMORY_FUNCTIONS[name]
            node.args = [
                _through(WRITE, arg) if i == written else _through(READ, arg) if i == read else arg
                for i, arg in enumerate(node.args)
            ]
        elif name.startswith("numpy."):
            if name in _NEW_FROM_VALUES or (name not in VIEW_FUNCTIONS and name not in ALLOCATORS):
                node.args = [_through(READ, arg) if _plain(arg) else arg for arg in node.args]
        elif isinstance(node.func, ast.Attribute) and not name.startswith("ctypes."):
            method = node.func.attr
            if method not in ARRAY_VIEWS and method not in ARRAY_META:
                word = ast.copy_location(ast.Constant(method in ARRAY_WRITES), node.func.value)
                node.func.value = _through(RECEIVER, node.func.value, word)
        return node


def _through(function: str, value: ast.expr, *more: ast.expr) -> ast.expr:
    if isinstance(value, (ast.Starred, ast.Constant)) or _is_super(value):
        return value
    name = ast.copy_location(ast.Name(function, ast.Load()), value)
    return ast.copy_location(ast.Call(name, [value, *more], []), value)


def _is_super(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"


def _plain(value: ast.expr) -> bool:
    """Whether an argument can be an array as it stands: the result of a call is new, or a view."""
    return isinstance(value, (ast.Name, ast.Attribute, ast.Subscript))


def _operand(value: ast.expr) -> ast.expr:
    return _through(READ, value) if _plain(value) else value


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return _MODULES.get(name, name)
        case ast.Attribute(value=value, attr=attr):
            inner = _dotted(value)
            return f"{inner}.{attr}" if inner else ""
        case _:
            return ""


# ----------------------------------------------------------------------------- at run time


class HostMemory:
    """The functions that rewritten code calls. Each gives back what it was given."""

    def __init__(self, recorder: Recorder, functions: HostFunctions) -> None:
        self._recorder = recorder
        self._functions = functions
        self._array: type | None = None

    def names(self) -> dict[str, Any]:
        return {ELEMENT: self.element, RECEIVER: self.receiver, READ: self.read, WRITE: self.write}

    def _is_array(self, value: object) -> bool:
        if self._array is None:
            numpy = sys.modules.get("numpy")
            self._array = getattr(numpy, "ndarray", None)
        return (self._array is not None and isinstance(value, self._array)) or isinstance(value, ctypes.Array)

    def element(self, value: Any) -> Any:
        if self._is_array(value) and self._recorder.find(_extent(value)[0]) is not None:
            return _Elements(value, self)
        return value

    def receiver(self, value: Any, writes: bool) -> Any:
        if self._is_array(value):
            self.touch(value, Mode.WRITE if writes else Mode.READ)
        return value

    def read(self, value: Any) -> Any:
        if self._is_array(value):
            self.touch(value, Mode.READ)
        return value

    def write(self, value: Any) -> Any:
        if self._is_array(value):
            self.touch(value, Mode.WRITE)
        return value

    def touch(self, value: Any, mode: Mode) -> None:
        self.touch_bytes(*_extent(value), mode)

    def touch_bytes(self, address: int, size: int, mode: Mode) -> None:
        block = self._recorder.find(address)
        if block is None or not size:
            return
        lo = address - block.start
        touch = Touch(block, mode, lo, lo + size, operand=0)
        body = self._functions.running()
        if body is not None:
            body.touches.append(HostTouch(self._recorder.where(), "host access", [touch]))
        elif not is_callback_thread():
            # What a graph's host function does comes in the order of its launch, which is not known here.
            self._recorder.host("host access", (touch,))


def is_callback_thread() -> bool:
    """Whether this thread is not one of Python's: a thread of the driver, in a host callback."""
    caller = threading.get_ident()
    return all(thread.ident != caller for thread in threading.enumerate())


class _Elements:
    """Stands for an array between its name and its brackets, which know the index."""

    def __init__(self, array: Any, memory: HostMemory) -> None:
        self._array = array
        self._memory = memory

    def __getitem__(self, index: Any) -> Any:
        part = self._array[index]
        if not self._memory._is_array(part):
            self._at(index, Mode.READ)
        return part

    def __setitem__(self, index: Any, value: Any) -> None:
        self._memory.read(value)
        self._at(index, Mode.WRITE)
        self._array[index] = value

    def __delitem__(self, index: Any) -> None:
        del self._array[index]

    def _at(self, index: Any, mode: Mode) -> None:
        self._memory.touch_bytes(*_part(self._array, index), mode)


def _extent(array: Any) -> tuple[int, int]:
    """The first byte of an array, and the number of bytes up to its last."""
    if isinstance(array, ctypes.Array):
        return ctypes.addressof(array), ctypes.sizeof(array)
    if not array.size:
        return 0, 0
    steps = [(count - 1) * step for count, step in zip(array.shape, array.strides, strict=True)]
    before = sum(step for step in steps if step < 0)
    after = sum(step for step in steps if step > 0)
    return int(array.ctypes.data) + before, after - before + int(array.itemsize)


def _part(array: Any, index: Any) -> tuple[int, int]:
    """The bytes that ``array[index]`` stands for; those of the whole array where that is hard to tell."""
    if isinstance(array, ctypes.Array):
        size = ctypes.sizeof(array._type_)
        return (ctypes.addressof(array) + index * size, size) if isinstance(index, int) else _extent(array)
    numpy = sys.modules["numpy"]
    where = index if isinstance(index, tuple) else (index,)
    if not all(isinstance(one, (int, numpy.integer, slice)) or one in (None, Ellipsis) for one in where):
        return _extent(array)
    # A length of one in the place of each number makes a view of what would be an element.
    kept = tuple(
        slice(int(one), int(one) + 1 or None) if isinstance(one, (int, numpy.integer)) else one
        for one in where
    )
    return _extent(array[kept])
