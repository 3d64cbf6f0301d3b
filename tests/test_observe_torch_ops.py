"""What schemas say about operators; with PyTorch at hand also about its own."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from streamlint.confirm.observe.torch_ops import Special, operator_of
from streamlint.trace import Mode


@dataclass
class Alias:
    is_write: bool


@dataclass
class Argument:
    name: str
    type: str = "Tensor"
    alias_info: Alias | None = None
    kwarg_only: bool = False
    is_out: bool = False


@dataclass
class Schema:
    name: str
    arguments: list[Argument]
    returns: list[Argument] = field(default_factory=lambda: [Argument("")])


def test_inputs_are_read_and_results_written() -> None:
    operator = operator_of(
        Schema("aten::add", [Argument("self"), Argument("other"), Argument("alpha", "number")])
    )
    assert operator is not None
    assert operator.positional == ((0, Mode.READ), (1, Mode.READ))
    assert operator.fills_result


def test_in_place_operators_update_or_overwrite() -> None:
    written = Argument("self", alias_info=Alias(is_write=True))
    result = [Argument("", alias_info=Alias(is_write=True))]
    modes = {}
    for name in ("aten::add_", "aten::fill_"):
        operator = operator_of(Schema(name, [written], result))
        assert operator is not None
        assert not operator.fills_result
        modes[name] = operator.positional
    assert modes == {"aten::add_": ((0, Mode.UPDATE),), "aten::fill_": ((0, Mode.WRITE),)}


@pytest.mark.parametrize(
    ("name", "arguments", "modes"),
    [
        ("allreduce_", ["tensors"], [Mode.UPDATE]),
        ("_allgather_base_", ["output_tensor", "input_tensor"], [Mode.WRITE, Mode.READ]),
        ("send", ["tensors"], [Mode.READ]),
        ("recv_", ["tensors"], [Mode.UPDATE]),
    ],
)
def test_collectives_say_by_names_what_they_do(name: str, arguments: list[str], modes: list[Mode]) -> None:
    given = [Argument(argument, "Tensor[]") for argument in arguments]
    flag = Argument("async_op", "bool")
    operator = operator_of(Schema(f"c10d::{name}", [*given, Argument("process_group", "Any"), flag]))
    assert operator is not None
    assert operator.special is Special.COLLECTIVE
    assert [mode for _, mode in operator.positional] == modes
    assert operator.flag == len(arguments) + 1


def test_out_is_overwritten() -> None:
    out = Argument("out", alias_info=Alias(is_write=True), kwarg_only=True, is_out=True)
    operator = operator_of(Schema("aten::add", [Argument("self"), out], [out]))
    assert operator is not None
    assert operator.positional == ((0, Mode.READ),)
    assert operator.keywords == (("self", Mode.READ), ("out", Mode.WRITE))


def test_a_view_touches_nothing() -> None:
    alias = Alias(is_write=False)
    view = Schema("aten::view", [Argument("self", alias_info=alias)], [Argument("", alias_info=alias)])
    assert operator_of(view) is None
    assert operator_of(Schema("aten::_unsafe_view", [Argument("self")])) is None


def test_factories_read_shapes_only() -> None:
    filled = operator_of(Schema("aten::ones_like", [Argument("self")]))
    empty = operator_of(Schema("aten::empty_like", [Argument("self")]))
    assert filled is not None
    assert empty is not None
    assert (filled.positional, filled.fills_result) == ((), True)
    assert (empty.positional, empty.fills_result) == ((), False)


def test_the_schemas_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    aten = torch.ops.aten
    copy = operator_of(aten.copy_.default._schema)
    assert copy is not None
    assert (copy.special, copy.positional) == (Special.COPY, ((0, Mode.WRITE), (1, Mode.READ)))
    item = operator_of(aten._local_scalar_dense.default._schema)
    assert item is not None
    assert item.special is Special.ITEM
    foreach = operator_of(aten._foreach_add_.List._schema)
    assert foreach is not None
    assert foreach.positional == ((0, Mode.UPDATE), (1, Mode.READ))
    assert operator_of(aten.t.default._schema) is None
    assert operator_of(aten.split.Tensor._schema) is None
