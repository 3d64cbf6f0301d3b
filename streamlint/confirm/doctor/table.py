"""All axioms, in the order in which they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamlint.confirm.doctor.copies import CALLS, COPIES
from streamlint.confirm.doctor.devices import DEVICES
from streamlint.confirm.doctor.graphs import GRAPHS
from streamlint.confirm.doctor.handoffs import NUMBA_HANDOFFS, TORCH_HANDOFFS
from streamlint.confirm.doctor.libraries import CORE, CUPY, NUMBA
from streamlint.confirm.doctor.ordering import EVENTS, HOST, STREAMS
from streamlint.confirm.doctor.pytorch import TORCH, TORCH_POOL
from streamlint.confirm.doctor.refused import CALLBACKS, CAPTURES
from streamlint.confirm.doctor.runtime import RUNTIME_CALLBACKS, RUNTIME_CALLS, RUNTIME_COPIES

if TYPE_CHECKING:
    from streamlint.confirm.doctor.axiom import Group

GROUPS: Final[tuple[Group, ...]] = (
    *(STREAMS, TORCH_POOL),
    EVENTS,
    HOST,
    *(COPIES, RUNTIME_COPIES),
    *(CALLS, RUNTIME_CALLS),
    *(CALLBACKS, RUNTIME_CALLBACKS),
    CAPTURES,
    GRAPHS,
    *(TORCH, CUPY, NUMBA, CORE),
    *(TORCH_HANDOFFS, NUMBA_HANDOFFS),
    DEVICES,
)
