"""Memory of a device that several processes use, and how one of them tells another that something is there.

Streams and events order the work of one process. Another one that has opened the memory reads it when it is
told to, by a message, unless it is given an event to wait for
(https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/inter-process-communication.html).
"""

from __future__ import annotations

from streamlint.frozen import frozen

MESSAGES = frozenset(
    "send send_bytes sendall sendto sendmsg send_pyobj send_json send_string send_multipart "
    "send_serialized put put_nowait".split()
)
"""Methods of sockets, of connections and queues of ``multiprocessing``, and of sockets of ZeroMQ, by which a
message leaves the process."""


@frozen()
class Shares:
    """Returns what another process needs to open memory, or to wait for an event."""

    what: str


@frozen()
class OpensShared:
    """Returns memory that another process has made."""
