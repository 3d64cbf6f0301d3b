"""Prints an abstract program as Python for a library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.random_programs.abstract import (
    MAIN_STREAM,
    Block,
    Call,
    Callback,
    Drop,
    Fresh,
    HostAccess,
    Join,
    Keep,
    Library,
    Loop,
    Name,
    Operand,
    Program,
    Record,
    Slot,
    Statement,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Transfer,
    Wait,
    What,
    Work,
    operands,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADS = {
    Library.TORCH: "import torch\n\nN = 1 << 20\n",
    Library.CUPY: (
        "import cupy as cp\nimport cupyx\nimport numpy as np\n\nN = 1 << 20\n\n\n"
        "def pinned():\n    host = cupyx.empty_pinned((N,), dtype=np.float32)\n    host[...] = 1\n"
        "    return host\n"
    ),
    Library.RUNTIME: """\
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart

SIZE = 1 << 20
H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
HOST_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return values[0] if values else None


def device_bytes(value):
    pointer = check(cudart.cudaMalloc(SIZE))
    check(cudart.cudaMemset(pointer, value, SIZE))
    return pointer


def pinned_bytes():
    pointer = check(cudart.cudaMallocHost(SIZE))
    ctypes.memset(pointer, 1, SIZE)
    return pointer


def seen(pointer):
    view = np.ctypeslib.as_array((ctypes.c_ubyte * SIZE).from_address(pointer))
    return view


def queue(stream, callback):
    address = ctypes.cast(callback, ctypes.c_void_p).value
    check(cudart.cudaLaunchHostFunc(stream, cudart.cudaHostFn_t(address), 0))
""",
}
MAKES = {
    Library.TORCH: {
        What.STREAM: "torch.cuda.Stream()",
        What.EVENT: "torch.cuda.Event()",
        What.DEVICE: 'torch.ones(N, device="cuda")',
        What.HOST: "torch.ones(N, pin_memory=True)",
    },
    Library.CUPY: {
        What.STREAM: "cp.cuda.Stream(non_blocking=True)",
        What.EVENT: "cp.cuda.Event()",
        What.DEVICE: "cp.ones(N, dtype=cp.float32)",
        What.HOST: "pinned()",
    },
    Library.RUNTIME: {
        What.STREAM: "check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))",
        What.EVENT: "check(cudart.cudaEventCreate())",
        What.DEVICE: "device_bytes(1)",
        What.HOST: "pinned_bytes()",
    },
}
BLOCKING = {Library.CUPY: "cp.cuda.Stream()", Library.RUNTIME: "check(cudart.cudaStreamCreate())"}


TOTAL = """\


def total(value):
    if isinstance(value, list):
        return float(sum(value))
    return float(value.sum()) if hasattr(value, "sum") else float(value)
"""
"""What programs that return what they computed call, on the host, when all is complete."""
CONTENTS = {
    Library.TORCH: TOTAL,
    Library.CUPY: TOTAL,
    Library.RUNTIME: f"""\
{TOTAL}

def content(pointer):
    host = np.empty(SIZE, np.uint8)
    check(cudart.cudaMemcpy(host.ctypes.data, pointer, SIZE, cudart.cudaMemcpyKind.cudaMemcpyDefault))
    return float(host.sum())
""",
}


@dataclass
class Writer:
    """The lines of one program."""

    program: Program
    returns: bool = False
    """Whether `main` returns what memory holds at the end: it is compared when operations are held back."""
    lines: list[str] = field(default_factory=list)
    callbacks: int = 0

    def written(self) -> str:
        program = self.program
        self.lines += ["", "OUT = []"]
        if program.library is Library.RUNTIME:
            self.lines.append("KEEP = []")
        if program.is_class:
            self.lines += ["", "", "class Worker:", "    def __init__(self):"]
            self.setup("        ", "self.")
            used = {name for name, f in program.functions.items() if _has_slots(f.body)}
            self.lines += [f"        self.turn_{name} = 0" for name in sorted(used)]
            for name, function in program.functions.items():
                self.lines += ["", f"    def {name}(self):"]
                if name in used:
                    self.lines += [f"        turn = self.turn_{name}", f"        self.turn_{name} += 1"]
                self.block(function.body, "        ", "turn")
        else:
            for name, function in program.functions.items():
                self.lines += ["", "", f"def {name}({', '.join(p for p, _ in function.parameters)}):"]
                self.block(function.body, "    ", None)
        if self.returns:
            self.lines.append(CONTENTS[program.library].rstrip())
        self.lines += ["", "", "def main():"]
        if self.returns:
            self.lines.append("    OUT.clear()")
        if program.is_class:
            self.lines.append("    worker = Worker()")
        else:
            self.setup("    ", "")
        self.block(program.body, "    ", None)
        if self.returns:
            self.lines.append(f"    return [{', '.join(self.contents())}, sorted(map(total, OUT))]")
        return HEADS[program.library] + "\n".join(self.lines) + "\n"

    def setup(self, indent: str, prefix: str) -> None:
        for name, what in self.program.names.items():
            self.lines.append(f"{indent}{prefix}{name} = {self.make(name, what)}")
        for name, (what, size) in self.program.rings.items():
            self.lines.append(f"{indent}{prefix}{name} = [{self.make(name, what)} for _ in range({size})]")

    def contents(self) -> Iterator[str]:
        """Expressions for what all memory holds that has a name of the program."""
        memory = (What.DEVICE, What.HOST)
        runtime = self.program.library is Library.RUNTIME
        prefix, call = "worker." if self.program.is_class else "", "content" if runtime else "total"
        for name, what in self.program.names.items():
            if what in memory:
                yield f"{call}({prefix}{name})"
        for name, (what, _) in self.program.rings.items():
            if what in memory:
                yield f"[{call}(one) for one in {prefix}{name}]"

    def make(self, name: str, what: What) -> str:
        if what is What.STREAM and name in self.program.blocking:
            return BLOCKING[self.program.library]
        return MAKES[self.program.library][what]

    # ------------------------------------------------------------------ statements

    def block(self, block: Block, indent: str, turn: str | None) -> None:
        if not block:
            self.lines.append(f"{indent}pass")
        for statement in block:
            if isinstance(statement, Loop):
                self.lines.append(f"{indent}for i in range({statement.times}):")
                self.block(statement.body, indent + "    ", "i")
                continue
            # Callbacks take several lines.
            self.lines += [indent + line for line in self.statement(statement, turn)]

    def name(self, operand: Operand, turn: str | None) -> str:
        local = isinstance(operand, Name) and operand.text.startswith("fresh")
        prefix = "self." if self.program.is_class and not local else ""
        match operand:
            case Name(text):
                return f"{prefix}{text}"
            case Slot(ring, offset):
                size = self.program.rings[ring][1]
                index = f"{turn} % {size}" if not offset else f"({turn} + {offset}) % {size}"
                return f"{prefix}{ring}[{index}]"

    def statement(self, s: Statement, turn: str | None) -> Iterator[str]:
        if isinstance(s, Call):
            owner = "worker." if self.program.is_class else ""
            given = [self.name(argument, turn) for argument in s.arguments]
            yield f"{owner}{s.function}({', '.join(given)})"
            return
        match self.program.library:
            case Library.TORCH:
                yield from self.torch(s, turn)
            case Library.CUPY:
                yield from self.cupy(s, turn)
            case Library.RUNTIME:
                yield from self.runtime(s, turn)

    # ------------------------------------------------------------------ PyTorch

    def torch(self, s: Statement, turn: str | None) -> Iterator[str]:  # noqa: C901  one case a kind
        def n(operand: Operand) -> str:
            return self.name(operand, turn)

        def on(stream: Operand, line: str) -> Iterator[str]:
            if stream == MAIN_STREAM:
                yield line
            else:
                yield f"with torch.cuda.stream({n(stream)}):"
                yield f"    {line}"

        def handle(stream: Operand) -> str:
            return "torch.cuda.current_stream()" if stream == MAIN_STREAM else n(stream)

        match s:
            case Work(_, stream, reads, writes, style):
                yield from on(stream, _torch_work([n(read) for read in reads], n(writes), style))
            case Transfer(_, stream, source, target, _):
                yield from on(stream, f"{n(target)}.copy_({n(source)}, non_blocking=True)")
            case HostAccess(_, memory, True, style):
                yield (f"{n(memory)}.fill_(2.0)", f"{n(memory)}.zero_()", f"{n(memory)}.add_(1.0)")[style]
            case HostAccess(_, memory, _, style):
                m = n(memory)
                yield f"OUT.append({(f'{m}[0].item()', f'float({m}.sum())', f'{m}.tolist()')[style]})"
            case Fresh(_, name, stream):
                yield from on(stream, f'{name} = torch.full((N,), 3.0, device="cuda")')
            case Drop(_, name, _):
                yield f"del {name}"
            case Keep(_, name, stream):
                yield f"{name}.record_stream({handle(stream)})"
            case Record(_, event, stream):
                yield f"{n(event)}.record({'' if stream == MAIN_STREAM else n(stream)})"
            case Wait(_, stream, event, style):
                e, waiting = n(event), handle(stream)
                yield f"{e}.wait({waiting})" if style else f"{waiting}.wait_event({e})"
            case Join(_, stream, other):
                yield f"{handle(stream)}.wait_stream({handle(other)})"
            case SyncEvent(_, event):
                yield f"{n(event)}.synchronize()"
            case SyncStream(_, stream):
                yield f"{handle(stream)}.synchronize()"
            case SyncDevice():
                yield "torch.cuda.synchronize()"

    # ------------------------------------------------------------------ CuPy

    def cupy(self, s: Statement, turn: str | None) -> Iterator[str]:  # noqa: C901  one case a kind
        def n(operand: Operand) -> str:
            return self.name(operand, turn)

        def on(stream: Operand, line: str) -> Iterator[str]:
            yield from [line] if stream == MAIN_STREAM else [f"with {n(stream)}:", f"    {line}"]

        def handle(stream: Operand) -> str:
            return "cp.cuda.get_current_stream()" if stream == MAIN_STREAM else n(stream)

        def given(stream: Operand) -> str:
            return "" if stream == MAIN_STREAM else f", stream={n(stream)}"

        match s:
            case Work(_, stream, reads, writes, style):
                yield from on(stream, _cupy_work([n(read) for read in reads], n(writes), style))
            case Transfer(_, stream, source, target, True):
                yield f"{n(target)}.set({n(source)}{given(stream)})"
            case Transfer(_, stream, source, target, _):
                yield f"{n(source)}.get(out={n(target)}, blocking=False{given(stream)})"
            case HostAccess(_, memory, True, style):
                yield (f"{n(memory)}[...] = 2", f"{n(memory)}.fill(0)", f"np.copyto({n(memory)}, 3)")[style]
            case HostAccess(_, memory, _, style):
                m = n(memory)
                yield f"OUT.append({(f'float({m}[0])', f'float({m}.sum())', f'{m}.copy()')[style]})"
            case Callback(_, stream, memory, writes):
                yield from self.function(n(memory), "[...]", writes=writes)
                yield f"{handle(stream)}.launch_host_func(called_{self.callbacks}, None)"
            case Fresh(_, name, stream):
                yield from on(stream, f"{name} = cp.full(N, 3, dtype=cp.float32)")
            case Drop(_, name, _):
                yield f"del {name}"
            case Record(_, event, stream):
                yield f"{n(event)}.record({'' if stream == MAIN_STREAM else n(stream)})"
            case Wait(_, stream, event, _):
                yield f"{handle(stream)}.wait_event({n(event)})"
            case SyncEvent(_, event):
                yield f"{n(event)}.synchronize()"
            case SyncStream(_, stream):
                yield f"{handle(stream)}.synchronize()"
            case SyncDevice():
                yield "cp.cuda.Device().synchronize()"

    def function(self, memory: str, place: str, *, writes: bool) -> Iterator[str]:
        """A host function that reads or writes memory."""
        self.callbacks += 1
        yield f"def called_{self.callbacks}(_data, memory={memory}):"
        yield f"    memory{place} = 5" if writes else "    OUT.append(int(memory[0]))"

    # ------------------------------------------------------------------ the runtime

    def runtime(self, s: Statement, turn: str | None) -> Iterator[str]:  # noqa: C901  one case a kind
        def n(operand: Operand) -> str:
            return "0" if operand == MAIN_STREAM else self.name(operand, turn)

        match s:
            case Work(_, stream, (), writes, style):
                yield f"check(cudart.cudaMemsetAsync({n(writes)}, {style}, SIZE, {n(stream)}))"
            case Work(_, stream, (read, *_), writes, _):
                yield f"check(cudart.cudaMemcpyAsync({n(writes)}, {n(read)}, SIZE, D2D, {n(stream)}))"
            case Transfer(_, stream, source, target, upload):
                kind = "H2D" if upload else "D2H"
                yield f"check(cudart.cudaMemcpyAsync({n(target)}, {n(source)}, SIZE, {kind}, {n(stream)}))"
            case HostAccess(_, memory, True, style):
                view = f"seen({n(memory)})"
                yield (f"{view}[:] = 2", f"{view}.fill(0)", f"np.copyto({view}, 3)")[style]
            case HostAccess(_, memory, _, _):
                yield f"OUT.append(int(seen({n(memory)})[0]))"
            case Callback(_, stream, memory, writes):
                yield from self.function(f"seen({n(memory)})", "[:]", writes=writes)
                yield f"KEEP.append(HOST_FN(called_{self.callbacks}))"
                yield f"queue({n(stream)}, KEEP[-1])"
            case Fresh(_, name, stream):
                yield f"{name} = check(cudart.cudaMallocAsync(SIZE, {n(stream)}))"
                yield f"check(cudart.cudaMemsetAsync({name}, 3, SIZE, {n(stream)}))"
            case Drop(_, name, stream):
                yield f"check(cudart.cudaFreeAsync({name}, {n(stream)}))"
            case Record(_, event, stream):
                yield f"check(cudart.cudaEventRecord({n(event)}, {n(stream)}))"
            case Wait(_, stream, event, _):
                yield f"check(cudart.cudaStreamWaitEvent({n(stream)}, {n(event)}, 0))"
            case SyncEvent(_, event):
                yield f"check(cudart.cudaEventSynchronize({n(event)}))"
            case SyncStream(_, stream):
                yield f"check(cudart.cudaStreamSynchronize({n(stream)}))"
            case SyncDevice():
                yield "check(cudart.cudaDeviceSynchronize())"


def _torch_work(reads: list[str], target: str, style: int) -> str:
    match reads:
        case []:
            return (f"{target}.fill_(4.0)", f"{target}.zero_()", f"{target}.mul_(2.0)")[style]
        case [one]:
            doubled = f"torch.mul({one}, 2.0, out={target})"
            return (f"{target}.copy_({one})", f"{target}.add_({one})", doubled)[style]
        case _:
            both = ", ".join(reads)
            return (f"torch.add({both}, out={target})", f"{target}.addcmul_({both})")[style % 2]


def _cupy_work(reads: list[str], target: str, style: int) -> str:
    match reads:
        case []:
            return (f"{target}.fill(4)", f"{target}[...] = 0", f"{target} *= 2")[style]
        case [one]:
            doubled = f"cp.multiply({one}, 2, out={target})"
            return (f"cp.copyto({target}, {one})", f"{target}[...] = {one}", doubled)[style]
        case _:
            name = ("add", "multiply")[style % 2]
            return f"cp.{name}({', '.join(reads)}, out={target})"


def _has_slots(block: Block) -> bool:
    return any(isinstance(operand, Slot) for statement in block for operand in operands(statement))


def written(program: Program, *, returns: bool = False) -> str:
    return Writer(program, returns).written()
