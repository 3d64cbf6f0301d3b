"""Every driver call of every library of a process, before and after it is made: CUPTI's callback interface.

Through ctypes: whatever runs in the user's environment must get by with what is installed there. The
library comes with PyTorch, CuPy's and the toolkit's packages. It has one subscriber a process, so a
profiler or debugger that is attached already leaves none for us.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamlint.frozen import frozen

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Container, Iterator

_SUCCESS: Final = 0
_DRIVER_CALLS: Final = 1
_ENTER: Final = 0
_MOST_IDS: Final = 2000
_REFUSALS: Final = {
    15: "CUPTI does not get through to the CUDA driver, which may be too old for it",
    35: "this user may not see driver calls: the driver keeps that to administrators",
    39: "a profiler or debugger uses CUPTI in this process already",
}
"""What is said of the codes that users meet; of others their name."""

OFF: Final = "STREAMLINT_CONFIRM_CUPTI"
"""Set to 0, this environment variable leaves CUPTI alone: another profiler may want it."""


class CuptiUnavailableError(Exception):
    """Driver calls cannot be seen in this process; the text says why, in a sentence."""


class _Data(ctypes.Structure):
    """``CUpti_CallbackData``."""

    _fields_ = (
        ("site", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("params", ctypes.c_void_p),
        ("result", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("context", ctypes.c_void_p),
        ("context_uid", ctypes.c_uint32),
        ("correlation_data", ctypes.c_void_p),
        ("correlation", ctypes.c_uint32),
    )


_Callback: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)


@frozen()
class Call:
    """A driver call that a thread of the process is about to make, or has made."""

    name: str
    entering: bool
    params: int
    """The address of its arguments, one after the other as in a C struct. What is written there is used."""
    result: int
    """The address of what it returns; meaningful after the call."""
    symbol: str = ""
    """The kernel, where it launches one."""
    correlation: int = 0
    """The number that the records of what it queues have."""

    def arguments(self, kind: type[ctypes.Structure]) -> Any:  # noqa: ANN401
        return kind.from_address(self.params)


class Cupti:
    """A subscription to the driver calls whose names ``wanted`` matches."""

    def __init__(
        self,
        wanted: re.Pattern[str],
        on_call: Callable[[Call], None],
        aside: Container[int] = (),
        always: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """``aside``: threads of which only the calls that are wanted ``always`` are told.

        :raises CuptiUnavailableError: there is no CUPTI, or somebody else uses it.
        """
        if os.environ.get(OFF) == "0":
            raise CuptiUnavailableError(f"{OFF}=0 asks for no driver callbacks")
        self._cupti = _load()
        self._on_call = on_call
        self._aside = aside
        self._is_always_wanted = always
        self._names: dict[int, str] = {}
        self._always: set[int] = set()
        self._busy: set[int] = set()
        self._callback = _Callback(self._filter())
        self._subscriber = ctypes.c_void_p()
        subscribe = self._cupti.cuptiSubscribe
        subscribe.argtypes = [ctypes.c_void_p, _Callback, ctypes.c_void_p]
        self._check(subscribe(ctypes.byref(self._subscriber), self._callback, None))
        try:
            self._enable(wanted)
        except CuptiUnavailableError:
            self.close()  # else calls would be told to what is gone
            raise

    @property
    def library(self) -> Any:  # noqa: ANN401
        return self._cupti

    def close(self) -> None:
        """No callback may run while the interpreter ends."""
        self._cupti.cuptiUnsubscribe(self._subscriber)

    def _enable(self, wanted: re.Pattern[str]) -> None:
        name = ctypes.c_char_p()
        for number in range(1, _MOST_IDS):
            if self._cupti.cuptiGetCallbackName(_DRIVER_CALLS, number, ctypes.byref(name)) != _SUCCESS:
                continue
            text = (name.value or b"").decode()
            if wanted.match(text):
                self._names[number] = text
                if self._is_always_wanted(text):
                    self._always.add(number)
                self._check(self._cupti.cuptiEnableCallback(1, self._subscriber, _DRIVER_CALLS, number))

    def _filter(self) -> Callable[[object, int, int, int], None]:
        """What CUPTI calls. Most calls of a training loop end in it, so all that it looks at is at hand."""
        aside, always, busy, called = self._aside, self._always, self._busy, self._called
        get_ident = threading.get_ident

        def callback(_user: object, _domain: int, number: int, data: int) -> None:
            thread = get_ident()
            # What we ask the driver in a callback is not the program's.
            if (thread in aside and number not in always) or thread in busy:
                return
            called(thread, number, data)

        return callback

    def _called(self, thread: int, number: int, data: int) -> None:
        self._busy.add(thread)
        try:
            seen = _Data.from_address(data)
            entering = seen.site == _ENTER
            symbol = (seen.symbol or b"").decode(errors="replace")
            name, number_of_call = self._names[number], seen.correlation
            self._on_call(Call(name, entering, seen.params, seen.result, symbol, number_of_call))
        finally:
            self._busy.discard(thread)

    def _check(self, code: int) -> None:
        if code == _SUCCESS:
            return
        if code in _REFUSALS:
            raise CuptiUnavailableError(_REFUSALS[code])
        text = ctypes.c_char_p()
        self._cupti.cuptiGetResultString(code, ctypes.byref(text))
        raise CuptiUnavailableError(f"CUPTI refuses: {(text.value or b'unknown error').decode()}")


def _load() -> Any:  # noqa: ANN401
    for name in dict.fromkeys(_candidates()):
        with suppress(OSError, AttributeError):
            library: Any = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            library.cuptiSubscribe  # noqa: B018 an old or foreign library lacks it
            return library
    raise CuptiUnavailableError("no CUPTI library (libcupti.so) is installed")


def _candidates() -> Iterator[str]:
    """The one in use, then that which the libraries of this environment would load, then the toolkit's."""
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text("utf-8").splitlines():
            if "libcupti.so" in line:
                yield line.split(maxsplit=5)[-1]
    folders = [Path(entry) / "nvidia" for entry in sys.path]
    patterns = ("cu*/lib/libcupti.so*", "cuda_cupti/lib/libcupti.so*")
    for folder in folders:
        yield from sorted((str(p) for pattern in patterns for p in folder.glob(pattern)), reverse=True)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if variable in os.environ:
            home = Path(os.environ[variable])
            yield from sorted(str(p) for p in home.glob("extras/CUPTI/lib64/libcupti.so*"))
    yield from ("libcupti.so", "libcupti.so.13", "libcupti.so.12")
    yield from sorted(str(p) for p in Path("/usr/local").glob("cuda*/extras/CUPTI/lib64/libcupti.so*"))
