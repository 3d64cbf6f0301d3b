"""RAFT and cuVS (pylibraft, cuvs): functions on arrays of other libraries, on the stream of a handle.

"If a handle is supplied, you will need to explicitly synchronize yourself by calling `handle.sync()` before
accessing the output"; without one the call waits for its own work
(https://docs.rapids.ai/api/raft/stable/pylibraft_api/common/, https://docs.nvidia.com/cuvs/api-reference/python-api-common).
A handle that is made without a stream has the per-thread default stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.models.schema import Api, Computes, Framework, HostWaitsStream, Lib, Makes, NewStream, Returns
from streamlint.trace import StreamKind

if TYPE_CHECKING:
    from collections.abc import Iterable

_SEARCH = "search_params index queries k neighbors distances"
_REFINE = "dataset queries candidates k indices distances metric"
_PAIRS = "X Y out metric p"


def _call(name: str, params: str, keeper: str, reads: str, *writes: str) -> Api:
    """Computes on the stream that the parameter ``keeper`` keeps; memory that it writes may be given."""
    outs = tuple(writes) or ("",)
    effect = Computes(tuple(reads.split()), outs[0], f"{keeper}.stream", also=outs[1:], owner=keeper)
    return Api(name, f"{params} {keeper}", (effect,))


def _search(module: str, keeper: str, params: str = _SEARCH) -> Api:
    return _call(f"{module}.search", params, keeper, "index queries", "distances", "neighbors")


def _refine(name: str, keeper: str) -> Api:
    return _call(name, _REFINE, keeper, "dataset queries candidates", "distances", "indices")


def _indexes(modules: Iterable[str], keeper: str) -> Iterable[Api]:
    for module in modules:
        yield _call(f"{module}.build", "index_params dataset", keeper, "dataset")
        yield _search(module, keeper)


def _handle(path: str, name: str, params: str) -> tuple[Api, ...]:
    return (
        Api(f"common.{name}", params, (Makes(f"{path}.common.{name}()", ("stream",)),)),
        Api(f"common.{name}().sync", "stream", (HostWaitsStream("stream"),)),
    )


RAFT = Framework(
    lib=Lib.RAFT,
    url="https://docs.rapids.ai/api/raft/stable/pylibraft_api/common/",
    modules=("pylibraft",),
    functions=(
        *_handle("pylibraft", "DeviceResources", "stream n_streams"),
        *_handle("pylibraft", "Handle", "stream n_streams"),
        # cudaStreamCreate, without a flag (pylibraft/common/cuda.pyx).
        Api("common.Stream", "", (NewStream(StreamKind.BLOCKING),)),
        _call("distance.pairwise_distance", _PAIRS, "handle", "X Y", "out"),
        _call("distance.fused_l2_nn_argmin", "X Y out sqrt", "handle", "X Y", "out"),
        _call(
            "matrix.select_k",
            "dataset k distances indices select_min",
            "handle",
            "dataset",
            *("distances", "indices"),
        ),
        _call(
            "neighbors.brute_force.knn",
            "dataset queries k indices distances metric metric_arg global_id_offset",
            "handle",
            "dataset queries",
            *("distances", "indices"),
        ),
        *_indexes(("neighbors.cagra", "neighbors.ivf_flat"), "handle"),
        _call("neighbors.ivf_pq.build", "index_params dataset", "handle", "dataset"),
        _search("neighbors.ivf_pq", "handle", f"{_SEARCH} memory_resource"),
        _refine("neighbors.refine", "handle"),
    ),
    stream_methods=(Api("sync", "", (HostWaitsStream(),)), Api("get_ptr", "", (Returns("self"),))),
    waits_without_stream=True,
)

CUVS = Framework(
    lib=Lib.CUVS,
    url="https://docs.nvidia.com/cuvs/api-reference/python-api-common",
    modules=("cuvs",),
    functions=(
        *_handle("cuvs", "Resources", "stream"),
        _call("distance.pairwise_distance", _PAIRS, "resources", "X Y", "out"),
        *_indexes(("neighbors.cagra", "neighbors.ivf_flat", "neighbors.ivf_pq"), "resources"),
        _call("neighbors.brute_force.build", "dataset metric metric_arg", "resources", "dataset"),
        _search("neighbors.brute_force", "resources", "index queries k neighbors distances"),
        _refine("neighbors.refine", "resources"),
    ),
    waits_without_stream=True,
)
