"""What the name of a member says of the value that has it: only memory is summed, a shape is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.models import host
from streamlint.models import torch as model

if TYPE_CHECKING:
    from collections.abc import Container

TENSOR_METHODS = (
    model.VIEW_METHODS
    | model.HOST_READ_METHODS
    | model.DRAINING_METHODS
    | model.NEW_METHODS
    | model.META_METHODS
    | frozenset(
        "to cpu cuda copy_ clone contiguous numpy float half bfloat16 double long int bool type_as "
        "sum mean norm add_ sub_ mul_ div_ zero_ fill_ matmul mm bmm backward amax amin argmax "
        "argmin max min softmax log_softmax index_select gather scatter_ scatter_add_ index_copy_ "
        "index_fill_ index_put_ index_add_ masked_fill masked_fill_ pin_memory record_stream cumsum "
        "sigmoid relu tanh exp log sqrt pow abs clamp clamp_ addmm add mul sub div repeat_interleave "
        "topk resize_ resize_as_ normal_ uniform_ copy".split()
    )
) - frozenset(
    "split values indices index set_ type int long float bool copy storage t storage_offset size".split()
)


def is_tensor_method(name: str) -> bool:
    """Whether a method name shows that its receiver is a tensor."""
    return name in TENSOR_METHODS or (
        name.endswith("_") and not name.startswith("_") and not name.endswith("__")
    )


def may_give_tensor(name: str) -> bool:
    """Whether tensors have a method of this name that gives one: ``x.float()``, as numbers have it."""
    return is_tensor_method(name) or name in _CONVERSIONS


_CONVERSIONS = frozenset("int long float bool".split())


def is_of_tensor(name: str) -> bool:
    """Whether tensors have a member of this name themselves."""
    return name.startswith("__") or name in _OF_TENSORS or is_tensor_method(name)


_OF_TENSORS = model.META_ATTRIBUTES | model.VIEW_ATTRIBUTES | model.META_METHODS | model.ONLY_TENSORS_HAVE


_OTHERS_HAVE = frozenset("to cpu cuda numpy add sub copy gather select backward".split())
"""Methods of tensors that modules, sets, databases and others have as well."""
_TELLING = (TENSOR_METHODS | model.ONLY_TENSORS_HAVE) - _OTHERS_HAVE


def shows_tensor(name: str, keywords: Container[str]) -> bool:
    """Whether only memory can have a method: ``x.mul(2)``, ``x.to(d, non_blocking=flag)``."""
    return "non_blocking" in keywords or name in _TELLING


_NUMBERS = model.META_ATTRIBUTES | host.ARRAY_META | frozenset({"config", "name", "value", "group", "key"})


def is_number(attribute: str) -> bool:
    """Whether an attribute is a number or a description of anything: ``group.rank``, ``x.shape``."""
    return (
        attribute in _NUMBERS
        or attribute.startswith(("__", "num_", "n_", "max_", "min_"))
        or attribute.endswith(
            ("rank", "size", "idx", "index", "count", "length", "numel", "_len", "_id", "offset", "name")
        )
    )


GIVES_ADDRESS = frozenset({"handle", "ptr"})
ADDRESSES = GIVES_ADDRESS | {"data_ptr"}
"""What is passed as a kernel argument under such a name is memory: ``buffer.handle``."""
OF_POINTERS = frozenset({"value", "ptr", "handle", "device_pointer"})
"""What an address gives again under such a name: ``c_void_p(address).value``."""
ADDRESS_ENDS = ("ptr", "handle", "address", "offset")
"""Ends of names of what are numbers: ``array.data.ptr + offset``."""

BY_ROWS = frozenset(
    "index_select gather scatter index_copy_ index_add_ index_fill_ scatter_ scatter_add_".split()
)
"""Methods whose second argument, ``index``, is a tensor that names rows."""
