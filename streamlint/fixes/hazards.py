"""What in a file is a hazard to any wait that is put in, wherever in the tree that stands.

* A capture refuses waits of the host, and those for work outside of it.
* A kernel that polls a flag ends when the host, or a later copy, sets it; a callback may wait for a lock, a
  collective for other processes. A wait that is put in front of what they wait for never ends.
* A compiler of functions may not know what waits: ``torch.jit.script`` knows no current stream.

Who calls whom is not asked: hooks, operators, and tables of functions lead anywhere. One such file is enough.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from functools import cache
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.files import UnreadableError, text_of
from streamlint.fixes.text import Source
from streamlint.models import numba, torch, vocabulary, warp
from streamlint.models.schema import Lib

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORD = re.compile(rb"[^\W\d]\w*")
_TELLING = (
    *(b"__global__", b"cudagraph", b"cuda_graph"),
    *sorted(part.encode() for part in torch.MEMORY_SIGNALS),
)
"""Begins each kernel in CUDA, in whatever text; what captures by a name of its own
(``triton.testing.do_bench_cudagraph``); parts of names of what waits for a value in memory."""
_LANGUAGES = vocabulary.ROOTS - {"torch", "jax"} | {"triton"}
"""Packages whose decorators make kernels of functions."""
_MAKES_KERNEL = (
    frozenset(path.rpartition(".")[2] for path in models.KERNEL_DECORATORS)
    | numba.COMPILES
    | warp.DEVICE_FUNCTIONS
)
"""What does so in them: ``cuda.jit(f)`` as well."""
_KERNEL = "kernel"
"""What does so in languages that no table has: ``@cute.kernel``."""
_SUSPICIOUS = re.compile(
    rb"^[ \t]*@[\w.]*\bkernel\b|\bjit\b|(?<!\bre)\.compile\b|\bimport\b.*\bcompile\b|[\"']compile[\"']"
    rb"|\bcu(?:da)?[A-Z]",
    re.MULTILINE,
)
"""What else makes a text worth parsing, for kernels, compilers and CUDA itself."""
_COMPILES = frozenset({"compile", "jit"})
"""What a compiler of functions is called, whose ever it is: ``jax.jit``."""
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
_ALL_KNOWN = tuple(f"{module}." for lib in (Lib.RUNTIME, Lib.DRIVER) for module in models.BY_LIB[lib].modules)
"""What no table has of CUDA itself may wait for a value in memory."""


def has_hazard(data: bytes) -> bool:
    """Whether the text of a file captures, queues what may not end by itself, or compiles functions."""
    words = set(_WORD.findall(data))
    named = [each for each in _hazards() if each <= words]
    text = data.lower()
    if any(part in text for part in _TELLING) or any(len(each) == 1 for each in named):
        return True
    if not (named or any(each <= words for each in _suspicious()) or _SUSPICIOUS.search(data)):
        return False
    try:
        source = Source.of("", text_of(data))
    except UnreadableError:
        source = None
    if source is None:
        return True
    identifiers = _identifiers(source.tree)
    return any(each <= identifiers for each in named) or _may_poll(source)


@cache
def _hazards() -> tuple[frozenset[bytes], ...]:
    """With all of ``torch.distributed``: what its parts queue waits for other processes."""
    distributed = {frozenset(path.split(".")) for path in models.BY_LIB[Lib.DISTRIBUTED].modules}
    return tuple(frozenset(word.encode() for word in each) for each in vocabulary.HAZARDS | distributed)


@cache
def _suspicious() -> tuple[frozenset[bytes], ...]:
    """Words that, together, make another text worth parsing."""
    paths = (*torch.COMPILERS, *(_LANGUAGES - {"cuda"}))
    return tuple(frozenset(word.encode() for word in path.split(".")) for path in paths)


def _identifiers(tree: ast.Module) -> set[bytes]:
    """Names, attributes, and the parts of what is imported; no words of strings and comments."""
    found: set[str] = set()
    for node in _nodes(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                found.add(name)
            case ast.Import(names=names):
                found |= {part for each in names for part in each.name.split(".")}
            case ast.ImportFrom(module=module, names=names):
                found |= {*(module or "").split("."), *(each.name for each in names)}
            case _:
                pass
    return {each.encode() for each in found}


def _nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes; ``getattr(torch, "compile")`` is an attribute, too."""
    for node in ast.walk(tree):
        yield node
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name)), *_]):
                yield ast.Attribute(owner, name, ast.Load())
            case _:
                pass


def _may_poll(source: Source) -> bool:
    """Whether a file makes kernels that may poll, calls what nobody knows, or has a compiler do so."""
    nodes = list(_nodes(source.tree))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    heads = {head for each in functions for head in _decorators(each)}
    inner = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    named = [node for node in nodes if isinstance(node, (ast.Name, ast.Attribute)) and node not in inner]
    return any(_is_kernel(source, each) and not _ends(source, each) for each in functions) or any(
        _leads_away(source, each, is_decorator=each in heads) for each in named
    )


def _leads_away(source: Source, named: ast.Name | ast.Attribute, *, is_decorator: bool) -> bool:
    path = source.path_of(named) or ""
    root, last = path.partition(".")[0], path.rpartition(".")[2]
    compiles = f"{path}.".startswith(_COMPILERS) or (  # model.compile(), and not re.compile()
        (last or getattr(named, "attr", "")) in _COMPILES and root not in _LANGUAGES | sys.stdlib_module_names
    )
    is_function = path.removesuffix(last).endswith(_ALL_KNOWN) and last[:1].islower() and last[-2:] != "_t"
    is_kernel = root in _LANGUAGES and last in _MAKES_KERNEL and not is_decorator
    return compiles or is_kernel or (is_function and models.find_function(path) is None)


_COMPILERS = tuple(f"{path}." for path in torch.COMPILERS)


def _decorators(function: ast.FunctionDef) -> list[ast.expr]:
    return [each.func if isinstance(each, ast.Call) else each for each in function.decorator_list]


def _is_kernel(source: Source, function: ast.FunctionDef) -> bool:
    """Whether a library makes something else of a function than what Python runs: ``@cuda.jit``."""
    made_by = [(each, (source.path_of(each) or "").partition(".")[0]) for each in _decorators(function)]
    return any(
        root in _LANGUAGES or getattr(each, "attr", getattr(each, "id", "")) == _KERNEL
        for each, root in made_by
    )


def _ends(source: Source, kernel: ast.FunctionDef) -> bool:
    """Whether a kernel has no loop, no code of another language, and calls nothing that may have them.

    ``while flag[0] == 0: pass`` ends when somebody sets the flag, and so does a function that calls itself.
    """
    told = kernel.body[ast.get_docstring(kernel) is not None :]
    nodes = [node for each in (*told, *kernel.decorator_list) for node in ast.walk(each)]
    return not any(
        isinstance(node, _LOOPS)
        or (isinstance(node, ast.Constant) and ";" in str(node.value))
        or (isinstance(node, ast.Call) and not _is_librarys(source, node.func))
        for node in nodes
    )


def _is_librarys(source: Source, called: ast.expr) -> bool:
    """A function of a library or of Python; what a value itself can do."""
    path = source.path_of(called)
    if path is not None:
        return path.partition(".")[0] in _LANGUAGES | {"math", "numpy"}
    if isinstance(called, ast.Name):
        return hasattr(builtins, called.id) and ast.dump(called) not in source.given(source.tree)
    return isinstance(called, ast.Attribute)
