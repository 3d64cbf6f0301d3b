"""Whether an expression stands for an object on every way to a place, and never for None.

``side = Stream() if overlapped else None``: what one path knows of ``side`` does not hold for the
others. Here the text is asked: what was given to the expression, what it was used for, and what was tested.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint.fixes.text import SCOPES, Given, blocks, headers, named_first, unconditional
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.fixes.fields import Fields, Telling
    from streamlint.fixes.text import Source

DEEPEST = 4
"""Names that stand for names, and functions that return what others do."""
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@frozen()
class Presence:
    """Asks the text of one file."""

    source: Source
    returns: Callable[[ast.Call], bool]
    """Whether what a call of a library returns is an object."""
    fields: Fields
    takes_none: bool = False
    """Whether None is as good: it need only be bound."""
    depth: int = 0

    def is_there(self, expression: ast.expr, place: ast.stmt, *, behind: bool = False) -> bool:
        """Whether each way to a place shows the object, and nothing takes it away again."""
        wanted = ast.dump(expression)
        always = self._is_never_none(expression, place)
        node: ast.AST = place
        if behind and (shown := self._shown(place, expression, always)) is not None:
            return shown
        named = named_first(place)
        if always and named is not None and ast.dump(named) == wanted:
            return True  # it is there, or the statement fails as well
        while isinstance(node, ast.stmt):
            owner = self.source.owners[node]
            block = next((each for each in blocks(owner) if node in each), [node])
            for before in reversed(block[: block.index(node)]):
                shown = self._shown(before, expression, always)
                if shown is not None:
                    return shown
            if isinstance(owner, SCOPES):
                return always and self._is_there_from_the_start(expression, owner)
            if _is_guarded(node, owner, wanted):
                return True
            if any(_is_used(part, wanted, always) for each in headers(owner) for part in unconditional(each)):
                return True
            if not all(
                map(self._gives, self.source.given(owner).get(wanted, []))
            ):  # the next round of a loop, an except
                return False
            node = owner
        return False

    def _shown(self, statement: ast.stmt, expression: ast.expr, always: bool) -> bool | None:
        """What is known when a statement has run: the object is there, it may not be, or nothing."""
        wanted = ast.dump(expression)
        parts = list(unconditional(statement))
        given = self.source.given(statement).get(wanted, [])
        if given:
            if not all(map(self._gives, given)):
                return False
            inside = parts
            if isinstance(statement, ast.If) and _says_none(statement.test, wanted):  # it is given one there
                inside = [part for each in statement.body for part in unconditional(each)]
            return True if any(each.statement in inside for each in given) else None
        if any(_is_used(part, wanted, always) for part in parts):
            return True
        match statement:
            case ast.Assert(test=test) if _says_there(test, wanted):
                return True
            case ast.If(test=test, body=[*_, ast.Return() | ast.Raise() | ast.Continue() | ast.Break()]) if (
                _says_none(test, wanted)
            ):
                return True
            case _:
                return False if not always and self._may_change(statement, expression) else None

    def _may_change(self, statement: ast.stmt, expression: ast.expr) -> bool:
        """Whether what is called may take the object away: code of the file gives such attributes None."""
        if not isinstance(expression, ast.Attribute) or not _is_handed_on(statement, expression):
            return False
        return any(
            not self._gives(given)
            for target, all_given in self.source.given(self.source.tree).items()
            if target.endswith(f"attr={expression.attr!r}, ctx=Load())")
            for given in all_given
        )

    # ------------------------------------------------------------------ what is given

    def _is_never_none(self, expression: ast.expr, place: ast.stmt) -> bool:
        """Whether all that the text gives to an expression are objects."""
        if self.takes_none or self.depth > DEEPEST:
            return self.takes_none
        match expression:
            case ast.Name(id=name):
                home = self.source.home(name, place)
                told = _parameter(home, name)
                given = self.source.given(home).get(ast.dump(expression), [])
                return told is not False and bool(told or given) and all(map(self._gives, given))
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                scope = self.source.scope(place)
                owner = self.source.owners.get(scope)
                told = self._is_there_from_the_start(expression, scope)
                return isinstance(owner, ast.ClassDef) and self._is_field_kept(owner, name, set_first=told)
            case ast.Subscript(value=base):
                return self._holds_objects(base, place)
            case _:
                return False

    def _is_field_kept(self, cls: ast.ClassDef, name: str, *, set_first: bool) -> bool:
        """Whether all code in sight gives objects to a field; the constructor hides that of a class."""
        told = [
            each
            for each in self.fields.given(self.source, cls, name)
            if not (set_first and each.stored.in_body)
        ]
        return bool(told) and all(self._in(each)._gives(each.stored.given) for each in told)

    def _is_there_from_the_start(self, expression: ast.expr, scope: ast.AST) -> bool:
        """A parameter, a variable that the module sets at once, an attribute that the constructor sets."""
        match expression:
            case ast.Name(id=name) if (given := _parameter(scope, name)) is not None:
                return given or self.takes_none
            case ast.Name(id=name) if name not in self.source.bound(scope):
                body = self.source.tree.body
            case ast.Attribute(value=ast.Name(id="self")):
                owner = self.source.owners.get(scope)
                made = owner.body if isinstance(owner, ast.ClassDef) else []
                body = next(
                    (each.body for each in made if isinstance(each, _Function) and each.name == "__init__"),
                    [],
                )
            case _:
                return False
        wanted = ast.dump(expression)
        return any(
            given.statement in unconditional(statement)
            for statement in body
            for given in self.source.given(statement).get(wanted, [])
        )

    def _gives(self, given: Given) -> bool:
        if self.takes_none:
            return given.value is not None or given.element_of is not None
        if given.element_of is not None:
            return self._holds_objects(given.element_of, given.statement)
        return given.value is not None and self.is_object(given.value, given.statement)

    def is_object(self, value: ast.expr, at: ast.stmt) -> bool:
        """Whether a value is an object; of several that are unpacked, each."""
        deeper = replace(self, depth=self.depth + 1)
        if self.depth > DEEPEST:
            return False
        match value:
            case ast.Call(func=called):
                known = self.returns(value) and not self._may_be_other(called)
                return known or deeper.returns_objects(value, at)
            case ast.BinOp():
                return True
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return all(deeper.is_object(item, at) for item in items)
            case ast.ListComp(elt=item):
                return deeper.is_object(item, at)
            case ast.IfExp(body=body, orelse=other):
                return deeper.is_object(body, at) and deeper.is_object(other, at)
            case ast.BoolOp(op=ast.Or(), values=[*_, last]):
                return deeper.is_object(last, at)
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return deeper._is_never_none(value, at) or deeper.is_there(value, at)
            case _:
                return False

    def returns_objects(self, call: ast.Call, at: ast.stmt) -> bool:
        """Whether a class of this file is called, or a function in sight that returns an object at each end.

        A method may be another one for the objects of an heir, and a function if it is given a second time.
        """
        match call.func:
            case ast.Name(id=name) as called:
                told = [
                    each.statement
                    for each in self.source.given(self.source.tree).get(ast.dump(called), [])
                    if not isinstance(self.source.scope(each.statement), ast.ClassDef)
                ]
                own = self.source.home(name, at) is self.source.tree and not self.fields.is_put(name)
                return own and len(told) == 1 and self._makes_objects(told[0])
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                owner = self.source.owners.get(self.source.scope(at))
                methods = (
                    list(self.fields.given(self.source, owner, name))
                    if isinstance(owner, ast.ClassDef)
                    else []
                )
                return bool(methods) and all(
                    self._in(each)._makes_objects(each.stored.given.statement) for each in methods
                )
            case _:
                return False

    def _in(self, told: Telling) -> Presence:
        """The same where something else stands."""
        return replace(self, source=told.source, returns=told.returns or self.returns)

    def _may_be_other(self, called: ast.expr) -> bool:
        """Whether it may be one of the file: ``except ImportError: Stream = lambda: None``."""
        while isinstance(called, ast.Attribute):
            called = called.value
        given = self.source.given(self.source.tree).get(ast.dump(called), [])
        return any(
            isinstance(each.value, ast.Lambda) or isinstance(each.statement, _Function) for each in given
        )

    def _makes_objects(self, called: ast.stmt) -> bool:
        """Whether a call of what is defined here gives an object."""
        match called:
            case ast.ClassDef():
                return not called.decorator_list
            case ast.FunctionDef():
                return not called.decorator_list and self._ends_with_objects(called)
            case _:
                return False

    def _ends_with_objects(self, function: ast.FunctionDef) -> bool:
        inside = [
            each for each in ast.walk(function) if isinstance(each, (ast.Return, ast.Yield, ast.YieldFrom))
        ]
        return _always_ends(function.body) and all(
            isinstance(each, ast.Return) and each.value is not None and self.is_object(each.value, each)
            for each in inside
        )

    def _holds_objects(self, container: ast.expr, at: ast.stmt) -> bool:
        """Whether each element of a container is an object: it is filled where it is made, and with these."""
        match container:
            case ast.Name(id=name):
                home: ast.AST | None = self.source.home(name, at)
            case ast.Attribute(value=ast.Name(id="self")):
                home = self.source.owners.get(self.source.scope(at))
            case _:
                return False
        if home is None or _parameter(home, getattr(container, "id", "")) is not None:
            return False
        made = self.source.given(home).get(ast.dump(container), [])
        return bool(made) and all(self._is_filled(each) for each in made) and self._is_kept(container, home)

    def _is_filled(self, given: Given) -> bool:
        match given.value:
            case ast.List() | ast.Tuple() | ast.ListComp() as made:
                return self.is_object(made, given.statement)
            case ast.Dict(values=items):
                return all(self.is_object(item, given.statement) for item in items)
            case ast.DictComp(value=item):
                return self.is_object(item, given.statement)
            case _:
                return False

    def _is_kept(self, container: ast.expr, home: ast.AST) -> bool:
        """Whether the container itself is only read: an element is taken, or it is walked over."""
        wanted = ast.dump(container)
        for node in ast.walk(home):
            match node:
                case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()) if ast.dump(value) == wanted:
                    return False
                case ast.Call(func=ast.Attribute(value=value)) if ast.dump(value) == wanted:
                    return False
                case _:
                    pass
        return True


# ----------------------------------------------------------------------------- tests and uses


def _is_used(node: ast.AST, wanted: str, always: bool) -> bool:
    """Whether code does what None does not allow; what is ``always`` an object need only be named."""
    match node:
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.withitem(context_expr=value):
            used = [value]
        case ast.BinOp(left=left, right=right):
            used = [left, right]
        case ast.Call(args=args, keywords=keywords) if always:
            used = [*args, *(each.value for each in keywords)]
        case _:
            return False
    return any(ast.dump(each) == wanted for each in used)


def _says_there(test: ast.expr, wanted: str) -> bool:
    match test:
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return ast.dump(left) == wanted
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_says_there(each, wanted) for each in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _says_none(operand, wanted)
        case _:
            return ast.dump(test) == wanted


def _says_none(test: ast.expr, wanted: str) -> bool:
    """Whether a test holds wherever there is no object."""
    match test:
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return ast.dump(left) == wanted
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_says_none(each, wanted) for each in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ast.dump(operand) == wanted
        case _:
            return False


def _is_guarded(node: ast.AST, owner: ast.AST, wanted: str) -> bool:
    match owner:
        case ast.If(test=test, body=body) | ast.While(test=test, body=body) if node in body:
            return _says_there(test, wanted)
        case ast.If(test=test):
            return _says_none(test, wanted)
        case _:
            return False


def _is_handed_on(statement: ast.stmt, expression: ast.Attribute) -> bool:
    """Whether code that runs here has the object whose attribute the expression is: ``self.reset()``."""
    base = ast.dump(expression.value)
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            method = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            if any(
                ast.dump(each) == base for each in (*method, *node.args, *(k.value for k in node.keywords))
            ):
                return True
    return False


def _parameter(scope: ast.AST, name: str) -> bool | None:
    """Whether a parameter's annotation says that it is an object; None if it is no parameter.

    Of one without an annotation nothing does: ``one(x, Stream())``, and elsewhere ``one(x, None)``.
    """
    if not isinstance(scope, (*_Function, ast.Lambda)):
        return None
    given = scope.args
    in_place = [*given.posonlyargs, *given.args]
    defaults = {
        each.arg: value for each, value in zip(reversed(in_place), reversed(given.defaults), strict=False)
    }
    defaults |= {
        each.arg: value
        for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if value is not None
    }
    for each in (*in_place, *given.kwonlyargs):
        if each.arg == name:
            told = ast.unparse(each.annotation) if each.annotation is not None else "None"
            default = defaults.get(name)
            is_none = isinstance(default, ast.Constant) and default.value is None
            return not is_none and "None" not in told and "Optional" not in told
    return None


def _always_ends(body: list[ast.stmt]) -> bool:
    match body[-1]:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(body=yes, orelse=[*no]) if no:
            return _always_ends(yes) and _always_ends(no)
        case ast.With(body=inside):
            return _always_ends(inside)
        case _:
            return False
