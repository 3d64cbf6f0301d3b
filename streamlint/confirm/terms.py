"""What the processes of a run and their verdict both speak of.

Each process of a program under test imports it, so it is small: the verdict itself is made elsewhere.
"""

from __future__ import annotations

import signal
import sys
from enum import Enum
from typing import Final

from streamlint.frozen import frozen

if sys.version_info >= (3, 11):
    from typing import assert_never as assert_never  # noqa: PLC0414 for other modules too
else:  # not typing_extensions: the program under test may run where only its own packages are
    from typing import NoReturn

    def assert_never(value: NoReturn) -> NoReturn:
        raise AssertionError(value)


CRASHES: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
"""Signals that end a process which has gone wrong by itself."""

RESULT: Final = "result of call "
"""How the places of numbers begin that calls returned. Some are times, which no two runs have in common."""

GONE: Final = "(gone)"
"""In place of the contents of an array that nothing holds any more: when that is, the collector decides."""


@frozen()
class CudaError:
    """A CUDA call that failed; ``line`` is that of the call in the user's file, 0 if it is not known."""

    name: str
    code: int
    """A ``cudaError_t``; 0 where the library gives only a text."""
    line: int
    in_callback: bool = False


class Cause(Enum):
    """Why a run has no result."""

    UNABLE = "unable"
    """Something is missing."""
    CRASH = "crash"
    """A signal ended the process."""
    TIMEOUT = "timeout"
    ELSEWHERE = "elsewhere"
    """It took too long, but not where the finding is: in a probe, for one."""
