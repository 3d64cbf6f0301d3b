"""The streams and events of a running program, by the handles that the driver has for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from streamlint.trace import DeviceId, EventId, StreamId, StreamKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.observe.events import Places

    StreamKinds = Callable[[int], StreamKind]

LEGACY_HANDLES = frozenset({0, 1})
PER_THREAD_HANDLE = 2

Handle: TypeAlias = "int | tuple[int, DeviceId]"
"""A stream's own handle, whatever device is current then; default streams have one on each device."""


def key_of(handle: int, device: DeviceId) -> Handle:
    """What tells a stream from all others."""
    return handle if handle > PER_THREAD_HANDLE else (handle, device)


@dataclass(slots=True)
class StreamInfo:
    id: StreamId
    kind: StreamKind
    device: DeviceId
    places: Places = ()
    """Where it was made: the innermost place, then those that called it."""
    foreign: bool = False
    """Nothing that is traced made it: other code has it, and may order it."""


@dataclass(slots=True)
class EventInfo:
    id: EventId
    device: DeviceId
    places: Places = ()
    timing: bool | None = None
    of: str = ""
    """The call that made it for itself: ``wait_stream``."""
    external: bool = False
    """A capture makes nodes of its records and waits: they order the graph's work when it is launched."""


class Registry:
    """What there is. A handle that comes again is another stream or event."""

    def __init__(self, callers: Callable[[], Places], kind_of: StreamKinds) -> None:
        self.callers = callers
        self._kind_of = kind_of
        self._streams: dict[Handle, StreamInfo] = {}
        self._stream_infos: dict[StreamId, StreamInfo] = {}
        self._gone: set[Handle] = set()
        """Streams that were destroyed, by handle, until another gets it."""
        self._events: dict[int, EventInfo] = {}
        self._event_infos: dict[EventId, EventInfo] = {}
        self._last_event = 0

    # ------------------------------------------------------------------ streams

    def stream(self, handle: int, device: DeviceId) -> StreamId:
        """The stream of a handle; handles of default streams stand for one stream on each device."""
        info = self._streams.get(handle if handle > PER_THREAD_HANDLE else (handle, device))
        if info is None:
            info = self._new_stream(handle, device, ())
            info.foreign = handle not in LEGACY_HANDLES and handle != PER_THREAD_HANDLE
        return info.id

    def handles(self) -> list[int]:
        """Of streams that the driver may be asked about: of one that is gone it may crash."""
        known = [handle for handle in self._streams if handle not in self._gone]
        return [handle[0] if isinstance(handle, tuple) else handle for handle in known]

    def pool_stream(self, handle: int, device: DeviceId, kind: StreamKind) -> None:
        """A library that is traced made a stream, for itself or to hand it out."""
        if key_of(handle, device) not in self._streams:
            self._new_stream(handle, device, (), kind)

    def foreign_stream(self, handle: int, device: DeviceId) -> None:
        """The user's code wrapped the handle of a stream; one that is known stays what it is."""
        if key_of(handle, device) not in self._streams:
            self._new_stream(handle, device, self.callers()).foreign = True

    def made_stream(
        self, handle: int, device: DeviceId, kind: StreamKind | None = None, *, pooled: bool = False
    ) -> None:
        """The user's code made a stream; a pool hands out the same streams again."""
        info = self._streams.get(key_of(handle, device)) if pooled else None
        if info is None:
            self._new_stream(handle, device, self.callers(), kind)
        elif not info.places:
            info.places = self.callers()

    def _new_stream(
        self, handle: int, device: DeviceId, places: Places, known: StreamKind | None = None
    ) -> StreamInfo:
        if handle in LEGACY_HANDLES:
            kind, twins = StreamKind.LEGACY, LEGACY_HANDLES
        elif handle == PER_THREAD_HANDLE:
            kind, twins = StreamKind.PER_THREAD, frozenset({handle})
        else:
            kind, twins = known or self._kind_of(handle), frozenset({handle})
        info = StreamInfo(StreamId(len(self._stream_infos)), kind, device, places)
        self._stream_infos[info.id] = info
        for twin in twins:
            self._streams[key_of(twin, device)] = info
            self._gone.discard(key_of(twin, device))
        return info

    # ------------------------------------------------------------------ events

    def event(self, handle: int, device: DeviceId) -> EventId:
        info = self._events.get(handle)
        return info.id if info is not None else self.bind_event(handle, device, None)

    def made_event(self, handle: int, device: DeviceId, *, timing: bool | None = None) -> EventId:
        """The user's code made an event; one that had the handle before is forgotten."""
        return self.bind_event(handle, device, self.loose_event(device, timing=timing))

    def loose_event(self, device: DeviceId, *, timing: bool | None, of: str = "") -> EventInfo:
        """An event of the user's code that has no handle yet: PyTorch makes it at the first record."""
        return self._new_event(device, self.callers(), timing, of)

    def bind_event(self, handle: int, device: DeviceId, info: EventInfo | None) -> EventId:
        """Give an event its handle; without one it is an event that a library made."""
        if info is None:
            info = self._new_event(device, (), None, "")
        info.device = device
        self._events[handle] = self._event_infos[info.id] = info
        return info.id

    def _new_event(self, device: DeviceId, places: Places, timing: bool | None, of: str) -> EventInfo:
        self._last_event += 1
        info = EventInfo(EventId(self._last_event), device, places, timing, of)
        self._event_infos[info.id] = info
        return info

    def known(self, info: EventInfo) -> EventId:
        """The event of the user's code that ``info`` describes, with or without a handle."""
        self._event_infos[info.id] = info
        return info.id
