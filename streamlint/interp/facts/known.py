"""What parameters, fields and results are and where they live, whoever calls: a module's text, all together.

No path is run. ``self.kept = torch.sigmoid(x)`` in one method shows what ``self.kept * 2`` in another
works with, and ``Loader(torch.empty(n, pin_memory=True))`` what the constructor keeps. A question that comes
back to itself adds nothing to its answer, which is the least fixpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from streamlint import ir
from streamlint.frozen import frozen, replace
from streamlint.interp.facts import classes, flags, kinds, places, scopes, writes
from streamlint.interp.facts.circles import Circles
from streamlint.interp.facts.kinds import NOTHING, PLAIN, Fact, Kind, joined, surest
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.scope import Scope, Target
from streamlint.interp.state.values import ApiV, ClassV, FuncV
from streamlint.models import python
from streamlint.models import torch as torch_model
from streamlint.trace import Evidence, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span

_Question: TypeAlias = "tuple[str, str, Span | str, str]"


@frozen()
class Told:
    """What a function's text says of its parameters, whoever calls."""

    plain: tuple[str, ...]
    """Those that annotations show to be no memory."""
    tensors: tuple[str, ...]
    """Those that annotations show to be tensors."""
    on_host: tuple[str, ...]
    """Those that annotations show to be arrays of NumPy's."""
    memory: tuple[tuple[str, Fact], ...]
    """Those that are used as only memory is."""


@dataclass(slots=True)
class Facts:
    """Answers for one project; a question is asked once."""

    project: Project
    _told: dict[tuple[str, str, Span], Told] = field(default_factory=dict)
    _asked: Circles[_Question] = field(init=False)

    def __post_init__(self) -> None:
        self._asked = Circles(self.project)

    def _once(self, question: _Question, answer: Callable[[], Fact]) -> Fact:
        return self._asked.once(question, answer)

    # ------------------------------------------------------------------ parameters, fields, results

    def of_parameters(self, function: ir.Function) -> Told:
        """Asked each time that a function is called."""
        question = (function.module, function.qualname, function.span)
        known = self._told.get(question)
        if known is None:
            params = [param for param in function.params if not param.kind.startswith("*")]
            said = {param.name: self.of_annotation(function.module, param.annotation) for param in params}
            used = kinds.uses(self.project, function)
            names = {param.name for param in function.params}
            known = self._told[question] = Told(
                tuple(name for name, fact in said.items() if fact.kind is Kind.PLAIN),
                tuple(name for name, fact in said.items() if fact == kinds.TENSOR),
                tuple(name for name, fact in said.items() if fact.space.on_host),
                tuple((n, fact) for n, fact in used.items() if n in names and fact.kind is Kind.MEMORY),
            )
        return known

    def of_param(self, scope: Scope, name: str) -> Fact:
        """A parameter: its annotation, what the function does with it, and what callers in sight pass."""
        question = ("parameter", scope.module.name, scope.function.span, name)
        return self._once(question, lambda: self._param(scope, name))

    def _param(self, scope: Scope, name: str) -> Fact:
        param = next(
            (p for p in scope.function.params if p.name == name and not p.kind.startswith("*")), None
        )
        if param is None:
            return NOTHING
        said = self.of_annotation(scope.module.name, param.annotation)
        usual = places.of_constant(param.default) if param.default is not None else NOTHING
        used = kinds.uses(self.project, scope.function).get(name, NOTHING)
        target = scopes.target_of(scope)
        passed = joined(self._passed(target, self._calls(scope, target), name)) if target else NOTHING
        facts = [said, used, passed.at_most(Evidence.INFERRED)]
        if usual.space is not Space.UNKNOWN:
            facts.append(usual.at_most(Evidence.INFERRED))
        told = surest(facts)
        if told.kind is not Kind.UNKNOWN or target is None:
            return told
        # Other files are read only where this one says nothing at all.
        elsewhere = scopes.calls_elsewhere(self.project, target)
        return joined(self._passed(target, elsewhere, name)).at_most(Evidence.INFERRED)

    def _passed(self, target: Target, calls: Iterable[tuple[Scope, ir.Call]], name: str) -> Iterator[Fact]:
        for caller, call in calls:
            given = scopes.argument_of(call, name, target.positional())
            if given is not None:
                yield self.of_expression(caller, given)

    def _calls(self, scope: Scope, target: Target) -> Iterator[tuple[Scope, ir.Call]]:
        yield from scopes.calls_of(self.project, target)
        if scope.cls is None or target.cls is not None:
            return
        # loader.upload(x): a method that no other class of the module has is that of this one.
        name = target.name
        if sum(name in cls.methods for cls in ir.all_classes(scope.module)) > 1:
            return
        for caller in self._mentioning(scope.module, name):
            for node in ir.walk(caller.function.body, functions=True):
                match node:
                    case ir.Call(func=ir.Attr(value=owner, name=called)) if called == name:
                        if not (isinstance(owner, ir.Name) and owner.id == caller.receiver):
                            yield caller, node
                    case _:
                        pass

    def _mentioning(self, module: ir.Module, name: str) -> Iterator[Scope]:
        for decl, cls in scopes.methods_and_functions(module):
            if name in decl.members:
                scope = scopes.scope_of(module, decl, cls)
                if scope is not None:
                    yield scope

    def of_field(self, cls: ir.ClassDecl, name: str) -> Fact:
        """A field: what the class and its bases declare, what methods put there, and calls of a dataclass."""
        question = ("field", cls.module, cls.span, name)
        return self._once(question, lambda: self._field(cls, name))

    def _field(self, cls: ir.ClassDecl, name: str) -> Fact:
        order = self.project.ancestors(cls)[0]
        said = [
            self.of_annotation(owner.module, annotation)
            for owner in order
            for annotation in classes.declared(owner).get(name, ())
        ]
        stored = flags.stored_by(self.project, order, name)
        facts = joined(self.of_expression(scope, value) for scope, value in stored if not _is_none(value))
        given: Iterable[Fact] = ()
        if name in (classes.fields_of_constructor(self.project, cls) or ()):
            made = Target(None, cls)  # Cameras(images=torch.zeros(n))
            given = self._passed(made, scopes.calls_of(self.project, made), name)
        return surest((*said[:1], facts, joined(given).at_most(Evidence.INFERRED)))

    def of_annotation(self, module: str, annotation: ir.Expr | None) -> Fact:
        """What an annotation says; also that an object of a class holds no memory, or is a module."""
        names = kinds.Names(self.project, module, lambda name: self._of_class(module, name))
        return kinds.annotated(annotation, names)

    def _of_class(self, module: str, name: str) -> Fact:
        found = self.project.named(module, name)
        if isinstance(found, ApiV) and found.path.startswith("torch.nn."):
            return kinds.MODULE
        if not isinstance(found, ClassV):
            return NOTHING
        question = ("class", found.decl.module, found.decl.span, "")
        return self._once(question, lambda: self._object(found.decl))

    def _object(self, cls: ir.ClassDecl) -> Fact:
        """Members of an enum, modules, and objects of which all fields are numbers and the like."""
        if classes.is_enumeration(self.project, cls):
            return PLAIN
        order, complete = self.project.ancestors(cls)
        if classes.is_tensor(self.project, cls):
            return kinds.TENSOR
        if classes.is_module(self.project, cls):
            return kinds.MODULE
        bases = {base.rpartition(".")[2] for one in order for base in one.bases}
        fields = [
            (one, annotation)
            for one in order
            for found in classes.declared(one).values()
            for annotation in found
        ]
        own = any(name for one in order for decl in one.methods.values() for name, _ in decl.given)
        if not fields or own or not (complete or bases <= python.RECORDS):
            return NOTHING
        plain = all(
            self.of_annotation(one.module, annotation).kind is Kind.PLAIN for one, annotation in fields
        )
        return PLAIN if plain else NOTHING

    def of_member(self, module: ir.Module, name: str) -> Fact:
        """The attribute of an unknown object: what the classes of the module that have one keep there."""
        question = ("member", module.name, "", name)
        return self._once(question, lambda: self._member(module, name))

    def _member(self, module: ir.Module, name: str) -> Fact:
        found = [self.of_field(cls, name) for cls in ir.all_classes(module)]
        known = [fact for fact in found if fact.kind is not Kind.UNKNOWN]
        return joined(known).at_most(Evidence.INFERRED)

    def of_return(self, module: ir.Module, decl: ir.FunctionDecl, cls: ir.ClassDecl | None) -> Fact:
        """What a function of the tree returns."""
        question = ("result", module.name, decl.span, "")
        return self._once(question, lambda: self._return(scopes.scope_of(module, decl, cls)))

    def _return(self, scope: Scope | None) -> Fact:
        if scope is None or scope.function.is_generator or scope.function.is_async:
            return NOTHING
        said = self.of_annotation(scope.module.name, scope.function.returns)
        if said.kind is Kind.PLAIN:
            return said
        returned = writes.of_function(self.project, scope.function).returned
        return joined(self.of_expression(scope, e) for e in returned if not _is_none(e))

    # ------------------------------------------------------------------ expressions

    def of_expression(self, scope: Scope, e: ir.Expr) -> Fact:
        match e:
            case ir.Const() | ir.Opaque(texts=(_, *_)):
                return places.of_constant(e)
            case ir.Name(id=name):
                return self._name(scope, name)
            case ir.Attr(value=ir.Name(id=owner), name=name) if owner == scope.receiver and scope.cls:
                return self.of_field(scope.cls, name)
            case ir.Attr(value=value, name=name):
                return self._attribute(scope, value, name)
            case ir.Call():
                return self._call(scope, e)
            case ir.Index(value=ir.Seq(items=items), index=ir.Const(value=int() as at)) if at < len(items):
                # ``free, page = torch.cuda.Event(), torch.empty(n, pin_memory=True)``: each name has its own.
                return self.of_expression(scope, items[at])
            case ir.Index(value=value):
                return part(self.of_expression(scope, value))
            case ir.Binary(left=left, right=right):
                return _computed([self.of_expression(scope, part) for part in (left, right)])
            case ir.Unary(op="-" | "+" | "~", operand=operand):
                return self.of_expression(scope, operand)
            case ir.Choice(body=body, orelse=orelse):
                return joined(self.of_expression(scope, arm) for arm in (body, orelse) if not _is_none(arm))
            case ir.Bind(value=value) | ir.Await(value=value):
                return self.of_expression(scope, value)
            case _:
                return NOTHING

    def _name(self, scope: Scope, name: str) -> Fact:
        question = ("name", scope.module.name, scope.function.span, name)
        return self._once(question, lambda: self._variable(scope, name))

    def _variable(self, scope: Scope, name: str) -> Fact:
        used = kinds.uses(self.project, scope.function).get(name, NOTHING)
        written = writes.of_function(self.project, scope.function)
        values = [*written.assigned(name), *written.walked.get(name, ())]
        facts = [self.of_expression(scope, e) for e in values if not _is_none(e)]
        if any(param.name == name for param in scope.function.params):
            facts.append(self.of_param(scope, name))
        elif not facts and name in scope.module.assigned:
            return self._global(scope.module, name)
        return surest((used, joined(facts)))

    def _global(self, module: ir.Module, name: str) -> Fact:
        question = ("global", module.name, "", name)
        return self._once(question, lambda: self._assigned(module, name))

    def _assigned(self, module: ir.Module, name: str) -> Fact:
        body = module.load_body()
        if any(isinstance(statement, ir.Unread) for statement in body):
            return NOTHING
        found = [e for e in writes.of_text(body).assigned(name) if not _is_none(e)]
        if not found:
            return NOTHING
        here = ir.Function("", module.name, module.name, found[0].span, (), ())
        return joined(self.of_expression(Scope(module, here), e) for e in found)

    def _attribute(self, scope: Scope, value: ir.Expr, name: str) -> Fact:
        if kinds.dotted(self.project, scope.module.name, value):
            return NOTHING
        owner = self.of_expression(scope, value)
        if owner.kind is Kind.MEMORY:
            return read(owner, name)
        return self.of_member(scope.module, name)

    def _call(self, scope: Scope, call: ir.Call) -> Fact:
        match call.func:
            case ir.Name(id=name):
                found = self.project.member(scope.module.name, name)
                if isinstance(found, FuncV) and isinstance(found.function, ir.FunctionDecl):
                    module = self.project.module(found.function.module)
                    return self.of_return(module, found.function, None) if module is not None else NOTHING
                if found is None and name in python.GIVES_NUMBER:
                    return PLAIN
            case ir.Attr(value=ir.Name(id=owner), name=name) if owner == scope.receiver and scope.cls:
                for cls in self.project.ancestors(scope.cls)[0]:
                    module = self.project.module(cls.module)
                    if name in cls.methods and module is not None:
                        return self.of_return(module, cls.methods[name], cls)
            case _:
                pass
        path = kinds.dotted(self.project, scope.module.name, call.func)
        root, _, last = path.partition(".")
        if path == "torch.device" or path in torch_model.GIVES_GPU:
            return places.of_call(path, call, lambda inner: self.of_expression(scope, inner))
        if root == "torch" and "." not in last:
            return self._torch(scope, call, last)
        if root == "numpy" and last:
            return kinds.tensor(Space.PAGEABLE)
        if root == "cupy" and last.islower() and "." not in last:
            return kinds.tensor(Space.DEVICE)
        if isinstance(call.func, ir.Attr) and not path:
            return self._method(scope, call, call.func.value, call.func.name)
        return NOTHING

    def _torch(self, scope: Scope, call: ir.Call, name: str) -> Fact:
        given = {argument.keyword: argument.value for argument in call.args if argument.keyword}
        first = call.args[0].value if call.args and not call.args[0].star else None
        if name in torch_model.FACTORIES | torch_model.TYPED:
            return self._made(scope, given, Space.PAGEABLE, Evidence.SHOWN)
        if name in torch_model.LIKE_FACTORIES and first is not None:
            like = self.of_expression(scope, first)
            return self._made(scope, given, like.space, like.residence)
        if name in torch_model.PURE_FUNCTIONS:
            return PLAIN
        if name in torch_model.GIVES_NO_TENSOR or not name.islower():
            return NOTHING
        facts = [self.of_expression(scope, argument.value) for argument in call.args if not argument.star]
        made = _computed(facts)
        return Fact(Kind.MEMORY, Evidence.SHOWN, made.space, made.residence)

    def _method(self, scope: Scope, call: ir.Call, owner: ir.Expr, name: str) -> Fact:
        given = {argument.keyword: argument.value for argument in call.args if argument.keyword}
        waits = "non_blocking" not in given
        host = kinds.tensor(Space.PAGEABLE if waits else Space.PINNED)
        receiver = self.of_expression(scope, owner)
        match name:
            case "pin_memory":
                return kinds.tensor(Space.PINNED)
            case "cpu":
                return host
            case "cuda":
                return kinds.tensor(Space.DEVICE) if receiver.kind is Kind.MEMORY else NOTHING
            case "to" if receiver.kind is Kind.MEMORY or not waits:
                return self._moved(scope, call, receiver, host)
            case "item":
                return PLAIN
            case _:
                pass
        if receiver.kind is Kind.MEMORY:
            told = name in torch_model.META_METHODS and not (name == "type" and call.args)
            return PLAIN if told else receiver
        return kinds.inferred() if name in torch_model.MAKES_TENSOR else NOTHING

    def _made(self, scope: Scope, given: dict[str, ir.Expr], space: Space, residence: Evidence) -> Fact:
        """``torch.empty(n, device="cuda")``, ``torch.empty(n, pin_memory=True)``."""
        space = Space.PAGEABLE if space is Space.PINNED else space
        if "device" in given:
            placed = self._place(scope, given["device"])
            space, residence = placed.space, placed.residence
        if space is Space.PAGEABLE and "pin_memory" in given:
            match given["pin_memory"]:
                case ir.Const(value=wanted):
                    space = Space.PINNED if wanted else space
                case wanted:
                    is_open = flags.names_module(self.project, scope, wanted)
                    space, residence = Space.PINNED, Evidence.ASSUMED if is_open else Evidence.INFERRED
        return Fact(Kind.MEMORY, Evidence.SHOWN, space, residence)

    def _moved(self, scope: Scope, call: ir.Call, receiver: Fact, host: Fact) -> Fact:
        """``x.to("cpu")``, ``x.to(device=...)``, ``x.to(torch.float16)``."""
        target = next((argument.value for argument in call.args if argument.keyword == "device"), None)
        if target is None and call.args and call.args[0].keyword is None:
            target = call.args[0].value
        if target is not None and kinds.dotted(self.project, scope.module.name, target):
            target = None  # a dtype of the library
        placed = self._place(scope, target) if target is not None else receiver
        if placed.space is Space.PAGEABLE and target is not None:
            return host if placed.residence is Evidence.SHOWN else replace(host, residence=placed.residence)
        return Fact(Kind.MEMORY, Evidence.SHOWN, placed.space, placed.residence)

    def _place(self, scope: Scope, e: ir.Expr) -> Fact:
        return places.meant(e, lambda inner: self.of_expression(scope, inner))


def _is_none(e: ir.Expr) -> bool:
    return isinstance(e, ir.Const) and e.value is None


def part(whole: Fact) -> Fact:
    """An element of a tensor is a view of it, and one of what holds numbers is a number."""
    return replace(whole, space=Space.UNKNOWN) if whole.kind is Kind.PLAIN else whole


def _computed(operands: list[Fact]) -> Fact:
    """What an operator makes: a tensor if an operand is one, on the device if one is there."""
    memory = [fact for fact in operands if fact.kind is Kind.MEMORY]
    if not memory:
        return PLAIN if operands and all(fact.kind is Kind.PLAIN for fact in operands) else NOTHING
    placed = max(memory, key=lambda fact: (fact.space is Space.DEVICE, fact.residence))
    space = Space.PAGEABLE if placed.space is Space.PINNED else placed.space
    return Fact(Kind.MEMORY, max(fact.by for fact in memory), space, placed.residence)


def read(memory: Fact, name: str) -> Fact:
    """An attribute of a tensor: a view of it, where it is, or a number."""
    if name == "device":
        return places.of_memory(memory)
    return memory if name in torch_model.VIEW_ATTRIBUTES else PLAIN


# ----------------------------------------------------------------------------- values of a path


_FACTS: Kept[None, Facts] = Kept()


def facts_of(project: Project) -> Facts:
    return project.once(_FACTS, None, lambda: Facts(project))
