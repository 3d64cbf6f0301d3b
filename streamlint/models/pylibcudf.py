"""pylibcudf: tables and columns on the device, each function on the stream that it is given.

Without one it is the default stream. Memory is allocated and freed in order of that stream
(https://docs.rapids.ai/api/cudf/stable/pylibcudf/api_docs/concatenate), and nothing orders the streams of two
operands but ``join_streams`` (https://docs.rapids.ai/api/cudf/stable/pylibcudf/api_docs/experimental). What
comes to the host is complete when the call returns.
"""

from __future__ import annotations

from streamlint.models.schema import Api, Copies, Framework, Lib, StreamWaitsStream, Uses
from streamlint.trace import Space

_FETCH = Copies("", "self", "stream", blocking=True, makes=Space.PAGEABLE)

CUDF = Framework(
    lib=Lib.CUDF,
    url="https://docs.rapids.ai/api/cudf/stable/pylibcudf/",
    modules=("pylibcudf",),
    functions=(
        Api("experimental.join_streams", "streams stream", (StreamWaitsStream("stream", "streams"),)),
        Api(
            "filling.fill_in_place",
            "destination begin end value stream",
            (Uses(reads=("value",), writes=("destination",), stream="stream"),),
        ),
        Api(
            "copying.copy_range_in_place",
            "input_column target_column input_begin input_end target_begin stream",
            (Uses(reads=("input_column",), writes=("target_column",), stream="stream"),),
        ),
    ),
    buffer_methods=(
        Api("to_arrow", "metadata stream", (_FETCH,)),
        Api("to_pylist", "stream", (_FETCH,)),
        Api("to_py", "stream", (_FETCH,)),
    ),
    operations=("pylibcudf",),
)

META = frozenset(
    "size type null_count shape num_rows num_columns offset num_children device_buffer_size column_names "
    "child_names num_rows_per_source".split()
)
"""What the host knows of a table or column without asking the device."""
