"""Facts about PyTorch, measured if it can be imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from streamlint.confirm.doctor.axiom import (
    ORDERED,
    RETURNS,
    UNORDERED,
    WAITS,
    Axiom,
    Basis,
    Group,
    SkippedError,
)
from streamlint.confirm.doctor.lab import LATER, NEW, OLD, Lab, Race
from streamlint.confirm.doctor.libraries import CORRUPTED, KEPT, SECTION, corrupts, stream_flags

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.doctor.axiom import Measure

_G, _M, _O = Basis.GUARANTEED, Basis.MEASURED, Basis.OBSERVED
_N = 1 << 20
_DEFAULT = 0


def _torch(lab: Lab) -> tuple[Any, Any, Any]:
    """PyTorch, a tensor on the GPU, and a stream; the kernels that experiments use are loaded."""
    import torch

    if not torch.cuda.is_available():
        raise SkippedError("this PyTorch has no CUDA")
    x = torch.full((_N,), float(OLD), device="cuda")
    side = torch.cuda.Stream()
    out = torch.zeros_like(x)
    with torch.cuda.stream(side):
        out.copy_(x)
    x.to("cpu", non_blocking=True)
    for wait in _WAITING.values():
        wait(x)
    lab.synchronize()
    return torch, x, side


_WAITING: Final[dict[str, Callable[[Any], object]]] = {
    "item": lambda x: x[0].item(),
    "cpu": lambda x: x.cpu(),
    "tolist": lambda x: x[:4].tolist(),
    "nonzero": lambda x: x.nonzero(),
    "bool": lambda x: bool(x[0]),
    "mask": lambda x: x[x > 0],
}


def streams(lab: Lab) -> str:
    torch, _, side = _torch(lab)
    default = torch.cuda.default_stream().cuda_stream
    return f"{stream_flags(lab, side.cuda_stream)}, default {default}"


def to_cpu(lab: Lab) -> str:
    _, x, _ = _torch(lab)
    lab.hold(_DEFAULT)
    x.fill_(float(NEW))
    host = x.to("cpu", non_blocking=True)
    early = host[-1].item()
    lab.let_go()
    return f"{'pinned' if host.is_pinned() else 'pageable'}, {'old' if early != NEW else 'new'} value"


def copy_to_host(*, pinned: bool) -> Measure:
    def measure(lab: Lab) -> str:
        torch, x, _ = _torch(lab)
        host = torch.zeros(_N, pin_memory=pinned)
        host.copy_(x)
        return lab.waits(lambda: host.copy_(x, non_blocking=True), busy=_DEFAULT)

    return measure


def event_record(lab: Lab) -> str:
    torch, _, side = _torch(lab)
    event = torch.cuda.Event()
    event.record()
    event.synchronize()
    lab.hold(side.cuda_stream)
    with torch.cuda.stream(side):
        event.record()
    behind = not event.query()
    lab.let_go()
    return "current stream" if behind else "another stream"


def waits(name: str, *, side_busy: bool) -> Measure:
    def measure(lab: Lab) -> str:
        _, x, side = _torch(lab)
        return lab.waits(lambda: _WAITING[name](x), busy=side.cuda_stream if side_busy else _DEFAULT)

    return measure


def dropped(*, recorded: bool) -> Measure:
    """A tensor of the current stream is dropped while a side stream is to read it."""

    def measure(lab: Lab) -> str:
        torch, out, side = _torch(lab)

        def one_round() -> bool:
            x = torch.full((_N,), float(NEW), device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            lab.hold(side.cuda_stream)
            with torch.cuda.stream(side):
                out.copy_(x)
            if recorded:
                x.record_stream(side)
            del x
            following = torch.full((_N,), float(LATER), device="cuda")
            lab.done_soon(lab.record(_DEFAULT))
            lab.let_go()
            return bool(out[-1].item() != NEW) and following is not None

        return corrupts(lab, one_round)

    return measure


def dropped_pinned(*, raw: bool) -> Measure:
    """A pinned tensor is dropped while it is to be copied."""

    def measure(lab: Lab) -> str:
        torch, out, side = _torch(lab)
        torch.empty(_N, pin_memory=True)  # its block is handed out below

        def one_round() -> bool:
            host = torch.empty(_N, pin_memory=True)
            host.fill_(float(NEW))
            lab.hold(side.cuda_stream)
            if raw:
                lab.copy(out.data_ptr(), host.data_ptr(), side.cuda_stream, 4 * _N)
            else:
                with torch.cuda.stream(side):
                    out.copy_(host, non_blocking=True)
            del host
            following = torch.empty(_N, pin_memory=True)
            following.fill_(float(LATER))
            lab.let_go()
            return bool(out[-1].item() != NEW)

        return corrupts(lab, one_round)

    return measure


def stream_none(lab: Lab) -> str:
    torch, _, side = _torch(lab)
    with torch.cuda.stream(side):
        before = torch.cuda.current_stream()
        with torch.cuda.stream(None):
            same = torch.cuda.current_stream() == before
    return f"{'same' if same else 'another'} stream, query() {torch.cuda.Event().query()}"


def cached_allocation(lab: Lab) -> str:
    """``torch.empty`` on the legacy stream, between two blocking streams."""
    torch, _, _ = _torch(lab)
    torch.empty(_N, device="cuda")
    race = Race.of(lab)
    first, second = lab.blocking(), lab.blocking()
    race.write(first)
    torch.empty(_N, device="cuda")
    return race.read(second)


def between_devices(*, on_current: bool) -> Measure:
    """A copy to another device of what the current stream, or a side stream, is to write."""

    def measure(lab: Lab) -> str:
        torch, x, side = _torch(lab)
        x.to("cuda:1")
        lab.driver.synchronize()
        lab.hold_for_a_while(_DEFAULT if on_current else side.cuda_stream)
        with torch.cuda.stream(torch.cuda.current_stream() if on_current else side):
            x.fill_(float(NEW))
        y = x.to("cuda:1", non_blocking=True)
        lab.let_go()
        return ORDERED if y[-1].item() == NEW else UNORDERED

    return measure


_DROPPED = "a tensor dropped while a side stream reads it"
_PINNED = "a pinned tensor dropped after non_blocking=True copies is safe"
_CURRENT_ONLY = ".item(), .cpu(), .tolist(), .nonzero(), bool(t), t[mask] wait for the current stream only"
_COPY = "pinned.copy_(x, non_blocking=True) returns at once; into pageable memory it blocks"
_BETWEEN = "a copy between devices orders the two current streams only"

TORCH: Final = Group(
    SECTION,
    (
        Axiom(
            "torch.cuda.Stream() is non-blocking; the default stream is the legacy default stream",
            "non-blocking, default 0",
            _M,
            streams,
        ),
        Axiom(
            'x.to("cpu", non_blocking=True) makes pinned memory and returns before the copy ran',
            "pinned, old value",
            _G,
            to_cpu,
        ),
        Axiom(_COPY, RETURNS, _G, copy_to_host(pinned=True), "pinned"),
        Axiom(_COPY, WAITS, _O, copy_to_host(pinned=False), "pageable"),
        Axiom("event.record() records the current stream", "current stream", _G, event_record),
        *(
            Axiom(_CURRENT_ONLY, WAITS, _M, waits(name, side_busy=False), f"{name}, current stream busy")
            for name in _WAITING
        ),
        *(
            Axiom(_CURRENT_ONLY, RETURNS, _M, waits(name, side_busy=True), f"{name}, side stream busy")
            for name in _WAITING
        ),
        Axiom(_DROPPED, CORRUPTED, _G, dropped(recorded=False), "no record_stream"),
        Axiom(_DROPPED, KEPT, _G, dropped(recorded=True), "record_stream"),
        Axiom(_PINNED, KEPT, _M, dropped_pinned(raw=False), "non_blocking=True"),
        Axiom(_PINNED, CORRUPTED, _M, dropped_pinned(raw=True), "raw copy"),
        Axiom(
            "torch.cuda.stream(None) changes nothing; query() of an event that was never recorded is true",
            "same stream, query() True",
            _G,
            stream_none,
        ),
        Axiom(_BETWEEN, ORDERED, _G, between_devices(on_current=True), "current stream", devices=2),
        Axiom(_BETWEEN, UNORDERED, _G, between_devices(on_current=False), "side stream", devices=2),
    ),
    library="torch",
)

TORCH_POOL: Final = Group(
    "Streams",
    (
        Axiom(
            "an allocation from a caching pool on the legacy stream",
            UNORDERED,
            _M,
            cached_allocation,
            "torch.empty between two blocking streams",
        ),
    ),
    library="torch",
)
