"""The arguments of driver calls as C functions get them, by the names that the tables have for them."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from streamlint.confirm.inside.calls import plain_name
from streamlint.frozen import frozen
from streamlint.models.cuda_driver import CUDA_DRIVER

if TYPE_CHECKING:
    from streamlint.confirm.inside.cupti import Call
    from streamlint.models.table import Api

_COPY: Final = "ByteCount"
_SIGNATURES: Final = {
    "cuCtxSynchronize": "",
    "cuStreamCreate": ">stream Flags:u",
    "cuStreamCreateWithPriority": ">stream flags:u priority:u",
    "cuStreamDestroy": "hStream",
    "cuStreamSynchronize": "hStream",
    "cuStreamQuery": "hStream",
    "cuStreamWaitEvent": "hStream hEvent Flags:u",
    "cuStreamAddCallback": "hStream callback userData flags:u",
    "cuLaunchHostFunc": "hStream fn userData",
    "cuStreamBeginCapture": "hStream mode:u",
    "cuStreamEndCapture": "hStream >graph",
    "cuEventCreate": ">event Flags:u",
    "cuEventRecord": "hEvent hStream",
    "cuEventRecordWithFlags": "hEvent hStream flags:u",
    "cuEventSynchronize": "hEvent",
    "cuEventQuery": "hEvent",
    "cuEventElapsedTime": ">time hStart hEnd",
    "cuEventDestroy": "hEvent",
    "cuMemAlloc": ">block bytesize",
    "cuMemAllocAsync": ">block bytesize hStream",
    "cuMemAllocFromPoolAsync": ">block bytesize pool hStream",
    "cuMemAllocHost": ">block bytesize",
    "cuMemHostAlloc": ">block bytesize Flags:u",
    "cuMemAllocManaged": ">block bytesize flags:u",
    "cuMemAllocPitch": ">block >pitch WidthInBytes Height ElementSizeBytes:u",
    "cuMemHostRegister": "p bytesize Flags:u",
    "cuMemFree": "dptr",
    "cuMemFreeHost": "p",
    "cuMemFreeAsync": "dptr hStream",
    **{
        f"{name}{end}": f"{ends} {_COPY}{stream}"
        for name, ends in (
            ("cuMemcpy", "dst src"),
            ("cuMemcpyHtoD", "dstDevice srcHost"),
            ("cuMemcpyDtoH", "dstHost srcDevice"),
            ("cuMemcpyDtoD", "dstDevice srcDevice"),
        )
        for end, stream in (("", ""), ("Async", " hStream"))
    },
    **{
        f"{name}{end}": f"{arguments}{stream}"
        for name, arguments in (
            ("cuMemcpy2D", "pCopy"),
            ("cuMemsetD8", "dstDevice uc:b N"),
            ("cuMemsetD16", "dstDevice us:h N"),
            ("cuMemsetD32", "dstDevice ui:u N"),
            ("cuMemsetD2D8", "dstDevice dstPitch uc:b Width Height"),
            ("cuMemsetD2D16", "dstDevice dstPitch us:h Width Height"),
            ("cuMemsetD2D32", "dstDevice dstPitch ui:u Width Height"),
        )
        for end, stream in (("", ""), ("Async", " hStream"))
    },
    **{
        f"cuStream{does}Value{bits}": f"stream addr value{kind} flags:u"
        for does in ("Wait", "Write")
        for bits, kind in (("32", ":u"), ("64", ""))
    },
    "cuStreamBatchMemOp": "stream count:u paramArray flags:u",
}
"""By name, without version. ``>`` is an address for a result; ``:u`` has 4 bytes, ``:h`` 2, ``:b`` 1, all
others 8."""

LAUNCHES: Final = frozenset({"cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"})
_OTHERS: Final = frozenset({"cuGraphInstantiate", "cuGraphLaunch", "cuModuleUnload", "cuLibraryUnload"})
_MAKES: Final = frozenset({"cuEventCreate"})
"""An event that a library makes may get the handle of one that was destroyed."""
ORDERS: Final = _MAKES | frozenset(
    "cuCtxSynchronize cuStreamSynchronize cuStreamWaitEvent cuEventRecord cuEventRecordWithFlags "
    "cuEventSynchronize cuStreamWaitValue32 cuStreamWaitValue64 cuStreamWriteValue32 cuStreamWriteValue64 "
    "cuStreamBatchMemOp".split()
)
"""What orders, whoever asks for it: the waits of a C++ operator are those of the program."""

_KINDS: Final = {"u": ctypes.c_uint, "h": ctypes.c_ushort, "b": ctypes.c_ubyte}
_STREAMS: Final = ("hStream", "stream")
_PER_THREAD: Final = 2

WANTED: Final = re.compile(
    f"({'|'.join(sorted({*_SIGNATURES, *LAUNCHES, *_OTHERS}))})"
    r"(WithFlags|WithParams)?(_v\d+)?(_ptsz|_ptds)?$"
)
"""The names of all calls that are to be seen."""

_ROWS: Final = {api.name: api for api in CUDA_DRIVER.functions}


class Copy2D(ctypes.Structure):
    """``CUDA_MEMCPY2D``."""

    _fields_ = (
        *(
            (f"{end}{name}", kind)
            for end in ("src", "dst")
            for name, kind in (
                ("XInBytes", ctypes.c_size_t),
                ("Y", ctypes.c_size_t),
                ("MemoryType", ctypes.c_uint),
                ("Host", ctypes.c_void_p),
                ("Device", ctypes.c_uint64),
                ("Array", ctypes.c_void_p),
                ("Pitch", ctypes.c_size_t),
            )
        ),
        ("WidthInBytes", ctypes.c_size_t),
        ("Height", ctypes.c_size_t),
    )


@frozen()
class Decoded:
    """A call with the row of its function, its arguments by name, and where its results will be."""

    api: Api
    given: dict[str, Any]
    results: tuple[int, ...]

    def outcome(self, call: Call) -> tuple[int, ...]:
        """As cuda-python returns it: the status, and then the results. The call has returned."""
        status = ctypes.c_int.from_address(call.result).value
        return status, *(ctypes.c_uint64.from_address(at).value if at else 0 for at in self.results)


def decoded(call: Call) -> Decoded | None:
    """``None`` for a call that has no row, or whose arguments are not known."""
    name = plain_name(call.name)
    api, layout = _ROWS.get(name), _layout(name)
    if api is None or layout is None:
        return None
    arguments = call.arguments(layout) if layout._fields_ else None  # there is no struct of nothing
    per_thread = call.name.endswith(("_ptsz", "_ptds"))
    given: dict[str, Any] = {}
    results = []
    for field, *_ in layout._fields_:
        value = int(getattr(arguments, field) or 0)
        if field.startswith(">"):
            results.append(value)
        elif field == "pCopy":
            given[field] = Copy2D.from_address(value)
        else:
            given[field] = _PER_THREAD if per_thread and field in _STREAMS and not value else value
    return Decoded(api, given, tuple(results))


@cache
def _layout(name: str) -> type[ctypes.Structure] | None:
    if name not in _SIGNATURES:
        return None
    fields = []
    for word in _SIGNATURES[name].split():
        field, _, kind = word.partition(":")
        fields.append((field, _KINDS.get(kind, ctypes.c_void_p)))
    return type(name, (ctypes.Structure,), {"_fields_": tuple(fields)})
