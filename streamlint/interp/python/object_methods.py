"""Methods of objects that the path has made: of the program's classes, containers, threads and monitors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import classes
from streamlint.interp.library import monitors, threads, torch_modules, unresolved
from streamlint.interp.python import container_methods, fields, listed_modules, mappings, unknown_receivers
from streamlint.interp.state import symbols
from streamlint.interp.state.values import Shape, SymV
from streamlint.models import torch

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import HeapV, Value
    from streamlint.source import Span


def method(
    m: Machine, receiver: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    held = m.heap[receiver.id]
    if receiver.id in m.monitors:
        waited = monitors.method(m, receiver, name, args, kwargs, span)
        if held.role == monitors.ROLE:
            return waited
    if held.shape is Shape.INSTANCE:
        return _of_instance(m, receiver, name, args, kwargs, span)
    return _of_container(m, receiver, name, args, kwargs, span)


def _of_container(
    m: Machine, receiver: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """A list, a dict, or a queue that threads wait for."""
    if receiver.id in m.monitors:
        threads.take(m, receiver, name, span)
    found = container_methods.method(m, receiver, name, args, kwargs, span)
    if receiver.id in m.monitors:
        threads.took(m, receiver, name, span)
        threads.wake(m, receiver, name, span)
    found = found or listed_modules.listed(m, receiver, name, args, span)
    found = found or torch_modules.of_object(m, receiver, name, args, kwargs, span)
    return found or unresolved.opaque(m, name, [receiver, *args], kwargs, span)


def _of_instance(
    m: Machine, receiver: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    if threads.is_thread(m, receiver):
        return threads.method(m, receiver, name, args, kwargs, span)
    method = classes.method(m, receiver, name)
    if method is not None:
        return m.python.call(m, method, args, kwargs, span)
    if threads.is_method(m, receiver, name):
        return threads.method(m, receiver, name, args, kwargs, span)
    found = (
        listed_modules.listed(m, receiver, name, args, span)
        or torch_modules.of_object(m, receiver, name, args, kwargs, span)
        or mappings.of_object(m, receiver, name, args, span)
        or fields.of_tuple(m, receiver, name, kwargs, span)
    )
    if found is not None:
        return found
    if name in torch.MODULE_TREE:
        # What is in it is not in sight.
        whole = SymV(m.symbol_of_object(receiver))
        return unknown_receivers.method(m, whole, name, args, kwargs, span)
    owner = symbols.Attr(m.symbol_of_object(receiver), name)
    return unresolved.opaque(m, owner, [receiver, *args], kwargs, span)
