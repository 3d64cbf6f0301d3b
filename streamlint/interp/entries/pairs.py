"""Which two methods of a class are called one after the other: those that share something.

An attribute, a variable of the module that both reach through its functions, or memory of one place:
``arena(8)`` in the constructor is what a graph of the object uses, and ``prefill`` calls ``arena`` too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.facts import classes, constructors, decorators, given_classes
from streamlint.interp.facts.relevance import queues_work
from streamlint.interp.library import hooks
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.scope import Target
from streamlint.interp.state.values import ClassV
from streamlint.models import python
from streamlint.models.autograd import SAVED_TENSORS_HOOKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from streamlint.interp.entries.progress import Told
    from streamlint.interp.state.project import Project

MOST_PAIRS = Most(12, "pairs of methods")


@frozen()
class Methods:
    """All methods of a class, inherited ones too, as lookup finds them."""

    by_name: dict[str, ir.FunctionDecl]
    steps: frozenset[str]
    """Those that others of them mention: they are judged where these call them."""
    called: frozenset[str]
    """Those that others of them call, other than by a thread or a hook."""
    reach: dict[str, frozenset[str]]
    """Names used by a method and by the methods that it mentions."""
    own: dict[str, frozenset[str]]
    """Attributes of the object among them."""
    makers: tuple[ir.FunctionDecl, ...]
    """What runs while an object is made; empty where no constructor is in sight."""
    made: frozenset[str]
    """Attributes of the object that those use."""
    hooks: frozenset[str]
    """Those that are registered as hooks: unseen code calls them, whatever their names."""
    saving: tuple[tuple[str, str], ...]
    """Hooks for saved tensors: the first gets a tensor when an operator has just made or read it, and the
    second what the first one gave, when the backward pass asks for the tensor."""
    of_thread: frozenset[str]
    """``run`` of a thread that a method starts: nobody else calls it."""

    @property
    def of_autograd(self) -> frozenset[str]:
        """Hooks for saved tensors: autograd calls one for each tensor, and nobody anything in between."""
        return frozenset().union(*self.saving) - {""}

    @property
    def packs(self) -> frozenset[str]:
        return frozenset(pack for pack, _ in self.saving) - {""}

    def is_public(self, decl: ir.FunctionDecl) -> bool:
        named = not decl.name.startswith("_") or decl.name in python.PUBLIC_SPECIALS
        return named and decl.name not in self.of_thread

    def may_be_called(self, decl: ir.FunctionDecl) -> bool:
        return self.is_public(decl) or decl.name in self.hooks


@frozen()
class Pair:
    first: ir.FunctionDecl
    second: ir.FunctionDecl
    shared: int
    """How much they share."""
    of_module: bool
    """Whether that is no state of the object."""


_METHODS: Kept[ir.ClassDecl, Methods] = Kept()


def methods_of(project: Project, cls: ir.ClassDecl) -> Methods:
    return project.once(_METHODS, cls, lambda: _methods_of(project, cls))


def _methods_of(project: Project, cls: ir.ClassDecl) -> Methods:
    found = classes.methods(project, cls)
    makers = constructors.constructing(project, cls)
    kept = _kept(project, makers)
    saving = _of_saved_tensors(project, cls, found)
    registered = frozenset().union(*(_registered(decl, found.keys()) for decl in found.values()))
    called = {name: [found[other] for other in decl.members & found.keys()] for name, decl in found.items()}
    return Methods(
        found,
        steps_of(found),
        called_of(found),
        reach={name: decl.names.union(*(one.names for one in called[name])) for name, decl in found.items()},
        own={
            name: _with_kept(
                frozenset().union(
                    *(constructors.own_attributes(project, one) for one in (decl, *called[name]))
                ),
                kept,
            )
            for name, decl in found.items()
        },
        makers=makers,
        made=frozenset().union(*(constructors.own_attributes(project, one) for one in makers)),
        hooks=registered.union(*saving) - {""},
        saving=saving,
        of_thread=_of_thread(project, cls, found),
    )


def _of_thread(project: Project, cls: ir.ClassDecl, methods: Mapping[str, ir.FunctionDecl]) -> frozenset[str]:
    """``class Loader(Thread)`` whose constructor says ``self.start()``"""
    starts = any("start" in decl.called & decl.members for decl in methods.values())
    return frozenset({"run"} if starts and classes.is_thread(project, cls) else ())


def _of_saved_tensors(
    project: Project, cls: ir.ClassDecl, methods: Mapping[str, ir.FunctionDecl]
) -> tuple[tuple[str, str], ...]:
    """``class Offload(saved_tensors_hooks)``, and ``super().__init__(self.pack, self.unpack)``

    Or ``with saved_tensors_hooks(self.pack, self.unpack):`` in a method. A hook that is no method is "".
    """
    name = SAVED_TENSORS_HOOKS.rpartition(".")[2]
    bases = {one.rpartition(".")[2] for each in project.ancestors(cls)[0] for one in each.bases}
    makers = [(decl, name) for decl in methods.values() if name in decl.called]
    if name in bases and "__init__" in methods:
        makers.append((methods["__init__"], "__init__"))
    found = (pair for decl, called in makers for pair in _hooks_given(decl, called, methods.keys()))
    return tuple(pair for pair in dict.fromkeys(found) if any(pair))


def _hooks_given(decl: ir.FunctionDecl, called: str, methods: AbstractSet[str]) -> Iterator[tuple[str, str]]:
    function = ir.code_of(decl)
    for call in ir.walk(function.body) if function is not None else ():
        if isinstance(call, ir.Call) and ir.called(call) == called:
            given = {
                argument.keyword
                or (_PACK if place == 0 else _UNPACK if place == 1 else ""): argument.value.name
                for place, argument in enumerate(call.args)
                if isinstance(argument.value, ir.Attr) and argument.value.name in methods
            }
            yield given.get(_PACK, ""), given.get(_UNPACK, "")


_PACK, _UNPACK = "pack_hook", "unpack_hook"


def _registered(decl: ir.FunctionDecl, methods: AbstractSet[str]) -> frozenset[str]:
    """``param.register_post_accumulate_grad_hook(self._on_grad)``, or ``lambda p, i=i: self._on_grad(i)``."""
    if hooks.REGISTERS.isdisjoint(decl.called) or methods.isdisjoint(decl.members):
        return frozenset()
    return _given_to(decl, hooks.REGISTERS, methods) | _called_by_hooks(decl, methods)


def _called_by_hooks(decl: ir.FunctionDecl, methods: AbstractSet[str]) -> frozenset[str]:
    """Methods that a function written where it is registered calls: a ``lambda``, or a ``def`` above it."""
    function = ir.code_of(decl)
    nodes = list(ir.walk(function.body)) if function is not None else []
    inside = {node.function.name: node.function for node in nodes if isinstance(node, ir.FunctionDef)}
    registered = [
        inside.get(given.id) if isinstance(given, ir.Name) else given.function
        for call in nodes
        if isinstance(call, ir.Call) and ir.called(call) in hooks.REGISTERS
        for argument in call.args
        if isinstance(given := argument.value, (ir.Name, ir.Lambda))
    ]
    called = (node for hook in registered if hook is not None for node in ir.walk(hook.body))
    return frozenset(ir.called(node) for node in called if isinstance(node, ir.Call)) & methods


def _given_to(
    decl: ir.FunctionDecl, functions: AbstractSet[str], methods: AbstractSet[str]
) -> frozenset[str]:
    """Methods that code hands to functions of these names."""
    function = ir.code_of(decl)
    calls = ir.walk(function.body) if function is not None else ()
    return frozenset(
        argument.value.name
        for call in calls
        if isinstance(call, ir.Call) and ir.called(call) in functions
        for argument in call.args
        if isinstance(argument.value, ir.Attr) and argument.value.name in methods
    )


def _kept(project: Project, makers: Sequence[ir.FunctionDecl]) -> dict[str, frozenset[str]]:
    """Which attributes an attribute holds, or got, once made: ``self.copier = Copier(self.pages)``.

    Who puts something into a queue of a thread has it work on what else that was given:
    ``Writer(self.table, self.updates)`` of a class derived from ``Thread``.
    """
    kept: dict[str, frozenset[str]] = {}
    for maker in makers:
        function = ir.code_of(maker)
        if function is None or not function.params:
            continue
        receiver = function.params[0].name
        for node in ir.walk(function.body):
            match node:
                case ir.Assign(
                    targets=(ir.Attr(value=ir.Name(id=owner), name=name),), value=ir.Call() as call
                ) if owner == receiver:
                    kept[name] = kept.get(name, frozenset()) | _given_of(call, receiver)
                case ir.Call(func=ir.Name(id=made)) if _is_thread(project, maker, made):
                    given = _given_of(node, receiver)
                    kept.update({name: kept.get(name, frozenset()) | given for name in given})
                case _:
                    pass
    return kept


def _given_of(call: ir.Call, receiver: str) -> frozenset[str]:
    """Attributes of the object that a call gets."""
    given = (part for part in ir.walk(call.args) if isinstance(part, ir.Attr))
    return frozenset(
        part.name for part in given if isinstance(part.value, ir.Name) and part.value.id == receiver
    )


def _is_thread(project: Project, maker: ir.FunctionDecl, name: str) -> bool:
    made = project.member(maker.module, name)
    return isinstance(made, ClassV) and classes.is_thread(project, made.decl)


def _with_kept(own: frozenset[str], kept: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return own.union(*(kept[name] for name in own & kept.keys()))


def steps_of(methods: Mapping[str, ir.FunctionDecl]) -> frozenset[str]:
    return frozenset().union(*(decl.own & methods.keys() - {decl.name} for decl in methods.values()))


def called_of(methods: Mapping[str, ir.FunctionDecl]) -> frozenset[str]:
    """As ``steps_of``, but not by ``Thread(target=self.copy)`` or in the constructor alone."""
    # @staticmethod def settled(obj): return obj.wait(): that is no call of its own.
    callers = [m for m in methods.values() if m.name != "__init__" and not decorators.is_static(m)]
    return frozenset().union(*(decl.called & decl.own & methods.keys() - {decl.name} for decl in callers))


MOST_PAIRED = Most(200, "pairs of methods")
"""Public methods of a class that are looked at for pairs: of a generated class there are millions."""


def pairs(
    project: Project,
    module: ir.Module,
    label: str,
    public: Sequence[ir.FunctionDecl],
    methods: Methods,
    relevant: frozenset[str],
    told: Told,
) -> list[Pair]:
    """Methods to call one after the other, both public: those that share most come first.

    One that names no stream may use what the other has left on one: ``load(host)``, ``step(x)``.
    """
    chosen = set(public)
    others = [decl for decl in methods.by_name.values() if methods.is_public(decl) and decl not in chosen]
    public, others = public[: MOST_PAIRED.number], others[: MOST_PAIRED.number]
    wide = {name: through_functions(module, names) for name, names in methods.reach.items()}
    state = state_of(module)
    taken = _handed_on(project, module, [*public, *others])
    found: list[Pair] = []
    for firsts in (public, others):
        for first in firsts:
            for second in (*public, *others) if firsts is public else public:
                # A step of the second method is judged where that method calls it.
                if first is second or first.name in second.own:
                    continue
                own = len(shared_state(first, second, methods))
                common = len(wide[first.name] & wide[second.name] & state)
                places = sum(
                    place in wide[first.name] for place in _makers(module, told, f"{label}.{second.name}")
                )
                handed = len(first.called & taken[second.name])
                if own + common + places + handed and (
                    queues_work(project, module, wide[first.name] if common else methods.reach[first.name])
                    # self._out = Future(x.sum()), whose constructor records an event
                    or not relevant.isdisjoint(methods.reach[first.name])
                    or firsts is others
                    or places
                ):
                    found.append(Pair(first, second, own + common + places + handed, not own))
    return sorted(found, key=lambda pair: (pair.second not in chosen, -pair.shared))


def _handed_on(
    project: Project, module: ir.Module, methods: Sequence[ir.FunctionDecl]
) -> dict[str, frozenset[str]]:
    """Classes that some of the methods make and of which a method gets an object, by its name.

    ``def submit(self, rows): return Ticket(...)`` and ``def wait(self, ticket: Ticket)``.
    """
    made = {decl.name for decl in ir.all_classes(module)} & frozenset().union(
        *(one.called for one in methods)
    )
    if not made:
        return {decl.name: frozenset() for decl in methods}
    return {
        decl.name: frozenset(
            given.cls.name
            for param in Target(decl).params()[1:]
            if (given := given_classes.of_parameter(project, Target(decl), param.name)) is not None
        )
        & made
        for decl in methods
    }


def shared_state(first: ir.FunctionDecl, second: ir.FunctionDecl, methods: Methods) -> set[str]:
    """Attributes that two methods use, or those that they call; of a constructor too, if there is one.

    What the constructor leaves to another method (``self.reset()``) is complete like what it makes itself:
    that method by itself comes before others only where both use what the constructor's own text has.
    """
    common = methods.own[first.name] & methods.own[second.name]
    if methods.makers:
        is_step = first in methods.makers or second in methods.makers
        common &= methods.makers[0].own if is_step else methods.made
    return {name for name in common if name not in methods.by_name}


def through_functions(module: ir.Module, names: frozenset[str]) -> frozenset[str]:
    """The names, and those used by functions of the module among them."""
    seen: set[str] = set()
    waiting = list(names & module.functions.keys())
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += module.functions[name].names & module.functions.keys()
    return names.union(*(module.functions[name].names for name in seen))


def state_of(module: ir.Module) -> set[str]:
    """Variables of a module that may hold memory, streams or containers of them: no plain constants."""
    return {
        target.id
        for statement in module.load_body()
        if isinstance(statement, ir.Assign)
        and isinstance(statement.value, (ir.Call, ir.Seq, ir.DictDisplay, ir.Comprehension))
        for target in statement.targets
        if isinstance(target, ir.Name)
    }


def _makers(module: ir.Module, told: Told, label: str) -> Iterator[str]:
    """Functions of the module in which memory was allocated that a method used when it was run by itself."""
    for span in told.places.get(label, ()):
        for decl in module.functions.values():
            if decl.span.path == span.path and decl.span.line <= span.line <= decl.end_line:
                yield decl.name
