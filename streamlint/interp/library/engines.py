"""What engines of inference tell of their tensors: some are inputs, and some are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import questions, symbols
from streamlint.models.tensorrt import DIRECTIONS, TELLS_DIRECTION

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def direction(key: Symbol) -> Symbol | None:
    """What tells whether a tensor of an engine is an input: ``engine.get_tensor_mode(name)``."""
    asked = key.left if isinstance(key, symbols.Compare) and key.op == "==" else key
    is_call = isinstance(asked, symbols.Call) and symbols.last_called(asked) in TELLS_DIRECTION
    return asked if is_call else None


def is_other_way(m: Machine, key: Symbol) -> bool:
    """Whether a tensor goes this way since it does not go the other one, as the path has found.

    ``if mode == trt.TensorIOMode.INPUT: ...``, and then ``elif mode == trt.TensorIOMode.OUTPUT: ...``.
    """
    asked = direction(key)
    if asked is None or asked is key or (way := _way(key)) not in DIRECTIONS:
        return False
    told = (other for other, answer in m.oracle.memo.items() if answer and direction(other) is asked)
    return not DIRECTIONS.isdisjoint({_way(other) for other in told} - {way})


def _way(key: Symbol) -> str:
    """``INPUT`` of ``mode == trt.TensorIOMode.INPUT``."""
    right = key.right if isinstance(key, symbols.Compare) else key
    return symbols.last_name(right)


def goes_other_way(m: Machine, key: Symbol) -> bool:
    """Whether an engine's tensor goes another way than one that was asked the same: some are not inputs.

    ``for i in range(engine.num_bindings): (inputs if engine.binding_is_input(i) else outputs).append(...)``
    """
    alike = questions.of_any(key)
    return any(answer == 0 and questions.of_any(other) is alike for other, answer in m.oracle.memo.items())
