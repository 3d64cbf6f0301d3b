"""What engines of inference tell of their tensors: some are inputs, and some are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import questions, symbols
from streamlint.models.tensorrt import TELLS_DIRECTION

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def direction(key: Symbol) -> Symbol | None:
    """What tells whether a tensor of an engine is an input: ``engine.get_tensor_mode(name)``."""
    asked = key.left if isinstance(key, symbols.Compare) and key.op == "==" else key
    is_call = isinstance(asked, symbols.Call) and symbols.last_called(asked) in TELLS_DIRECTION
    return asked if is_call else None


def goes_other_way(m: Machine, key: Symbol, asked: Symbol) -> bool:
    """Whether an engine's tensor goes another way than one that was asked the same: some are not inputs.

    ``for i in range(engine.num_bindings): (inputs if engine.binding_is_input(i) else outputs).append(...)``
    """
    if key is not asked:
        told = [answer for other, answer in m.oracle.memo.items() if direction(other) is asked]
        if told:
            # if mode == trt.TensorIOMode.INPUT: ..., and then: elif mode == trt.TensorIOMode.OUTPUT
            return 0 in told
    alike = questions.of_any(key)
    return any(answer == 0 and questions.of_any(other) is alike for other, answer in m.oracle.memo.items())
