"""Python itself, told by its own classes where they can tell: no name here is that of a library.

What the host does with memory through NumPy, ctypes and builtins is in ``host``.
"""

from __future__ import annotations

import abc
import collections
import collections.abc
import contextlib
import functools
import numbers
import queue
from collections.abc import Callable, Mapping, MutableMapping
from types import NoneType

_PLAIN_CLASSES = (bool, int, float, complex, str, bytes)
_CLASSES = (
    *(list, collections.deque, tuple, dict, collections.OrderedDict, collections.defaultdict, set, frozenset),
    *(*_PLAIN_CLASSES, NoneType),
)
_ABSTRACT = tuple(
    one for module in (collections.abc, numbers) for one in vars(module).values() if isinstance(one, type)
)

PLAIN_CLASSES = frozenset(cls.__name__ for cls in _PLAIN_CLASSES)
"""Classes of numbers and texts."""

BASES = {
    cls.__name__: frozenset(one.__name__ for one in (*_ABSTRACT, *cls.__mro__) if issubclass(cls, one))
    for cls in _CLASSES
}
"""Python's own classes, with those that their objects are instances of."""

CLASS_MODULES = ("collections.", "typing.", "types.", "numbers.", "builtins.", "typing_extensions.")
"""Where these classes are named."""

CONVERSIONS: dict[str, Callable[..., object]] = {
    one.__name__: one for one in (*_PLAIN_CLASSES, repr, ord, chr, abs, round, len, hex, bin)
}
"""Builtins whose result depends on the value that they are given, and on nothing else."""

GIVES_NUMBER = frozenset(
    one.__name__ for one in (int, float, bool, str, len, range, round, abs, ord, hash, repr, id)
)
"""``int(rate * seconds)`` is a number or a text, whatever it was computed from; it is never ``None``."""

GIVES_WHOLE = frozenset({"len", "round", "math.ceil", "math.floor"})
"""What gives a whole number ..."""
GIVES_ONE_OF = frozenset({"min", "max"})
"""... and what gives one of those that it is given."""

TEXT_METHODS = frozenset(
    name for cls in (str, bytes) for name in dir(cls) if not name.startswith("_")
) - frozenset(("center", "ljust", "rjust", "zfill", "expandtabs"))
"""Methods of texts whose result depends on nothing else, and is hardly larger: those take any width."""

HOLDS = {
    **dict.fromkeys(("tuple", "Tuple", "Union"), True),
    **dict.fromkeys("list dict set frozenset deque List Dict Set FrozenSet Deque".split(), False),
    **dict.fromkeys(("Sequence", "Iterable", "Mapping"), False),
}
"""Annotations that say what something holds: each place by itself, or, of others, all keys and all values."""

PLAIN_TYPES = PLAIN_CLASSES | {"slice", "range", "Callable", "Path", "Generator"}
"""Annotations of what is no memory, and holds none."""

NAMESPACES = frozenset({"types.SimpleNamespace", "argparse.Namespace"})
"""Classes of objects that have the attributes that they are given, and no others."""

PLAIN_BASES = frozenset("object ABC Generic Protocol NamedTuple TypedDict Enum Exception Thread".split())
"""Bases that call back into a class in no order of their own."""

MAKES_OBJECTS = frozenset({"__new__", "__init__", "__post_init__"})
"""Methods that run where an object is made. A class with no others only holds its fields."""

MAPPINGS = frozenset((Mapping.__name__, MutableMapping.__name__))
OF_MAPPINGS = frozenset(name for name in dir(Mapping) if not name.startswith("_"))
"""What ``collections.abc`` gives to a class that says how to walk and to ask it."""
WALKS_MAPPINGS = frozenset(one.__name__ for one in (Mapping.keys, Mapping.values, Mapping.items))
"""How all of a mapping is walked."""

RECORDS = frozenset({"NamedTuple", "TypedDict"})
"""Bases of ``typing`` that call back into no method."""

OF_NAMED_TUPLES = frozenset({"_replace", "_asdict"})
"""Methods of named tuples that give their fields by name."""

HAVE_EVENTS = frozenset({"threading", "multiprocessing", "asyncio"})
"""Packages that have an ``Event`` of their own."""

DISPATCHES = frozenset(one.__name__ for one in (functools.singledispatch, functools.singledispatchmethod))
CACHES = frozenset(one.__name__ for one in (functools.cache, functools.lru_cache, functools.cached_property))
"""Decorators by which a function gives the same each time."""
PROPERTIES = frozenset(one.__name__ for one in (property, functools.cached_property, abc.abstractproperty))
"""Decorators by which to read a method is to call it."""
ABSTRACT = frozenset(one.__name__ for one in (abc.abstractmethod,))
MAKES_CONTEXTS = frozenset(
    one.__name__ for one in (contextlib.contextmanager, contextlib.asynccontextmanager)
)

NULL_CONTEXTS = frozenset(one.__name__ for one in (contextlib.nullcontext, contextlib.suppress))

EXIT_STACKS = frozenset(one.__name__ for one in (contextlib.ExitStack, contextlib.AsyncExitStack))
COMPUTING = ("itertools.", "operator.", "collections.", "queue.", "copy.", "math.")
"""Modules whose functions are as builtins are: they compute of what they are given."""
TOLD_TO_OTHERS = ("time.", "logging.")
"""Modules whose functions give nothing that matters."""

RUNS_ELSEWHERE = frozenset({"remote", "delay", "apply"})
"""Methods that the decorators of Ray, Dask and Celery give to a function, and that run it.

https://docs.ray.io/en/latest/ray-core/tasks.html, https://docs.dask.org/en/stable/delayed.html,
https://docs.celeryq.dev/en/stable/userguide/calling.html
"""

PROCESSES = frozenset({"multiprocessing.Process"})
CALLED_AGAIN = "called again"
"""What ``iter(function, end)`` is: each step calls the function."""

THREADS = PROCESSES | {"threading.Thread"}
MAKES_FUTURE = frozenset({"create_future", "Future"})
"""What ``await`` waits for until somebody resolves it: https://docs.python.org/3/library/asyncio-future.html"""

EXECUTORS = frozenset(f"concurrent.futures.{one}ThreadPoolExecutor" for one in ("", "thread."))
POOLS = frozenset({"multiprocessing.pool.ThreadPool", "multiprocessing.dummy.Pool"})
"""Threads behind the interface of a pool of processes: https://docs.python.org/3/library/multiprocessing.html"""
STARTS = "start"
THREAD_METHODS = frozenset({STARTS, "join", "is_alive"})
JOINS = frozenset({"join", "result", "get", "exception"})
"""Methods of threads, futures and results of a pool that wait until the function has returned."""
ASKS_TABLE = "get"
"""The one of them that dicts have, too."""
WAITS_FOR_RESULT = "wait"
"""What a result of ``pool.apply_async()`` has besides."""
HAS_ENDED = {"done": True, "ready": True, "is_alive": False}
"""Methods that ask whether a thread has ended, and what they answer if it has."""
SHUTS_DOWN = "shutdown"
OF_EXECUTORS = frozenset({"submit", "map", SHUTS_DOWN})
"""https://docs.python.org/3/library/concurrent.futures.html#executor-objects"""
AS_COMPLETED = "concurrent.futures.as_completed"
WAIT_FOR_FUTURES = "concurrent.futures.wait"
"""https://docs.python.org/3/library/concurrent.futures.html#module-functions"""
MAPS_OF_POOLS = {"map": False, "imap": False, "imap_unordered": False, "starmap": True}
"""Methods of pools that call a function for each element, and whether that is all its arguments."""
ENDS_POOL = frozenset({"close", "terminate"})
OF_POOLS = MAPS_OF_POOLS.keys() | ENDS_POOL | {"apply", "apply_async", "join"}
OF_EVENT_LOOPS = frozenset({"run_in_executor", "create_task"})
"""Methods of the event loops of asyncio that run something."""
GIVES_RESULT = frozenset({"create_task", "ensure_future", "wait_for", "shield", "run", "run_until_complete"})
"""Calls of asyncio that give what the coroutine gives. A coroutine is run where it is made."""

PUBLIC_SPECIALS = frozenset(
    {"__call__", "__next__", "__iter__", "__getitem__", "__enter__", "__exit__", "__len__"}
)
"""Special methods by which code outside of a class uses its objects, and not only Python itself."""

TELLS_SIZE = ("__len__",)
TELLS_TRUTH = ("__bool__", *TELLS_SIZE)
"""Special methods that say how much is in an object, and whether it is true: the first that its class has."""
GIVES_STEPS = ("__await__",)
"""What gives the steps of an object that is waited for: ``await ticket``."""
BEGINS_BLOCK = ("__enter__", "__aenter__")
"""What a ``with`` statement calls first."""

TAKES_ONE = frozenset({"pop", "popleft"})
"""Methods of lists and deques that take an element out."""
TAKES_KEY = frozenset({"get", "pop", "setdefault", "__getitem__"})
"""Methods of containers whose first argument is the key of an element."""

GIVES_KEY = frozenset(one.__name__ for one in (int, str, tuple, frozenset, repr))
"""What gives the same key for the same, as in ``self.slots[int(layer)]``."""

CONTAINERS = frozenset(
    one.__name__
    for one in (
        *(list, tuple, set, frozenset, dict, collections.OrderedDict, collections.defaultdict),
        *(sorted, reversed, iter, queue.Queue, queue.SimpleQueue, queue.LifoQueue, queue.PriorityQueue),
    )
)
"""What makes a container, or walks one, of the elements of what it is given."""
TOUCHES_NOTHING = frozenset(
    one.__name__
    for one in (
        type,
        callable,
        issubclass,
        dir,
        globals,
        locals,
        input,
        open,
        ord,
        chr,
        slice,
        object,
        property,
    )
)
"""Builtins that look at no value in memory, and whose result tells nothing."""

READS_VARIABLES = frozenset(one.__name__ for one in (locals, vars, eval, exec))
"""Builtins that read variables of the function that calls them, without naming them."""

CONTAINER_METHODS = frozenset(
    name
    for cls in (list, collections.deque, dict, collections.OrderedDict, set, queue.Queue)
    for name in dir(cls)
    if not name.startswith("_")
) - {"join"}
"""Methods by which containers and queues take things, and give them. Who joins a queue waits."""
HANDLES_VALUES = frozenset(
    one.__name__
    for one in (
        *(list, tuple, set, frozenset, dict, zip, enumerate, iter, next, reversed),
        *(len, isinstance, bool, id, hash, type, print, repr, str),
    )
)
"""Builtins that give what they are given, or ask what it is, and call none of its methods."""
