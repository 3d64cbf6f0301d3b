"""The CUDA errors in what a program returns and raises, whichever library reports them."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING, Any, Final

from streamlint.confirm.terms import CudaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.confirm.gpu.driver import Driver

_STATUS_TYPES: Final = ("cudaError_t", "CUresult")

_TEXTS: Final = (1, 4, 400, 600, 700, 709, 716, 719, 800, 900, 901, 902, 903, 904, 905, 906, 907, 908)
"""Codes looked for by their text, where a library raises an error without a number."""


_REFUSALS: Final = {
    # PyTorch refuses a copy from pageable memory, CuPy one to the host, before CUDA can.
    "during CUDA graph capture": 900,
    "the current stream is capturing": 900,
    # Warp refuses to wait.
    "while graph capture is active": 900,
    # torch.cuda.Event.elapsed_time
    "created with argument 'enable_timing=True'": 400,
    # torch.cuda.Event.record. It writes the number of a device as a character: after device 0 the text ends.
    "Event device ": 400,
}
"""What libraries say where they refuse a call by themselves, and the error that CUDA would have given."""


def of_status(status: object, line: int, *, in_callback: bool) -> CudaError | None:
    """The error in what a call of cuda-python returned, if it is one."""
    if type(status).__name__ not in _STATUS_TYPES:
        return None
    code = int(status)  # type: ignore[call-overload]
    return CudaError(str(getattr(status, "name", status)), code, line, in_callback) if code else None


def of_exception(
    error: BaseException | None, path: str, driver: Driver, *, in_callback: bool
) -> Iterator[CudaError]:
    """The errors of an exception and of those that it came from.

    ``with torch.cuda.graph(g)`` raises at its end that the capture is invalid; what made it invalid
    is the context of that exception.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        code = _code(error, driver)
        if code is not None:
            text = str(error).strip()
            name = text.splitlines()[0][:200] if text else type(error).__name__
            yield CudaError(name, code, _line(error, path), in_callback)
        error = error.__cause__ or error.__context__


def _code(error: BaseException, driver: Driver) -> int | None:
    # The attribute of CuPy, of torch (AcceleratorError), and of Numba (CudaAPIError).
    for attribute in ("status", "error_code", "code"):
        code: Any = getattr(error, attribute, None)
        if isinstance(code, int) and not isinstance(error, SystemExit) and "CUDA" in _kind(error).upper():
            return code
    text = str(error)
    for words, refused in _REFUSALS.items():
        if words in text:
            return refused
    # cuda.core puts an explanation of its own in the place of the driver's text, after the name.
    said = [(words, code) for code in _TEXTS for words in (driver.error_text(code), driver.error_name(code))]
    found = [(len(words), code) for words, code in said if words and words in text]
    if found and ("CUDA" in text.upper() or "CU" in _kind(error)):
        # "operation not permitted when stream is capturing" contains the text of another error.
        return max(found)[1]
    return 0 if "CUDA error" in text else None


def _kind(error: BaseException) -> str:
    """All that names the library: ``torch.AcceleratorError``, "CUDA error: ...", ``CUDARuntimeError``."""
    return f"{type(error).__module__}.{type(error).__name__}: {error}"


def _line(error: BaseException, path: str) -> int:
    # The innermost line of the user's file: the frames below it are the library's.
    frames = traceback.extract_tb(error.__traceback__)
    own = os.path.realpath(path)
    lines = [frame.lineno or 0 for frame in frames if not path or os.path.realpath(frame.filename) == own]
    return lines[-1] if lines else 0
