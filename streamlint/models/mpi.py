"""mpi4py: messages from and to GPU memory, which MPI reads and writes without heeding any stream.

GPU-aware MPI takes the addresses of arrays; the tutorial asks for a synchronization before each call. A
blocking call has read, or written, its buffers when it returns; others give a request to wait for.
"""

from __future__ import annotations

from streamlint.frozen import replace
from streamlint.models.schema import Api, Background, Effect, Framework, HostWaitsEvent, Lib, Queries

_SENDS = Background(reads=("buf",), only_gpu=True)
_RECEIVES = Background(writes=("buf",), only_gpu=True)
_BOTH = Background(reads=("sendbuf",), writes=("recvbuf",), only_gpu=True)
_ROOTED = Background(writes=("buf",), reads=("buf",), only_gpu=True)

_CALLS: tuple[tuple[str, str, Background], ...] = (
    ("send", "buf dest tag", _SENDS),
    ("bsend", "buf dest tag", _SENDS),
    ("ssend", "buf dest tag", _SENDS),
    ("rsend", "buf dest tag", _SENDS),
    ("recv", "buf source tag status", _RECEIVES),
    ("bcast", "buf root", _ROOTED),
    ("reduce", "sendbuf recvbuf op root", _BOTH),
    ("allreduce", "sendbuf recvbuf op", _BOTH),
    ("gather", "sendbuf recvbuf root", _BOTH),
    ("gatherv", "sendbuf recvbuf root", _BOTH),
    ("scatter", "sendbuf recvbuf root", _BOTH),
    ("scatterv", "sendbuf recvbuf root", _BOTH),
    ("allgather", "sendbuf recvbuf", _BOTH),
    ("allgatherv", "sendbuf recvbuf", _BOTH),
    ("alltoall", "sendbuf recvbuf", _BOTH),
    ("alltoallv", "sendbuf recvbuf", _BOTH),
    ("alltoallw", "sendbuf recvbuf", _BOTH),
    ("neighbor_allgather", "sendbuf recvbuf", _BOTH),
    ("neighbor_allgatherv", "sendbuf recvbuf", _BOTH),
    ("neighbor_alltoall", "sendbuf recvbuf", _BOTH),
    ("neighbor_alltoallv", "sendbuf recvbuf", _BOTH),
    ("neighbor_alltoallw", "sendbuf recvbuf", _BOTH),
    ("reduce_scatter", "sendbuf recvbuf recvcounts op", _BOTH),
    ("reduce_scatter_block", "sendbuf recvbuf op", _BOTH),
    ("scan", "sendbuf recvbuf op", _BOTH),
    ("exscan", "sendbuf recvbuf op", _BOTH),
)
_EXCHANGES = ("Sendrecv", "sendbuf dest sendtag recvbuf source recvtag status")
_REPLACES = ("Sendrecv_replace", "buf dest sendtag source recvtag status")
"""What is sent is read before what is received is written."""


def _calls() -> tuple[tuple[str, str, tuple[Effect, ...]], ...]:
    """``Send`` returns when its buffer may be used again; ``Isend`` returns a request."""
    blocking = [(name.capitalize(), params, replace(effect, waits=True)) for name, params, effect in _CALLS]
    requests = [(f"I{name}", params.removesuffix(" status"), effect) for name, params, effect in _CALLS]
    exchange = (*_EXCHANGES, replace(_BOTH, waits=True))
    in_place = (*_REPLACES, replace(_ROOTED, waits=True))
    return tuple(
        (name, params, (effect,)) for name, params, effect in (*blocking, exchange, in_place, *requests)
    )


MPI = Framework(
    lib=Lib.MPI,
    url="https://mpi4py.readthedocs.io/en/stable/tutorial.html#gpu-aware-mpi-python-gpu-arrays",
    modules=("mpi4py.MPI",),
    functions=(
        *(
            Api(f"{comm}.{name}", params, effects)
            for comm in ("COMM_WORLD", "COMM_SELF")
            for name, params, effects in _calls()
        ),
        Api("Request.Wait", "self status", (HostWaitsEvent("self"),)),
        Api("Request.Waitall", "requests statuses", (HostWaitsEvent("requests"),)),
    ),
    event_methods=(
        Api("Wait", "status", (HostWaitsEvent(),), telling=()),
        Api("wait", "status", (HostWaitsEvent(),)),
        Api("Test", "status", (Queries(),), telling=()),
        Api("Waitall", "requests statuses", (HostWaitsEvent("requests"),)),
    ),
    told_with=("mpi4py",),
    object_methods=tuple(Api(name, params, effects, telling=()) for name, params, effects in _calls()),
)
