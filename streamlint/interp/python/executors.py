"""Executors: ``pool.submit(f, x)``, ``pool.map(f, xs)`` and ``pool.shutdown()``; and ``await``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import threads
from streamlint.interp.python import alike, containers, objects
from streamlint.interp.state import elements, loop_steps, names, symbols
from streamlint.interp.state.values import NONE, TRUE, ApiV, GeneratorV, HeapV, SymV, TupleV, Value
from streamlint.models.python import (
    AS_COMPLETED,
    ENDS_POOL,
    GIVES_STEPS,
    MAPS_OF_POOLS,
    OF_EXECUTORS,
    OF_POOLS,
    WAIT_FOR_FUTURES,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span


def method(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """A method of what is an executor, or of what is given code to run; None for others."""
    pool = threads.pool_of(m, receiver)
    if pool is not None and m.pools[pool].as_of_processes:
        return _of_pool(m, pool, name, args, kwargs, span) if name in OF_POOLS else None
    if name not in OF_EXECUTORS:
        return None
    runs = bool(args) and threads.runs_code(m, names.settle(m, args[0]))
    if name == "submit" and runs:
        return threads.submit(m, args, kwargs, span, pool)
    if name == "map" and runs and pool is not None and len(args) > 1:
        return _mapped(m, pool, args[0], args[1:], span)
    if name == "shutdown" and pool is not None:
        if kwargs.get("wait", args[0] if args else TRUE) == TRUE:
            threads.shut_down(m, pool, span)
        return NONE
    return None


def of_module(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value | None:
    """``as_completed(futures)``, ``wait(futures)``; None for other functions, and where one ends the wait."""
    if path == AS_COMPLETED and args:
        return args[0]
    futures = elements.listed(m, args[0]) if path == WAIT_FOR_FUTURES and len(args) == 1 else None
    if not futures or "return_when" in kwargs:
        return None
    for future in futures:
        if isinstance(future, HeapV) and threads.is_thread(m, future):
            threads.joined(m, future, span, limited="timeout" in kwargs)
    return TupleV((m.new_list(futures), m.new_list(())))


def _of_pool(
    m: Machine, pool: Symbol, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """``pool.apply_async(f, (x,), {"stream": side})``, ``pool.starmap(f, pairs)``, ``pool.join()``."""
    if name == "join":
        threads.shut_down(m, pool, span)
        return NONE
    if not args or not threads.runs_code(m, names.settle(m, args[0])):
        return NONE if name in ENDS_POOL else None
    if name in MAPS_OF_POOLS:
        return _mapped(m, pool, args[0], args[1:2], span, spread=MAPS_OF_POOLS[name]) if args[1:] else None
    given = elements.listed(m, kwargs.get("args", args[1] if len(args) > 1 else TupleV(())))
    named = names.settle(m, kwargs.get("kwds", args[2] if len(args) > 2 else NONE))
    if given is None:
        return None
    future = threads.submit(m, [args[0], *given], threads.named(m, named), span, pool)
    return future if name == "apply_async" else threads.method(m, future, "get", [], {}, span)


def awaited(m: Machine, value: Value, span: Span) -> Value:
    """``await ticket``, of a class whose ``__await__`` goes on until an event has come too."""
    steps = objects.told_by_class(m, value, GIVES_STEPS, span)
    if isinstance(steps, GeneratorV):
        return m.python.run_generator(m, steps, lambda _: NONE, span)
    return threads.awaited(m, value, span)


def _mapped(
    m: Machine, pool: Symbol, function: Value, sources: list[Value], span: Span, *, spread: bool = False
) -> HeapV:
    """``results = list(pool.map(step, batches))``: a thread for each; who has the results has waited for all.

    All are given to the pool before the first result is asked for. ``spread``: an element is all arguments.
    """
    born = alike.now(m)
    source = sources[0] if len(sources) == 1 else m.python.call(m, ApiV("zip"), sources, {}, span)
    items = elements.listed(m, source)
    futures: list[HeapV] = []
    with loop_steps.loop(m):
        for turn in range(loop_steps.UNKNOWN_LENGTH_TURNS if items is None else len(items)):
            if not loop_steps.may_go_on(m, turn, loop_steps.UNKNOWN_LENGTH_TURNS):
                break
            item = containers.nth(m, source, turn, span) if items is None else items[turn]
            given = [item] if len(sources) == 1 and not spread else elements.listed(m, item) or [item]
            futures.append(threads.submit(m, [function, *given], {}, span, pool))
    results = [threads.method(m, future, "result", [], {}, span) for future in futures]
    if items is not None and len(results) == len(items):
        return m.new_list(results)
    made = m.new_list(())
    held = m.heap[made.id]
    held.open, held.sample, held.born = True, results[0], born
    held.extra.update((symbols.constant(turn), result) for turn, result in enumerate(results))
    return made
