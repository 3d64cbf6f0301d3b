"""Effects of calls that read and write memory: a part of the union in ``models/schema.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from streamlint.models.objects import Makes
    from streamlint.trace import Space


@frozen()
class Copies:
    """A copy; spaces decide whether the host waits.

    ``"p.srcPtr/srcArray"``: the first of these fields of ``p`` that is set.
    """

    dst: str
    src: str
    stream: str | None = "stream"
    """``"default"``: the default stream, where that is not the current one."""
    count: str | None = None
    pitches: tuple[str, str] | None = None
    """How many bytes the rows of target and source are apart: ``height`` rows are copied, ``width`` bytes of
    each."""
    blocking: bool = False
    unless: str | None = None
    """A parameter that, when true, makes the copy not block (``non_blocking``)."""
    unless_false: str | None = None
    """A parameter that, when given and false, makes the copy not block (``blocking=False``)."""
    makes: Space | None = None
    """Where the destination is allocated if ``dst`` is not given; the copy then returns it. Where ``src`` is
    not given either, nothing is copied."""
    pinned: str | None = None
    """A parameter that, when true, asks for pinned memory, if ``device`` names the host. Without ``device``
    the copy stays where the source is."""
    placed: bool = False
    """What it makes is on the host where ``device`` names that: ``wp.array(rows, device="cpu")``."""
    from_host: bool = False
    """What it reads is on the host, or not copied at all: PyCUDA's ``memcpy_htod_async`` takes a buffer of
    Python's, and ``numba.cuda.to_device(x)`` gives an ``x`` back that is on a device."""
    view_on_host: bool = False
    """What is on the host already is not copied (``wp.array.numpy()``)."""
    values: bool = False
    """It gives numbers: what is on the host already is read there (``wp.array.list()``)."""
    aliases: str | None = None
    """A parameter that, when given, is an address: the result is what lies there (``wp.array(ptr=rows)``)."""
    returns: str | None = None


@frozen()
class Uses:
    """Device work on ``stream`` (``None`` and ``"default"`` as in ``Copies``) on the named parameters."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    stream: str | None = None
    count: str = "count"
    """How many bytes, where only a part of an allocation is written."""
    packed: tuple[str, ...] = ()
    """Parameters that hold kernel arguments: whatever buffers are in them are read and written,
    unless the parameters ``code`` and ``name`` (or those that ``kernel`` keeps) show C++ source
    that says which are only read."""
    kernel: str = "kernel"
    code: str = "code"
    bound: bool = False
    """It also uses what the receiver was bound to."""
    own_memory: bool = False
    """The receiver has memory of its own, which each call writes and no code sees."""
    host_waits: bool = False
    """The host waits for it where the memory is pinned or managed (``cudaMemset``)."""
    on_device: bool = False
    """All memory that it takes is a device's."""
    grouped: bool = False
    """Between ``GroupStarts`` and ``GroupEnds`` it is put off."""


@frozen()
class HostUses:
    """The host itself touches the named parameters before the call returns."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@frozen()
class Computes:
    """Device work on ``stream`` that reads parameters, and writes ``out``, or what it makes; gives that."""

    reads: tuple[str, ...]
    out: str
    stream: str
    like: str = ""
    """A parameter that is not read, of whose library the result is, and the stream where none is given."""
    also: tuple[str, ...] = ()
    """Further parameters that are written like ``out``; the call then gives a tuple, ``out`` first."""
    owner: str = ""
    """A parameter that keeps the stream: the host waits where it is not given."""


@frozen()
class Launches:
    """A kernel written in Python, with its arguments in the lists ``args``; its body shows what it does."""

    kernel: str
    args: tuple[str, ...]
    stream: str = "stream"
    kept_with: str = ""
    """A parameter with which the call launches nothing, and gives what ``makes`` says instead ..."""
    makes: Makes | None = None
    """... an object whose method launches it."""


WorkEffect: TypeAlias = Copies | Uses | HostUses | Computes | Launches
