"""The tables in words, for ``docs/models.md``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.frozen import frozen
from streamlint.models import host, torch
from streamlint.models import schema as fx
from streamlint.trace import Doubt, Space, StreamKind

if TYPE_CHECKING:
    from collections.abc import Iterable

_KINDS = {
    StreamKind.LEGACY: "the legacy default stream",
    StreamKind.PER_THREAD: "the per-thread default stream",
    StreamKind.BLOCKING: "a blocking stream",
    StreamKind.NON_BLOCKING: "a non-blocking stream",
    StreamKind.CURRENT: "the current stream",
    StreamKind.UNKNOWN: "a stream from outside",
}
_SPACES = {
    Space.DEVICE: "device memory",
    Space.PINNED: "pinned host memory",
    Space.PAGEABLE: "pageable host memory",
    Space.MANAGED: "managed memory",
    Space.UNKNOWN: "memory",
}


@frozen()
class Words:
    """Names that mean the same without a row each."""

    meaning: str
    names: frozenset[str]


WORDS: dict[fx.Lib, tuple[Words, ...]] = {
    fx.Lib.TORCH: (
        Words("Tensor methods that return a view of the same memory", torch.VIEW_METHODS),
        Words("Tensor attributes that give a view", torch.VIEW_ATTRIBUTES),
        Words(
            "Tensor methods that read on the host; on a device tensor they wait for the current stream only",
            torch.HOST_READ_METHODS,
        ),
        Words("Operators that wait for the current stream", torch.DRAINING_METHODS),
        Words("Functions that allocate a tensor", torch.FACTORIES | torch.LIKE_FACTORIES),
        Words("Functions whose result stands for `torch.cuda`", torch.MODULE_MAKERS),
    ),
}
HOST_WORDS = (
    Words("Functions that return a view of their argument's memory", host.VIEW_FUNCTIONS),
    Words("Methods and attributes of host arrays that give a view or an address", host.ARRAY_VIEWS),
    Words("Functions that allocate host memory", host.ALLOCATORS),
    Words("Objects whose methods are the functions of their module", frozenset(host.GENERATORS)),
    Words("Builtins that read the values of an array or tensor", host.READ_BUILTINS),
    Words("Methods that write a host array", host.ARRAY_WRITES),
    Words("Functions that write memory", frozenset(host.MEMORY_FUNCTIONS)),
)


def call(api: fx.Api) -> str:
    """The row as one writes it: ``wait_event(event)``; attributes have no parentheses."""
    return api.name if api.attribute else f"{api.name}({', '.join(api.params.split())})"


def effects(api: fx.Api) -> str:
    """What the row does, in words."""
    return "; ".join(effect(one) for one in api.effects)


def effect(one: fx.Effect) -> str:
    """One effect in words; parameters in backticks."""
    if isinstance(one, fx.StreamEffect):
        return _of_streams(one)
    if isinstance(one, fx.DeviceEffect):
        return _of_devices(one)
    if isinstance(one, fx.WaitEffect):
        return _of_waits(one)
    if isinstance(one, fx.WorkEffect):
        return _of_work(one)
    if isinstance(one, fx.MemoryEffect):
        return _of_memory(one)
    if isinstance(one, fx.GraphEffect):
        return _of_graphs(one)
    if isinstance(one, fx.CommunicationEffect):
        return _of_communication(one)
    if isinstance(one, fx.AsideEffect):
        return _aside(one)
    if isinstance(one, fx.ObjectEffect):
        return _of_objects(one)
    return _by_itself(one)


def _of_streams(one: fx.StreamEffect) -> str:
    match one:
        case fx.NewStream():
            return _new_stream(one)
        case fx.CurrentStream(device):
            return f"gives the current stream (of `{device}`, if given)"
        case fx.DefaultStream(kind):
            return f"gives {_KINDS[kind]}"
        case fx.ForeignStream(handle, current_of):
            other = f", or the current stream of {current_of.value}" if current_of else ""
            return f"wraps the raw stream `{handle}`{other}"
        case fx.EnterStream(stream, now):
            text = f"makes {_receiver(stream)} current{' from here on' if now else ' in the `with` block'}"
            text += f"; with `{one.forks}` it waits for the stream that was current" if one.forks else ""
            return text + (f"; with `{one.joins}` that one waits in the end" if one.joins else "")
        case fx.NewEvent():
            return "makes an event that nothing has recorded"
        case _:
            assert_never(one)


def _of_devices(one: fx.DeviceEffect) -> str:
    match one:
        case fx.NewDevice(number):
            return f"stands for device `{number}`"
        case fx.EnterDevice(device, now):
            return f"makes `{device}` the current device{' from here on' if now else ' in the `with` block'}"
        case fx.SelectsDevice(device, push):
            text = f"makes {_receiver(device)} the current device"
            return text + (", until the one before is restored" if push else "")
        case fx.RestoresDevice():
            return "makes the device current again that was so before the last push"
        case _:
            assert_never(one)


def _of_waits(one: fx.WaitEffect) -> str:
    match one:
        case fx.StreamWaitsStream(stream, other):
            return f"{_receiver(stream)} waits for what is queued on `{other}` now"
        case fx.StreamWaitsEvent(event, stream, _):
            waiter = "the current stream" if stream is None else _stream(stream)
            return f"{waiter} waits for the record that {_receiver(event)} holds now"
        case fx.StreamWaits(waited, stream):
            return f"{_receiver(stream)} waits for `{waited}`, an event or a stream"
        case fx.Records(event, stream, _):
            return f"{_receiver(event)} records the tail of {_stream(stream)}"
        case fx.HostWaitsStream(stream):
            return f"the host waits for {_stream(stream)}"
        case fx.HostWaitsEvent(event, unless_false):
            asked = f", unless `{unless_false}` is false" if unless_false else ""
            return f"the host waits for the record that {_receiver(event)} holds now{asked}"
        case fx.HostWaitsDevice(every=True):
            return "the host waits for all devices"
        case fx.HostWaitsDevice(device):
            return f"the host waits for one device (`{device}`, or the current one)"
        case fx.HostWaitsMemory(what):
            return f"the host waits for what writes {_receiver(what)}"
        case fx.Queries(of):
            return f"asks whether {_receiver(of)} is complete; an answer of yes is a host synchronization"
        case fx.SyncOnExit(stream):
            return f"synchronizes {_receiver(stream)} when the `with` block is left"
        case _:
            assert_never(one)


def _of_work(one: fx.WorkEffect) -> str:
    match one:
        case fx.Copies():
            return _copies(one)
        case fx.Uses():
            return _uses(one)
        case fx.HostUses(reads, writes):
            return f"the host {_accesses(reads, writes, ())} before the call returns"
        case fx.Computes(reads, out, stream, also=also):
            uses = fx.Uses(reads, (out, *also) if out else (), stream=stream)
            return f"{_uses(uses)}, or makes its result, and gives that"
        case fx.Launches(kernel, args, stream, kept_with=flag):
            end = f"; with `{flag}` when what it gives is told to" if flag else ""
            return f"runs `{kernel}` on {_stream(stream)} with what is in {_names(args)}{end}"
        case _:
            assert_never(one)


def _of_memory(one: fx.MemoryEffect) -> str:
    match one:
        case fx.Allocates(space, stream, pool=pool):
            text = f"allocates {_SPACES[space]}" + (f", in order of {_stream(stream)}" if stream else "")
            text += ", and fills it on the current stream" if one.filled else ""
            return text + (f" from {pool}, which reuses it as soon as it is dropped" if pool else "")
        case fx.Frees(buffer, str(stream), later=True):
            return f"makes {_receiver(buffer)} be freed in order of {_stream(stream)}"
        case fx.Frees(buffer, stream, device_wide):
            order = f", in order of {_stream(stream)}" if stream else ""
            wide = "; was seen to wait for the whole device" if device_wide else ""
            return f"frees {_receiver(buffer)}{order}{wide}"
        case fx.Pins(buffer, block):
            return f"page-locks `{buffer}`" + (" until the block is left" if block else "")
        case fx.Unpins(buffer):
            return f"ends the page-locking of `{buffer}`; was seen to wait for the whole device"
        case fx.GlobalMemory(module, name):
            return f"gives the address of the variable `{name}` of {_names(module)}"
        case fx.KeepsAlive(buffer, stream):
            return f"keeps {_receiver(buffer)} from being reused before the work now on `{stream}` is done"
        case fx.Views(of, array, _):
            return f"another view of {_receiver(of)}{', as a host array' if array else ''}"
        case fx.Adopts(of, stream):
            order = f"; the giver's stream is ordered before `{stream}`, if given" if stream else ""
            return f"another library's memory {_receiver(of)} as an object of this one{order}"
        case _:
            assert_never(one)


def _of_graphs(one: fx.GraphEffect) -> str:
    match one:
        case fx.EnterCapture(stream, graph):
            return f"captures `{stream}` into `{graph}` in the `with` block: work is recorded, not run"
        case fx.CaptureStarts(stream, graph):
            into = f" into `{graph}`" if graph is not None else ""
            return f"begins a capture of {_receiver(stream)}{into}: work is recorded, not run"
        case fx.SplitsCapture(count):
            return f"gives itself and others of the same capture, `{count}` in all, which follow its work"
        case fx.JoinsCaptures(streams):
            return f"the first of `{streams}` follows the work of the others"
        case fx.CaptureEnds(stream):
            return f"ends the capture of {_receiver(stream)}; gives the graph"
        case fx.NewGraph():
            return "makes a graph that nothing was captured into"
        case fx.InstantiatesGraph(graph):
            return f"makes an executable graph of {_receiver(graph)}"
        case fx.GraphsCallables(callables):
            return f"gives a callable for each of `{callables}` that runs its graph on the current stream"
        case fx.LaunchesGraph(graph, stream):
            where = "the current stream" if stream is None else _stream(stream)
            return f"runs what was captured into {_receiver(graph)}, on {where}"
        case _:
            assert_never(one)


def _of_communication(one: fx.CommunicationEffect) -> str:
    match one:
        case fx.Communicates():
            return _communicates(one)
        case fx.WaitsForResult(result):
            return f"the current stream waits for the collective that made `{result}`; gives that back"
        case fx.Coalesces(group, flag):
            return (
                f"makes one of the collectives of `{group}` in the `with` block; gives their handle, and the "
                f"current stream waits for it in the end, unless `{flag}` is true"
            )
        case fx.GivesWritten():
            return "gives the memory that the collective writes; waits for nothing"
        case fx.Defers(func):
            return f"keeps what the call of `{func}` is given, for one that makes it"
        case fx.CallsAll(calls):
            return f"makes all calls in `{calls}`; gives handles that stand for all of them"
        case fx.GroupStarts(block):
            where = "in the `with` block" if block else "until the group ends"
            return f"what is called {where} is queued at its end"
        case fx.GroupEnds():
            return "queues what was called in the group; all streams of its calls wait for each other"
        case _:
            assert_never(one)


def _aside(one: fx.AsideEffect) -> str:
    match one:
        case fx.Background(reads, writes, waits, after_default, bound=bound):
            start = "the host waits for the default stream; " if after_default else ""
            end = "before the call returns" if waits else "until its result is waited for"
            what = (
                f"may read and write what `{bound}` was bound to" if bound else _accesses(reads, writes, ())
            )
            where = f"where `{one.when.parameter}` is {one.when.value}, " if one.when else ""
            return f"{where}{start}{what} in order of no stream, {end}"
        case fx.Fills(what, stream, unless):
            return (
                f"writes `{what}` on `{stream}`, or on a stream of the library's own; the host waits, "
                f"unless `{unless}` is true"
            )
        case fx.Lends():
            return "gives a list of memory of the library's own, complete"
        case fx.TakesBack(unless):
            return f"the library writes again what it has lent, on a stream of its own, unless `{unless}`"
        case fx.Draws(what, stream, unless):
            return f"calls `{what}`, and copies what that gives on `{stream}`, unless `{unless}`"
        case fx.OrdersAll(why):
            return "may order all streams" + (
                ", by a value in memory or a semaphore" if why is Doubt.SIGNAL else ""
            )
        case fx.Shares(what):
            return f"other processes may use `{what}`, and read it when they are sent a message"
        case fx.OpensShared():
            return "returns memory of another process"
        case _:
            assert_never(one)


def _of_objects(one: fx.ObjectEffect) -> str:
    match one:
        case fx.Makes(path):
            return f"makes an object whose calls are the rows `{path.rpartition('.')[2]}`"
        case fx.Binds(None, event):
            return f"the object records `{event}` behind each later work"
        case fx.Binds(name, address):
            return f"the object keeps `{address}` as `{name}` for its later work"
        case fx.ChoosesAllocator(allocator):
            return f"chooses `{allocator}` for the memory of arrays"
        case _:
            assert_never(one)


def _by_itself(one: fx.CallEffect) -> str:
    match one:
        case fx.Struct():
            return "makes a record whose fields the program sets"
        case fx.HostCallback(stream, function):
            return f"runs `{function}` on a host thread, in order of {_stream(stream)}"
        case fx.OrdersNothing():
            return "a CUDA call that orders nothing"
        case fx.ReadsTimes(start, end):
            return f"reads the time between {_receiver(start)} and {_receiver(end)}; waits for nothing"
        case fx.Destroys(what):
            return f"destroys {_receiver(what)}; waits already issued keep their record"
        case fx.Returns(what):
            return f"gives back {_receiver(what)}"
        case fx.Succeeds():
            return "returns whether it worked"
        case fx.Pure():
            return "no device work, and no access to memory"
        case _:
            assert_never(one)


def _new_stream(one: fx.NewStream) -> str:
    text = f"makes {_KINDS[one.unset or one.kind]}"
    if one.flag is not None:
        other = _KINDS[one.kind] if one.unset is not None else _KINDS[one.flag_kind]
        text += f" ({other} if `{one.flag}` says so)"
    text += f", or stands for the stream of `{one.wraps}`" if one.wraps else ""
    return text + (f", or the legacy default stream if `{one.null}` is true" if one.null else "")


def _copies(one: fx.Copies) -> str:
    source, target = _receiver(one.src), _receiver(one.dst)
    if one.makes is not None:
        target = f"`{one.dst}`, or new {_SPACES[one.makes]}"
    text = f"copies {source} to {target} on {_stream(one.stream) if one.stream else 'the default stream'}"
    if one.unless is not None:
        text += f"; the host waits, unless `{one.unless}` is given"
    elif one.unless_false is not None:
        text += f"; the host waits, unless `{one.unless_false}` is false"
    elif one.blocking:
        text += "; the host waits"
    return text


def _uses(one: fx.Uses) -> str:
    where = _stream(one.stream) if one.stream else "the current stream"
    what = [_accesses(one.reads, one.writes, one.updates)] if one.reads or one.writes or one.updates else []
    what += [f"may read and write the memory in {_names(one.packed)}"] if one.packed else []
    what += ["may read and write what the object was bound to"] if one.bound else []
    what += ["writes memory of the object's own"] if one.own_memory else []
    waits = "; the host waits if the memory is pinned or managed" if one.host_waits else ""
    return f"device work on {where}" + (f" that {' and '.join(what)}" if what else "") + waits


def _communicates(one: fx.Communicates) -> str:
    what = _accesses(one.reads, one.writes, one.updates)
    if one.flag is None and not one.handle:
        return f"{what} on the current stream"
    if one.gives:
        return f"{what} on the current stream, or with `{one.flag}` aside; gives results and the handle"
    if one.makes is not None:
        return f"{what} on the stream of `{one.group}`, writes memory of its own there, and gives that"
    if one.flag is None:
        return f"{what} on the stream of `{one.group}`; gives the handle to wait for"
    return f"{what} on the current stream, or with `{one.flag}` on the stream of `{one.group}`"


def _accesses(reads: Iterable[str], writes: Iterable[str], updates: Iterable[str]) -> str:
    parts = [
        f"{verb} {_names(names)}"
        for verb, names in (("reads", tuple(reads)), ("writes", tuple(writes)), ("updates", tuple(updates)))
        if names
    ]
    return " and ".join(parts)


def _names(names: Iterable[str]) -> str:
    return ", ".join(_receiver(name) for name in names)


def _receiver(name: str) -> str:
    return "the object" if name == "self" else f"`{name}`"


def _stream(name: str) -> str:
    named = {"current": "the current stream", "default": "the default stream"}
    return named.get(name) or _receiver(name)
