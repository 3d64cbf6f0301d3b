"""DeepEP: tokens that are sent to the ranks of their experts, and back, on a stream of the buffer.

That stream starts after the event ``previous_event``, if one is given, and else after what is queued on the
current stream. With ``async_finish`` the current stream does not wait for it before the event that is given
last makes it wait; operands are kept for both streams meanwhile. A dispatch that is not told by a handle, or
by ``num_worst_tokens``, how much it receives, lets the host wait for the kernel that counts
(https://github.com/deepseek-ai/DeepEP/blob/main/csrc/deep_ep.cpp, ``Buffer::intranode_dispatch``, and
``deep_ep/utils.py`` for ``EventOverlap``).
"""

from __future__ import annotations

from streamlint.models.schema import Api, Communicates, Framework, Lib, Records, Returns, StreamWaitsEvent

_WAIT = (StreamWaitsEvent("self", None),)
_NOW = (Records("", "stream"),)
"""Gives an event that was recorded on the current stream."""
_TOLD_BY = ("async_finish",)
_LAYOUT = "num_tokens_per_rank num_tokens_per_rdma_rank is_token_in_rank num_tokens_per_expert"
_HOW = "previous_event async_finish allocate_on_comm_stream"


def _sends(name: str, params: str, reads: str, *gives: str | None, sized_by: tuple[str, ...] = ()) -> Api:
    aside = Communicates(
        tuple(reads.split()),
        group=None,
        flag="async_finish",
        after="previous_event",
        gives=gives,
        sized_by=sized_by,
    )
    return Api(name, f"{params} {_HOW}", (aside,), telling=_TOLD_BY)


DEEP_EP = Framework(
    lib=Lib.DEEP_EP,
    url="https://github.com/deepseek-ai/DeepEP#example-use-in-model-training-or-inference-prefilling",
    modules=("deep_ep", "deep_ep.utils", "deep_ep_cpp"),
    functions=(
        Api("Buffer.capture", "", _NOW),
        Api("EventHandle", "", _NOW),
        Api("EventOverlap", "event extra_tensors", (Returns("event"),)),
    ),
    told_with=("deep_ep",),
    event_methods=(
        Api("current_stream_wait", "", _WAIT, telling=()),
        Api("__exit__", "", _WAIT),
    ),
    object_methods=(
        _sends("get_dispatch_layout", "topk_idx num_experts", "topk_idx", *(["topk_idx"] * 4)),
        _sends(
            "dispatch",
            f"x handle {_LAYOUT} topk_idx topk_weights expert_alignment num_worst_tokens config",
            f"x topk_idx topk_weights {_LAYOUT}",
            *("x", "topk_idx", "topk_weights", None, None),
            sized_by=("handle", "num_worst_tokens"),
        ),
        _sends("combine", "x handle topk_weights bias config", "x topk_weights bias", "x", "topk_weights"),
    ),
)
