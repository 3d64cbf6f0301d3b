"""How a library says that a stream, or the host, waits: from the rows of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import models
from streamlint.frozen import frozen
from streamlint.models import words as library_words
from streamlint.models.schema import (
    CurrentStream,
    DefaultStream,
    Destroys,
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsStream,
    JoinsCaptures,
    LaunchesGraph,
    Lib,
    NewEvent,
    Records,
    StreamWaitsEvent,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.fixes.sight import Sight
    from streamlint.models.schema import Api, Effect
    from streamlint.models.table import Framework
    from streamlint.trace import StreamId

EVENT = "ready"
"""What a new event is called, if nothing else is called so."""


@frozen()
class Named:
    """A stream as the code writes it at a place; ``lib`` is whose object it is."""

    text: str
    lib: Lib
    raw: bool = False
    simple: bool = True
    """Whether it is an expression of the function, and no call that asks for a current stream."""


def names_of(sight: Sight, stream: StreamId) -> Iterator[Named]:
    """The ways to write a stream at a place, the plainest first."""
    for text, value in sight.streams(stream):
        if value.lib is not None:
            yield Named(text, value.lib, value.raw)
    for lib, current in sight.current.items():
        if current == stream:
            asked = _function(sight, lib, CurrentStream)
            if asked is not None:
                yield Named(f"{asked}()", lib, simple=False)
    if sight.default == stream:
        yield from _default(sight)


def _default(sight: Sight) -> Iterator[Named]:
    for lib in models.BY_LIB:
        asked = _function(sight, lib, DefaultStream)
        if asked is not None:
            yield Named(f"{asked}()", lib, simple=False)
    for path, (lib, kind) in models.STREAMS.items():
        name = sight.api(path)
        if name is not None and kind.value.startswith("legacy"):
            yield Named(name, lib, simple=False)
    for lib in (Lib.RUNTIME, Lib.DRIVER):
        if any(sight.api(module) for module in models.BY_LIB[lib].modules):
            yield Named("0", lib, raw=True)


def stream_waits(sight: Sight, second: Named, first: Named, event: str) -> tuple[str, ...] | None:
    """Lines by which one stream waits for all that another one has queued; None if the library has none."""
    if second.lib is not first.lib:
        return None
    lib = second.lib
    if not second.raw and not first.raw:
        said = library_words.of(lib)
        if said is not None:
            return (said.wait.format(first=first.text, second=second.text),)
    made = _new_event(sight, lib)
    recorded = event_records(sight, lib, event, first)
    waited = _stream_waits_event(sight, lib, event, second)
    if made is None or recorded is None or waited is None:
        return None
    gone = _call(sight, lib, Destroys, _arguments(lib, event=event))
    return (f"{event} = {made}", recorded, waited, *([gone] if gone is not None else []))


def captures_by_builders(lib: Lib) -> bool:
    """Whether what captures is an object that joins others, and cannot wait: ``GraphBuilder.join(a, b)``."""
    return any(api.has(JoinsCaptures) for api in models.BY_LIB[lib].functions)


def _new_event(sight: Sight, lib: Lib) -> str | None:
    row = _row(sight, lib, NewEvent)
    if row is None:
        return None
    name, api = row
    call = f"{name}({', '.join('0' for _ in api.names) if api.status else ''})"
    return f"{call}[1]" if api.status else call


def event_records(sight: Sight, lib: Lib, event: str, stream: Named) -> str | None:
    """A line that records an event on a stream."""
    method = next((api for api in models.BY_LIB[lib].event_methods if api.has(Records)), None)
    if method is not None:
        return f"{event}.{method.name}({stream.text})"
    return _call(sight, lib, Records, _arguments(lib, event, stream.text))


def _stream_waits_event(sight: Sight, lib: Lib, event: str, stream: Named) -> str | None:
    method = _method(lib, StreamWaitsEvent, "self")
    if method is not None and not stream.raw:
        return f"{stream.text}.{method.name}({event})"
    method = next((api for api in models.BY_LIB[lib].event_methods if api.has(StreamWaitsEvent)), None)
    if method is not None:
        return f"{event}.{method.name}({stream.text})"
    return _call(sight, lib, StreamWaitsEvent, _arguments(lib, event, stream.text))


def host_waits(sight: Sight, stream: Named) -> str | None:
    """A line by which the host waits for all that was queued on a stream."""
    method = _method(stream.lib, HostWaitsStream) if not stream.raw else None
    if method is not None:
        return f"{stream.text}.{method.name}()"
    return _call(sight, stream.lib, HostWaitsStream, _arguments(stream.lib, stream=stream.text))


def host_waits_event(sight: Sight, lib: Lib, event: str) -> str | None:
    """A line by which the host waits for an event."""
    methods = models.BY_LIB[lib].event_methods
    method = next((api for api in methods if api.has(HostWaitsEvent)), None)
    if method is not None:
        return f"{event}.{method.name}()"
    return _call(sight, lib, HostWaitsEvent, _arguments(lib, event=event))


def launches(sight: Sight, lib: Lib, graph: str, stream: StreamId) -> str | None:
    """A line that launches a graph, on the stream that was captured if the library wants to be told."""
    method = next((api for api in models.BY_LIB[lib].graph_methods if api.has(LaunchesGraph)), None)
    if method is None:
        return None
    if not method.names:
        return f"{graph}.{method.name}()"
    named = next((each for each in names_of(sight, stream) if each.lib is lib), None)
    return None if named is None else f"{graph}.{method.name}({named.text})"


def host_waits_for_all(sight: Sight) -> str | None:
    """A line by which the host waits for all work of the current device, in any library that is at hand."""
    paths = (
        (sight.strange(module), f"{module}.{api.name}")
        for framework in models.FRAMEWORKS
        for api in framework.functions
        if api.has(HostWaitsDevice)
        for module in _modules(framework, sight)
    )
    written = (sight.api(path) for _, path in sorted(paths, key=lambda found: found[0]))
    name = next((each for each in written if each is not None), None)
    return None if name is None else f"{name}()"


# ----------------------------------------------------------------------------- rows


def _modules(framework: Framework, sight: Sight) -> list[str]:
    """Where a library has its functions, the nearest first: `cupyx` has no `get_current_stream`."""
    return sorted(framework.homes or framework.modules[:1], key=sight.strange)


def _method(lib: Lib, effect: type[Effect], stream: str | None = None) -> Api | None:
    """The method of a library's streams that has an effect; ``stream``: on the one it is called on."""
    for api in models.BY_LIB[lib].stream_methods:
        for each in api.effects:
            if isinstance(each, effect) and stream in (None, getattr(each, "stream", None)):
                return api
    return None


def _row(sight: Sight, lib: Lib, effect: type[Effect]) -> tuple[str, Api] | None:
    framework = models.BY_LIB[lib]
    for api in framework.functions:
        if not api.has(effect) or api.rest is not None:
            continue
        for module in _modules(framework, sight):
            name = sight.api(f"{module}.{api.name}")
            if name is not None:
                return name, api
    return None


def _function(sight: Sight, lib: Lib, effect: type[Effect]) -> str | None:
    row = _row(sight, lib, effect)
    return None if row is None else row[0]


def _arguments(lib: Lib, event: str = "", stream: str = "") -> dict[str, str]:
    """What the parameters of a library's functions get, as their effects name them; what is empty none."""
    given: dict[str | None, str] = {}
    for api in models.BY_LIB[lib].functions:
        for effect in api.effects:
            match effect:
                case Records() | StreamWaitsEvent():
                    given |= {effect.event: event, effect.stream: stream, effect.flags: "0"}
                case HostWaitsEvent():
                    given[effect.event] = event
                case HostWaitsStream():
                    given[effect.stream] = stream
                case _:
                    pass
    return {name: text for name, text in given.items() if name and text}


def _call(sight: Sight, lib: Lib, effect: type[Effect], arguments: dict[str, str]) -> str | None:
    """A call of the first function with an effect all of whose parameters are known."""
    framework = models.BY_LIB[lib]
    for api in framework.functions:
        if not api.has(effect) or not all(name in arguments for name in api.names):
            continue
        for module in _modules(framework, sight):
            name = sight.api(f"{module}.{api.name}")
            if name is not None:
                return f"{name}({', '.join(arguments[each] for each in api.names)})"
    return None
