"""What all synthesized programs have in common: their helpers, the gate, and words that are taken."""

from __future__ import annotations

import builtins
import keyword
import re
from dataclasses import dataclass, field
from typing import Final

from streamlint.confirm.gpu.gate import PTX, PTX_NAME, TARGETS

_HELPERS: Final = '''\
import ctypes
import os
import sys
import time

# With few hardware queues, streams that share one wait for each other.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
os.environ.pop("CUDA_LAUNCH_BLOCKING", None)

from cuda.bindings import driver, runtime

SIZE = 1 << 16  # bytes of each buffer; copies from more pageable memory may block
HOLD_MS = 200
ANY = runtime.cudaMemcpyKind.cudaMemcpyDefault


def check(result):
    error, *values = result
    if int(error):
        raise RuntimeError(f"CUDA error {error!r}")
    return values[0] if values else None


def filled(pointer, value):
    check(runtime.cudaDeviceSynchronize())
    check(runtime.cudaMemset(pointer, value, SIZE))
    check(runtime.cudaDeviceSynchronize())
    return pointer


def byte(pointer):
    """The last byte of a buffer, as the host sees it now (host memory only)."""
    return ctypes.c_ubyte.from_address(pointer + SIZE - 1).value


def final(pointer):
    """The last byte of a buffer when all work is done."""
    check(runtime.cudaDeviceSynchronize())
    out = ctypes.c_ubyte()
    check(runtime.cudaMemcpy(ctypes.addressof(out), pointer + SIZE - 1, 1, ANY))
    return out.value


def load_gate():
    """A kernel that spins until *flag is set, or until `limit` nanoseconds have passed."""
    check(runtime.cudaFree(0))  # makes the context
    for version, target in TARGETS:
        text = PTX.format(version=version, target=target)
        error, module = driver.cuModuleLoadData(text.encode() + b"\\0")
        if not int(error):
            return check(driver.cuModuleGetFunction(module, b"@NAME@"))
    raise RuntimeError("the gate kernel could not be loaded")


def hold(stream):
    """Keep a stream busy: a schedule that the hardware may choose by itself."""
    flag.value = 0
    arguments = ((flag_pointer, HOLD_MS * 1_000_000), (ctypes.c_uint64, ctypes.c_uint64))
    check(driver.cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, int(stream), arguments, 0))


def let_go():
    time.sleep(HOLD_MS / 4000)  # what does not wait for the held stream runs now
    flag.value = 1
    check(runtime.cudaDeviceSynchronize())
'''

_MAIN: Final = """\
TARGETS = @TARGETS@
PTX = \"\"\"@PTX@\"\"\"

if __name__ == "__main__":
    gate = load_gate()
    flag_pointer = check(runtime.cudaHostAlloc(4, runtime.cudaHostAllocMapped))
    flag = ctypes.c_uint32.from_address(flag_pointer)
    hold(0)  # once without need, so that the kernel is loaded
    let_go()
    right, racing = run(ordered=True), run(ordered=False)
    print(f"with the missing edge: {right}")
    print(f"without it:            {racing}")
    print("the values differ" if right != racing else "the values are equal")
    sys.stdout.flush()
"""

RESERVED: Final = frozenset(
    {
        *(
            "ctypes",
            "os",
            "sys",
            "time",
            "driver",
            "runtime",
            "check",
            "filled",
            "byte",
            "final",
            "load_gate",
            "hold",
        ),
        *(
            "let_go",
            "gate",
            "flag",
            "flag_pointer",
            "run",
            "ordered",
            "right",
            "racing",
            "edge",
            "seen",
            "following",
        ),
        *("address", "seen_by_host", "another"),
        *keyword.kwlist,
        *dir(builtins),
    }
)


def wrapped(docstring: str, body: str) -> str:
    """The text of a program around its function ``run``."""
    helpers = _HELPERS.replace("@NAME@", PTX_NAME)
    targets = repr(TARGETS).replace("'", '"')
    main = _MAIN.replace("@TARGETS@", targets).replace("@PTX@", PTX)
    return f"{docstring}\n\n{helpers}\n\n{body}\n\n\n{main}"


@dataclass(slots=True)
class Names:
    """Identifiers after the user's own names, each used once."""

    taken: set[str] = field(default_factory=lambda: set(RESERVED))

    def new(self, name: str) -> str:
        word = re.sub(r"\W+", "_", name.removeprefix("the "), flags=re.ASCII).strip("_").lower() or "x"
        word = f"_{word}" if word[0].isdigit() else word
        free, number = word, 1
        while free in self.taken:
            number += 1
            free = f"{word}_{number}"
        self.taken.add(free)
        return free
