"""What a copy means to the host, by where its ends are (measured: docs/semantics.md)."""

from __future__ import annotations

from streamlint.trace import HostEffect, Space


def host_effect(to: Space, of: Space, *, blocking: bool) -> HostEffect:
    """What a copy on a stream means to the host, by where its ends are."""
    if blocking and (to.on_host or of.on_host):
        return HostEffect.BLOCKS
    if to is Space.PAGEABLE:
        return HostEffect.BLOCKS if of.on_host else HostEffect.BLOCKS_OBSERVED
    if of is Space.PAGEABLE:
        return HostEffect.STAGED
    if blocking and Space.UNKNOWN in (to, of):
        return HostEffect.BLOCKS_OBSERVED
    return HostEffect.ASYNC


def explicit_effect(to: Space, of: Space, *, blocking: bool) -> HostEffect:
    """The same for a call that names its ends and its stream, such as ``cudaMemcpyAsync``."""
    effect = host_effect(to, of, blocking=blocking)
    if blocking and of is Space.PAGEABLE and to is Space.DEVICE:
        # cudaMemcpy from pageable memory returns once the source is staged: other streams may see old data.
        return HostEffect.STAGED
    if blocking and not to.on_host and not of.on_host and Space.UNKNOWN not in (to, of):
        return HostEffect.ASYNC
    return effect


ENDS = {
    ("DeviceToHost", "DtoH", "copy_to_host"): (Space.UNKNOWN, Space.DEVICE),
    ("HostToDevice", "HtoD"): (Space.DEVICE, Space.UNKNOWN),
    ("DeviceToDevice", "DtoD"): (Space.DEVICE, Space.DEVICE),
}
"""How names of copies, and of their kinds, end, and where the target and the source are then."""
