"""OpenCV: matrices on the device, copied and worked on in order of the stream that a call is given.

``Stream()`` is made by ``cudaStreamCreate``, so that it is *blocking*; ``Stream(flags)`` has these flags of
CUDA. There is no current stream: without one a call works on the default stream, and the host waits for
it. A copy that is given a stream returns at once where the memory on the host is page-locked (``HostMem``).
Matrices are freed by ``cudaFree``, which waits for the device
(https://github.com/opencv/opencv/blob/4.x/modules/core/src/cuda_stream.cpp and ``gpu_mat.cu`` beside it).
"""

from __future__ import annotations

from streamlint.models.schema import (
    Allocates,
    Api,
    Computes,
    Copies,
    DefaultStream,
    ForeignStream,
    Framework,
    HostWaitsEvent,
    HostWaitsStream,
    Lib,
    Makes,
    NewEvent,
    NewStream,
    Pins,
    Queries,
    ReadsTimes,
    Records,
    Returns,
    SelectsDevice,
    StreamWaitsEvent,
    Unpins,
    Views,
)
from streamlint.trace import Space, StreamKind

_NEW_STREAM = (NewStream(StreamKind.BLOCKING, "cudaFlags"),)
_NEW_EVENT = (NewEvent(untimed="flags"),)
_NEW_MATRIX = (Allocates(Space.DEVICE),)
_NEW_ON_HOST = (Allocates(Space.PINNED),)

_TWO = "src1 src2 dst"
_OPERATORS = {
    "cvtColor": "src code dst dcn",
    "resize": "src dsize dst fx fy interpolation",
    "warpAffine": "src M dsize dst flags borderMode borderValue",
    "warpPerspective": "src M dsize dst flags borderMode borderValue",
    "remap": "src xmap ymap interpolation dst borderMode borderValue",
    "copyMakeBorder": "src top bottom left right borderType dst value",
    "flip": "src flipCode dst",
    "transpose": "src1 dst",
    "normalize": "src alpha beta norm_type dtype dst mask",
    "add": f"{_TWO} mask dtype",
    "subtract": f"{_TWO} mask dtype",
    "multiply": f"{_TWO} scale dtype",
    "divide": f"{_TWO} scale dtype",
    "absdiff": _TWO,
    "bitwise_and": f"{_TWO} mask",
    "bitwise_or": f"{_TWO} mask",
    "bitwise_not": "src dst mask",
    "addWeighted": "src1 alpha src2 beta gamma dst dtype",
    "alphaComp": "img1 img2 alpha_op dst",
}
"""Functions that give ``dst``, before their last parameter, ``stream`` (https://docs.opencv.org/4.x/d1/d1a/namespacecv_1_1cuda.html)."""
_READ = frozenset("src src1 src2 img1 img2 xmap ymap mask".split())
_FILTERS = "Box Gaussian Laplacian Linear Median Morphology Scharr Sobel".split()
_FILTER = "cv2.cuda_Filter()"


def _operator(name: str, params: str) -> Api:
    reads = tuple(param for param in params.split() if param in _READ)
    return Api(name, f"{params} stream", (Computes(reads, "dst", "stream"),))


OPENCV = Framework(
    lib=Lib.OPENCV,
    url="https://docs.opencv.org/4.x/d9/df3/classcv_1_1cuda_1_1Stream.html",
    modules=("cv2",),
    functions=(
        Api("cuda.Stream", "cudaFlags", _NEW_STREAM),
        Api("cuda_Stream", "cudaFlags", _NEW_STREAM),
        Api("cuda.Stream.Null", "", (DefaultStream(),)),
        Api("cuda.Stream_Null", "", (DefaultStream(),)),
        Api("cuda_Stream.Null", "", (DefaultStream(),)),
        Api("cuda.wrapStream", "cudaStreamMemoryAddress", (ForeignStream("cudaStreamMemoryAddress"),)),
        Api("cuda.Event", "flags", _NEW_EVENT),
        Api("cuda_Event", "flags", _NEW_EVENT),
        Api("cuda.Event.elapsedTime", "start end", (ReadsTimes("start", "end"),)),
        Api("cuda.Event_elapsedTime", "start end", (ReadsTimes("start", "end"),)),
        Api("cuda.GpuMat", "rows cols type", _NEW_MATRIX),
        Api("cuda_GpuMat", "rows cols type", _NEW_MATRIX),
        Api("cuda.HostMem", "rows cols type alloc_type", _NEW_ON_HOST),
        Api("cuda_HostMem", "rows cols type alloc_type", _NEW_ON_HOST),
        Api("cuda.registerPageLocked", "m", (Pins("m"),)),
        Api("cuda.unregisterPageLocked", "m", (Unpins("m"),)),
        Api("cuda.setDevice", "device", (SelectsDevice(),)),
        *(_operator(f"cuda.{name}", params) for name, params in _OPERATORS.items()),
        *(Api(f"cuda.create{name}Filter", "*options", (Makes(_FILTER),)) for name in _FILTERS),
        _operator("cuda_Filter().apply", "src dst"),
    ),
    stream_methods=(
        Api("waitForCompletion", "", (HostWaitsStream(),), telling=()),
        Api("waitEvent", "event", (StreamWaitsEvent("event", "self"),), telling=()),
        Api("queryIfComplete", "", (Queries(),), telling=()),
        Api("cudaPtr", "", (Returns("self"),)),
    ),
    event_methods=(
        Api("record", "stream", (Records("self", "stream"),)),
        Api("waitForCompletion", "", (HostWaitsEvent(),)),
        Api("queryIfComplete", "", (Queries(),)),
    ),
    buffer_methods=(
        Api("upload", "arr stream", (Copies("self", "arr", "stream", blocking=True, unless="stream"),)),
        Api(
            "download",
            "stream dst",
            (Copies("dst", "self", "stream", blocking=True, unless="stream", makes=Space.PAGEABLE),),
            overloads=("dst",),
        ),
        Api(
            "copyTo",
            "stream dst",
            (Computes(("self", "mask"), "dst", "stream"),),
            overloads=("dst", "mask dst", "mask stream dst"),
        ),
        Api(
            "convertTo",
            "rtype stream dst",
            (Computes(("self",), "dst", "stream"),),
            overloads=(
                "rtype dst",
                "rtype alpha dst beta",
                "rtype alpha stream dst",
                "rtype alpha beta stream dst",
            ),
        ),
        Api("setTo", "s stream", (Computes(("mask",), "self", "stream"),), overloads=("s mask stream",)),
        Api("createMatHeader", "", (Views("self", array=True),)),
        Api("cudaPtr", "", (Returns("self"),)),
    ),
    operations=("cv2.cuda",),
    waits_without_stream=True,
)

META = frozenset(
    "size rows cols step type depth channels empty elemSize elemSize1 step1 isContinuous create release "
    "allocator".split()
)
"""What the host knows of a matrix, or does with it, without asking the device."""
VIEWS = frozenset({"row", "col", "rowRange", "colRange", "reshape", "adjustROI"})
"""Methods that give another view of a matrix."""
