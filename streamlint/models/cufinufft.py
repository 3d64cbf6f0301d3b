"""cufinufft: transforms of arrays of other libraries, on the stream that the plan was made with.

``gpu_stream`` is the handle of a stream, and the default stream where it is not given: no current stream of
another library counts (https://finufft.readthedocs.io/en/latest/c_gpu.html). Calls return before the work
is done.
"""

from __future__ import annotations

from streamlint.models.schema import Api, Computes, Framework, Lib, Makes, Uses

_POINTS = "x y z s t u"

CUFINUFFT = Framework(
    lib=Lib.CUFINUFFT,
    url="https://finufft.readthedocs.io/en/latest/python_gpu.html",
    modules=("cufinufft",),
    functions=(
        Api(
            "Plan",
            "nufft_type n_modes n_trans eps isign dtype gpu_stream",
            (Makes("cufinufft.Plan()", ("gpu_stream",)),),
        ),
        Api(
            "Plan().setpts",
            f"{_POINTS} gpu_stream",
            (Uses(reads=tuple(_POINTS.split()), stream="gpu_stream"),),
        ),
        Api("Plan().execute", "data out gpu_stream", (Computes(("data",), "out", "gpu_stream"),)),
    ),
)
