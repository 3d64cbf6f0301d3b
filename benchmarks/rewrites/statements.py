"""Branches, loops and what stands between statements, told differently."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .program import Function, behind_docstring, blocks, bound, dotted, functions, has, methods, read, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from .program import Program


def _not(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


def _leaves(block: list[ast.stmt]) -> bool:
    return isinstance(block[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _each(
    program: Program, change: Callable[[ast.stmt, Program], list[ast.stmt] | None], *, inside: bool = True
) -> int:
    """Puts other statements in the place of each one of which ``change`` gives some; in functions only."""
    count = 0
    for tree in functions(program.tree) if inside else [program.tree]:
        for block in blocks(tree):
            for number in reversed(range(len(block))):
                if (other := change(block[number], program)) is not None:
                    block[number : number + 1] = other
                    count += 1
    return count


def swapped_arms(program: Program) -> int:
    """``if not c:`` with the arms in the other order."""
    found = [one for one in ast.walk(program.tree) if isinstance(one, ast.If) and one.orelse]
    for one in found:
        one.test, one.body, one.orelse = _not(one.test), one.orelse, one.body
    return len(found)


def conditional_as_if(program: Program) -> int:
    """``x = a if c else b`` by an ``if``."""

    def change(one: ast.stmt, _: Program) -> list[ast.stmt] | None:
        match one:
            case ast.Assign([target], ast.IfExp(test, body, orelse)):
                return written(
                    "if TEST:\n    T = A\nelse:\n    T = B", one, TEST=test, T=target, A=body, B=orelse
                )
        return None

    return _each(program, change)


def if_as_conditional(program: Program) -> int:
    """An ``if`` of which both arms assign to one name, by an expression."""

    def change(one: ast.stmt, _: Program) -> list[ast.stmt] | None:
        match one:
            case ast.If(test, [ast.Assign([ast.Name(a)], x)], [ast.Assign([ast.Name(b)], y)]) if a == b:
                return written("T = X if C else Y", one, T=a, X=x, C=test, Y=y)
        return None

    return _each(program, change)


def early_return(program: Program) -> int:
    """An ``if`` at the end of a function returns first where it does not hold."""
    count = 0
    for function in functions(program.tree):
        match function.body[-1]:
            case ast.If(test, body, []) as one if not has(function.body, ast.Yield, ast.YieldFrom):
                function.body[-1:] = [*written("if TEST:\n    return", one, TEST=_not(test)), *body]
                count += 1
    return count


def no_else(program: Program) -> int:
    """``else`` behind an arm that leaves is left out."""

    def change(one: ast.stmt, _: Program) -> list[ast.stmt] | None:
        if isinstance(one, ast.If) and one.orelse and _leaves(one.body):
            rest, one.orelse = one.orelse, []
            return [one, *rest]
        return None

    return _each(program, change)


def early_continue(program: Program) -> int:
    """An ``if`` at the end of a loop's body goes on with the next pass where it does not hold."""
    count = 0
    for loop in [one for one in ast.walk(program.tree) if isinstance(one, (ast.For, ast.While))]:
        match loop.body[-1]:
            case ast.If(test, body, []) as one:
                loop.body[-1:] = [*written("if TEST:\n    continue", one, TEST=_not(test)), *body]
                count += 1
    return count


def while_index(program: Program) -> int:
    """``for i in range(n):`` by ``while``."""

    def change(one: ast.stmt, program: Program) -> list[ast.stmt] | None:
        match one:
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), [end], []), body, []):
                index, bound_of = program.fresh("index"), program.fresh("end")
                return written(
                    "INDEX = 0\nEND = N\nwhile INDEX < END:\n    I = INDEX\n    INDEX += 1\n    BODY",
                    one, INDEX=index, END=bound_of, N=end, I=name, BODY=body,
                )  # fmt: skip
        return None

    return _each(program, change)


def _iterated(program: Program, around: Callable[[ast.For, Program], None]) -> int:
    loops = [
        one
        for one in ast.walk(program.tree)
        if isinstance(one, ast.For) and not has(one.body, ast.Delete) and not isinstance(one.iter, ast.Call)
    ]
    for one in loops:
        around(one, program)
    return len(loops)


def enumerated(program: Program) -> int:
    """``for x in xs:`` as ``for _, x in enumerate(xs):``."""

    def around(one: ast.For, program: Program) -> None:
        one.target = ast.Tuple([ast.Name(program.fresh("number"), ast.Store()), one.target], ast.Store())
        one.iter = ast.Call(ast.Name("enumerate", ast.Load()), [one.iter], [])

    return _iterated(program, around)


def by_generator(program: Program) -> int:
    """``for x in xs:`` as ``for x in (y for y in xs):``."""

    def around(one: ast.For, program: Program) -> None:
        name = program.fresh("item")
        one.iter = ast.GeneratorExp(
            ast.Name(name, ast.Load()), [ast.comprehension(ast.Name(name, ast.Store()), one.iter, [], 0)]
        )

    return _iterated(program, around)


def by_index(program: Program) -> int:
    """``for x in xs:`` over a name by ``for i in range(len(xs)):``, if ``xs`` is a list made here."""
    count = 0
    for function in functions(program.tree):
        made = {
            one.targets[0].id
            for one in ast.walk(function)
            if isinstance(one, ast.Assign)
            and isinstance(one.targets[0], ast.Name)
            and isinstance(one.value, (ast.List, ast.ListComp, ast.Tuple))
        }
        for one in ast.walk(function):
            match one:
                case ast.For(target, ast.Name(name)) if name in made and name not in bound(one.body):
                    calls = {dotted(c.func) for c in ast.walk(one) if isinstance(c, ast.Call)}
                    if calls & {
                        f"{name}.{m}" for m in ("append", "pop", "extend", "clear", "insert", "remove")
                    }:
                        continue
                    index = program.fresh("index")
                    (take,) = written(f"T = {name}[I]", one, T=target, I=index)
                    one.body.insert(0, take)
                    one.target = ast.Name(index, ast.Store())
                    one.iter = ast.parse(f"range(len({name}))", mode="eval").body
                    count += 1
    return count


def comprehension_as_loop(program: Program) -> int:
    """``xs = [f(y) for y in ys]`` by a loop that appends."""

    def change(one: ast.stmt, program: Program) -> list[ast.stmt] | None:
        match one:
            case ast.Assign(
                [ast.Name(name)], ast.ListComp(element, [ast.comprehension(target, source, [], 0)])
            ):
                if name in read(one.value) or has(element, ast.Lambda, ast.ListComp, ast.GeneratorExp):
                    return None
                loop = written(
                    f"{name} = []\nfor T in S:\n    {name}.append(X)", one, T=target, S=source, X=element
                )
                return loop if all(program.names.isdisjoint({f"{n}_0"}) for n in bound(target)) else None
        return None

    count = 0
    for function in functions(program.tree):
        made = [one for one in ast.walk(function) if isinstance(one, ast.ListComp)]
        names = [one.id for one in ast.walk(function) if isinstance(one, ast.Name)]
        own = {n for one in made for n in bound(one.generators[0].target)}
        inner = [one.id for comp in made for one in ast.walk(comp) if isinstance(one, ast.Name)]
        if any(names.count(n) != inner.count(n) for n in own):  # the loop's variable would hide another
            continue
        for block in blocks(function):
            for number in reversed(range(len(block))):
                if (other := change(block[number], program)) is not None:
                    block[number : number + 1] = other
                    count += 1
    return count


def loop_as_comprehension(program: Program) -> int:
    """``xs = []`` and a loop that only appends, by a comprehension."""
    count = 0
    for function in functions(program.tree):
        for block in blocks(function):
            for number in reversed(range(len(block) - 1)):
                match block[number : number + 2]:
                    case [
                        ast.Assign([ast.Name(name)], ast.List([])),
                        ast.For(
                            target,
                            source,
                            [ast.Expr(ast.Call(ast.Attribute(ast.Name(to), "append"), [x], []))],
                            [],
                        ),
                    ] if name == to and name not in read(x):
                        (made,) = written(
                            f"{name} = [X for T in S]", block[number + 1], X=x, T=target, S=source
                        )
                        block[number : number + 2] = [made]
                        count += 1
    return count


def printing(program: Program) -> int:
    """Something is printed between all statements of functions."""
    count = 0
    for function in functions(program.tree):
        for block in blocks(function):
            first = behind_docstring(block) if block else 0
            for number in reversed(range(first, len(block))):
                block[number:number] = written('print("step")', block[number])
                count += 1
    return count


def logging(program: Program) -> int:
    """Something is logged between all statements of functions."""
    program.imports.add("import logging")
    count = 0
    for function in functions(program.tree):
        for block in blocks(function):
            first = behind_docstring(block) if block else 0
            for number in reversed(range(first, len(block))):
                block[number:number] = written('logging.getLogger(__name__).debug("at %d", 1)', block[number])
                count += 1
    return count


def no_hints(program: Program) -> int:
    """Functions have no annotations. That tells less, so confidence may sink."""
    count = 0
    for function in functions(program.tree):
        args = function.args
        for one in (*args.posonlyargs, *args.args, *args.kwonlyargs):
            count += one.annotation is not None
            one.annotation = None
        function.returns = None
    return count


def calling_through(program: Program) -> int:
    """Functions and methods have a decorator that calls them (``functools.wraps``)."""
    found = [
        function
        for function in functions(program.tree)
        if isinstance(function, ast.FunctionDef)
        and not function.decorator_list
        and not function.name.startswith("__")
    ]
    if not found:
        return 0
    name = program.fresh("through")
    for function in found:
        function.decorator_list = [ast.Name(name, ast.Load())]
    first = next(n for n, one in enumerate(program.tree.body) if isinstance(one, (Function, ast.ClassDef)))
    program.imports.add("import functools")
    program.tree.body[first:first] = written(
        "def NAME(f):\n    @functools.wraps(f)\n    def inner(*args, **kwargs):\n"
        "        return f(*args, **kwargs)\n    return inner",
        program.tree.body[first], NAME=name,
    )  # fmt: skip
    return len(found)


def _wrapped(program: Program, template: str, chosen: Callable[[Function], bool]) -> int:
    count = 0
    of = methods(program.tree)
    for function in functions(program.tree):
        first = behind_docstring(function.body)
        body = function.body[first:]
        args = {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
        if (
            not body
            or has(body, ast.Yield, ast.YieldFrom, ast.Nonlocal, ast.Global)
            or isinstance(function, ast.AsyncFunctionDef)
            or "super" in read(body)
            or bound(body) & args
            or (id(function) in of and function.name.startswith("__"))
            or not chosen(function)
        ):
            continue
        name = program.fresh("work")
        made = written(template, body[0], WORK=name, BODY=body)
        if isinstance(body[-1], ast.Return):  # what is handed out too early may be reported at either return
            made[1:] = written(template, body[-1], WORK=name, BODY=[])[1:]
        function.body[first:] = made
        count += 1
    return count


def nested_function(program: Program) -> int:
    """All that a function does stands in a function inside of it, which it calls."""
    return _wrapped(program, "def WORK():\n    BODY\nreturn WORK()", lambda _: True)


def async_body(program: Program) -> int:
    """What functions that nothing in the file names do stands in a coroutine, run by ``asyncio.run``."""
    if has(program.tree, ast.AsyncFunctionDef):
        return 0
    named = {one.attr for one in ast.walk(program.tree) if isinstance(one, ast.Attribute)} | read(
        program.tree
    )
    inner = {id(two) for one in functions(program.tree) for two in functions(one) if two is not one}
    count = _wrapped(
        program,
        "async def WORK():\n    BODY\nreturn asyncio.run(WORK())",
        lambda function: function.name not in named and id(function) not in inner,
    )
    if count:
        program.imports.add("import asyncio")
    return count
