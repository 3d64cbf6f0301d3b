"""Which names order, record, wait, allocate or launch, as the tables say it: the only place that knows.

A name stands for all rows that have it: ``wait`` is a method of events, streams and handles. What a call does
is decided by its row (``find_function``, ``find_method``); these sets tell from identifiers alone which code
is worth running, and which text may order what no path has come by.
"""

from __future__ import annotations

import builtins
from functools import cache
from typing import TYPE_CHECKING

from streamlint.models import FRAMEWORKS, FUNCTIONS, cupy, graphs, methods_of, torch
from streamlint.models import schema as fx
from streamlint.models.schema import Role
from streamlint.trace import Doubt, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from streamlint.models.schema import Api, Effect, Framework

_PYTHONS = frozenset(
    name for kind in (dict, list, set, str, bytes, tuple, int, builtins) for name in dir(kind)
)
"""``get`` waits for a future of KvikIO's, and nearly always looks into a dict: such names tell nothing."""
_ORDERING_EFFECTS = (fx.StreamWaitsStream, fx.StreamWaitsEvent, fx.StreamWaits, fx.WaitsForResult)


@cache
def _functions() -> tuple[tuple[Framework, Api], ...]:
    return tuple((framework, api) for framework in FRAMEWORKS for api in framework.functions)


@cache
def _methods(*roles: Role) -> tuple[tuple[Framework, Api], ...]:
    kinds = roles or Role
    return tuple(
        (framework, api) for framework in FRAMEWORKS for role in kinds for api in methods_of(framework, role)
    )


@cache
def _rows() -> tuple[tuple[Framework, Api], ...]:
    return _functions() + _methods()


def _names(
    *kinds: type[Effect],
    of: Callable[[], Iterable[tuple[Framework, Api]]] = _rows,
    only: Callable[[Effect], bool] = lambda _: True,
) -> frozenset[str]:
    """The last names of all calls with one of these effects."""
    found = (
        api.name.rpartition(".")[2]
        for _, api in of()
        if any(isinstance(effect, kinds) and only(effect) for effect in api.effects)
    )
    return frozenset(name for name in found if name.isidentifier()) - _PYTHONS


def _takes_stream(effect: Effect) -> bool:
    return isinstance(getattr(effect, "stream", None), str)


def _is_told_who_waits(effect: Effect) -> bool:
    """Whether the stream that waits is an argument, and not the object itself or the current stream."""
    return _takes_stream(effect) and getattr(effect, "stream", None) != "self"


# ----------------------------------------------------------------------------- what calls do

MAKES_STREAM = _names(fx.NewStream, fx.ForeignStream)
MAKES_EVENT = _names(fx.NewEvent)
MAKES_GRAPH = _names(graphs.NewGraph, graphs.GraphsCallables)
GIVES_STREAM = _names(fx.CurrentStream, fx.DefaultStream)
ENTERS_STREAM = _names(fx.EnterStream)
CAPTURES = _names(graphs.EnterCapture, graphs.CaptureStarts, graphs.CaptureEnds, graphs.LaunchesGraph)
BEGINS_CAPTURE = _names(graphs.EnterCapture, graphs.CaptureStarts)
RECORDS = _names(fx.Records)
"""An event is recorded on a stream, or a stream records one."""
STREAM_WAITS = _names(*_ORDERING_EFFECTS)
HOST_WAITS = _names(
    *(fx.HostWaitsStream, fx.HostWaitsEvent, fx.HostWaitsDevice, fx.HostWaitsMemory, fx.SyncOnExit)
)
POLLS = _names(fx.Queries)
"""Asks whether work is complete: true is a synchronization."""
WAITS_FOR_EVENT = _names(fx.StreamWaitsEvent, fx.StreamWaits, fx.HostWaitsEvent)
KEEPS_ALIVE = _names(fx.KeepsAlive)
CALLS_BACK = _names(fx.HostCallback)
COPIES_ON_STREAM = _names(fx.Copies, only=_takes_stream)
RUNS_BESIDE = (
    _names(fx.Background, fx.Fills, fx.TakesBack, fx.Shares, fx.OpensShared)
    | _names(fx.CallsAll)
    | _names(fx.Communicates, only=lambda effect: effect.flag is None and effect.makes is None)  # type: ignore[union-attr]
)
MAKES_CURRENT = _names(fx.SelectsDevice, fx.EnterDevice)
SELECTS_DEVICE = _names(fx.SelectsDevice, of=lambda: _methods(Role.DEVICE))


def _tells(*kinds: type[Effect]) -> Callable[[Api], bool]:
    return lambda api: api.has(*kinds)


names_device = _tells(fx.EnterDevice, fx.NewDevice, fx.SelectsDevice)
READS_TIMES = _names(fx.ReadsTimes)
ORDERS = STREAM_WAITS | HOST_WAITS | POLLS
"""What makes a stream or the host wait."""

# ----------------------------------------------------------------------------- whose they alone are


def _only(role: Role, *kinds: type[Effect]) -> frozenset[str]:
    """Methods with one of these effects that objects of no other role have."""
    others = {api.name for other in Role if other is not role for _, api in _methods(other)}
    return _names(*kinds, of=lambda: _methods(role)) - others


ONLY_STREAMS_HAVE = _only(Role.STREAM, *_ORDERING_EFFECTS, fx.Records)
"""``x.wait_stream(s)``, ``x.record_event()``: ``x`` is a stream."""
STREAM_PROTOCOL = "__cuda_stream__"
"""What gives the version of the protocol and the handle of a stream: ``_, handle = s.__cuda_stream__()``."""
ONLY_EVENTS_HAVE = _only(Role.EVENT, fx.ReadsTimes, fx.Records)

# ----------------------------------------------------------------------------- where they take what

STREAMS_OWN_WAITS = _names(*_ORDERING_EFFECTS, of=lambda: _methods(Role.STREAM))
"""The stream before the dot waits: ``side.wait_stream(other)``."""
JOINS_OWN = _names(
    *(fx.HostWaitsStream, fx.HostWaitsEvent, fx.Queries, fx.Records),
    of=lambda: _methods(Role.STREAM, Role.EVENT),
)
"""What is before the dot is waited for, or recorded: ``side.synchronize()``."""
FORKS_ARGUMENT = _names(*_ORDERING_EFFECTS, of=_functions, only=_is_told_who_waits) | _names(
    *_ORDERING_EFFECTS, of=lambda: _methods(Role.EVENT), only=_is_told_who_waits
)
"""A stream among the arguments waits: ``event.wait(side)``, and not ``wp.wait_stream(side)``."""
JOINS_ARGUMENT = (
    _names(fx.HostWaitsStream, fx.Queries, fx.Records, of=_functions)
    | _names(fx.Records, of=lambda: _methods(Role.EVENT))
    | _names(fx.StreamWaitsStream, fx.StreamWaits, of=lambda: _methods(Role.STREAM))
)
"""A stream among the arguments is waited for, or has an event recorded on it: ``event.record(side)``."""

# ----------------------------------------------------------------------------- whose names they are


def _roots(framework: Framework) -> frozenset[str]:
    return frozenset(module.partition(".")[0] for module in framework.modules)


_WHOSE: dict[str, frozenset[str]] = {}
for _framework, _api in _rows():
    _last = _api.name.rpartition(".")[2]
    _WHOSE[_last] = _WHOSE.get(_last, frozenset()) | _roots(_framework)
ROOTS = frozenset[str]().union(*_WHOSE.values())
"""The packages that the tables are about."""


@cache
def known_to(imported: frozenset[str], names: frozenset[str]) -> frozenset[str]:
    """Those of some names of the tables that tell something in a module with these imports.

    ``wait_stream`` is hardly anything else; ``done``, of one word, is a method of CuPy's events where CuPy is
    imported, and elsewhere any attribute. A module without any of the libraries gets its objects from others.
    """
    mine = imported & ROOTS
    return frozenset(
        name for name in names if not mine or _is_compound(name) or _WHOSE.get(name, mine) & mine
    )


_gives = _tells(
    *(fx.NewStream, fx.ForeignStream, fx.CurrentStream, fx.DefaultStream, fx.EnterStream),
    *(fx.NewEvent, graphs.NewGraph, graphs.GraphsCallables),
)
_GIVING = tuple(
    (api.name.rpartition(".")[2], _roots(framework), api.attribute)
    for framework, api in _rows()
    if _gives(api)
)


@cache
def giving(imported: frozenset[str]) -> frozenset[str]:
    """What gives a stream, an event, a graph or their contexts in a module with these imports.

    As ``FunctionDecl.given`` has it: ``cuda.stream()`` with Numba, ``torch.cuda.stream(s)`` with PyTorch;
    not ``self.chunks = response.stream``, nor ``client.stream()`` where no library is imported.
    """
    mine = imported & ROOTS
    found: set[str] = set()
    for name, roots, is_attribute in _GIVING:
        if _is_compound(name) or (name[:1].isupper() and (not mine or mine & roots)):
            found |= {name, f"{name}()"}
        elif mine & roots:
            found.add(name if is_attribute else f"{name}()")
    return frozenset(found)


_PINNED_BY: dict[str, frozenset[str]] = {}
for _framework, _api in _rows():
    for _effect in _api.effects:
        if isinstance(_effect, (fx.Allocates, fx.Copies)) and _effect.pinned is not None:
            _PINNED_BY[_effect.pinned] = _PINNED_BY.get(_effect.pinned, frozenset()) | _roots(_framework)


@cache
def beside(imported: frozenset[str]) -> frozenset[str]:
    """What tells only in a module that imports its library, and there needs no stream to race with the host.

    Calls that heed no stream, and pinned memory by a flag: ``comm.Isend(x)``, ``wp.empty(n, pinned=True)``.
    """
    whose = {**{name: _WHOSE[name] for name in RUNS_BESIDE}, **_PINNED_BY}
    return frozenset(name for name, roots in whose.items() if roots & imported)


def _is_compound(name: str) -> bool:
    return "_" in name.strip("_") or any(letter.isupper() for letter in name[1:])


def _keywords() -> Iterator[str]:
    """Parameters that make a call run beside the host: ``non_blocking=True``, ``async_op=True``."""
    for _, api in _rows():
        for effect in api.effects:
            match effect:
                case fx.Copies(unless=str(name)) | fx.Communicates(flag=str(name)) | fx.Coalesces(flag=name):
                    yield name
                case _:
                    pass


_ASYNC_COPIES = frozenset({torch.ASYNC_COPY, *(f"{name}(True)" for name in torch.ASYNC_BY_PLACE)})
KEYWORDS = frozenset(filter(_is_compound, _keywords())) | _ASYNC_COPIES
FLAGS = KEYWORDS | _PINNED_BY.keys()
"""Parameters that tell by themselves, whatever they are given."""
FOLLOWS = _ASYNC_COPIES | ((KEEPS_ALIVE | _names(fx.CurrentStream)) - ENTERS_STREAM)
"""What is done on whichever stream is current, and orders nothing: ``x.to("cpu", non_blocking=True)``."""
_TIED = (
    ORDERS | RECORDS | MAKES_STREAM | MAKES_EVENT | MAKES_GRAPH | GIVES_STREAM | ENTERS_STREAM | CAPTURES
) | (KEEPS_ALIVE | CALLS_BACK | READS_TIMES | COPIES_ON_STREAM)
_PINS = _names(
    fx.Allocates, only=lambda effect: isinstance(effect, fx.Allocates) and effect.space is not Space.DEVICE
)
"""Pinned and managed memory."""
STRONG = frozenset(filter(_is_compound, _TIED | _PINS)) | KEYWORDS | ({"Stream"} & MAKES_STREAM)
"""Names that are hardly anything else."""
_STOPS = _names(fx.HostWaitsStream, fx.HostWaitsDevice)
_ONE_WORD = _STOPS | COPIES_ON_STREAM | ENTERS_STREAM | MAKES_STREAM | _names(graphs.LaunchesGraph)
"""Of the names of one word, those that stop the host, start a graph, copy or choose a stream: others are
methods of too many things."""
_BESIDE_BY_MODULE = frozenset(
    module.rpartition(".")[2]
    for framework, api in _functions()
    if any(isinstance(effect, fx.Communicates) and effect.makes is not None for effect in api.effects)
    for module in framework.modules
)
"""Modules all of whose functions run beside: ``torch.ops._c10d_functional.broadcast(x, 0, group)``."""
TELLING = STRONG | _ONE_WORD | frozenset(filter(_is_compound, RUNS_BESIDE)) | _BESIDE_BY_MODULE
PAIRS = frozenset(
    frozenset({*module.split(".")[1:], api.name})
    for framework, api in _functions()
    for module in framework.modules
    if "." in module and {api.name} & (ENTERS_STREAM | MAKES_STREAM | CAPTURES) and not _is_compound(api.name)
)
"""Names of one word with the module that they are functions of: ``torch.cuda.stream(SIDE)``."""

# ----------------------------------------------------------------------------- beside which no wait is sure

_captures = _tells(graphs.EnterCapture, graphs.CaptureStarts, graphs.GraphsCallables, graphs.NewGraph)
_waits_for_others = _tells(fx.HostCallback, fx.Communicates, fx.CallsAll, fx.Background)


_works = _tells(fx.Uses, fx.Background)
_WORKERS = frozenset(path.rpartition(".")[0] for path, (_, row) in FUNCTIONS.items() if _works(row))
"""What has functions that queue work of their own: a kernel from CUDA, a communicator."""


def _makes_kernel(effect: Effect) -> bool:
    if not isinstance(effect, fx.Makes):
        return False
    called = FUNCTIONS.get(effect.path)
    if called is not None and any(isinstance(one, fx.Uses) and one.packed for one in called[1].effects):
        return True
    of_it = (api for path, (_, api) in FUNCTIONS.items() if path.startswith(f"{effect.path}."))
    return any(_makes_kernel(one) for api in of_it for one in api.effects if one != effect)


@cache
def makes_kernel() -> frozenset[str]:
    """What gives a function that runs on the device, or a module of such: ``SourceModule(code)``."""
    return frozenset(f"{name}()" for name in _names(fx.Makes, only=_makes_kernel))


PINS = _PINS | _PINNED_BY.keys()


_HOST = PINS | {"cpu"}


@cache
def _begins(imported: frozenset[str]) -> frozenset[str]:
    names = ENTERS_STREAM | COPIES_ON_STREAM | CALLS_BACK | (KEYWORDS - _ASYNC_COPIES) | RUNS_BESIDE
    own = {*filter(_is_compound, names), *(ENTERS_STREAM | COPIES_ON_STREAM)}
    return frozenset(name for name in own if _is_compound(name) or _WHOSE.get(name, imported) & imported)


def begins(imported: frozenset[str], names: frozenset[str]) -> bool:
    """Whether code with these names may begin what goes on when it is done, in a module with these imports.

    What is copied to a device on the stream that is current, the next on that stream finds; the host does not
    wait for what is copied to it: ``x.to("cpu", non_blocking=True)``.
    """
    to_host = not _ASYNC_COPIES.isdisjoint(names) and not _HOST.isdisjoint(names)
    return to_host or not _begins(imported).isdisjoint(names)


def _makes_work(api: Api) -> bool:
    return any(isinstance(effect, fx.Makes) and effect.path in _WORKERS for effect in api.effects)


def _is_hazard(api: Api) -> bool:
    told = any(
        (isinstance(effect, fx.Uses) and effect.packed)  # a kernel
        or (isinstance(effect, fx.OrdersAll) and effect.why is Doubt.SIGNAL)
        for effect in api.effects
    )
    return told or _captures(api) or _waits_for_others(api) or _makes_work(api)


def _mentions(framework: Framework, api: Api) -> Iterator[frozenset[str]]:
    """The words that mention a call: its name, and where that is no name of its own, those of its module."""
    name = api.name.rpartition(".")[2].removesuffix("()")
    for module in framework.modules:
        yield frozenset({name} if _is_compound(name) else {name, *module.split(".")})


HAZARDS = frozenset(
    words for framework, api in _rows() if _is_hazard(api) for words in _mentions(framework, api)
) | frozenset(frozenset({name}) for name in cupy.ELEMENTWISE | torch.ASKS_FOR_MODE)
"""Words that, together in one text, tell of a capture, or of what may wait for something that comes later.

Who asks whether something is captured expects that it may be.

That is a kernel in CUDA, which may poll, a callback, a collective, a wait for memory, work beside the host.
"""
