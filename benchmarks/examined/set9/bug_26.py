import collections
from functools import partial

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)

non_reentrant_wrapper = partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT)


class FreeEventQueue:
    """https://github.com/pytorch/pytorch/blob/main/torch/distributed/fsdp/_limiter_utils.py"""

    def __init__(self, max_num_inflight_copy=2):
        self._queue = collections.deque()
        self._max_num_inflight_copy = max_num_inflight_copy

    def enqueue(self, free_event):
        self._queue.append(free_event)

    def dequeue_if_needed(self):
        if len(self._queue) >= self._max_num_inflight_copy:
            return self._queue.popleft()
        return None


class save_on_cpu_overlap(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self):
        copy_stream = torch.cuda.Stream()
        current_stream = torch.cuda.current_stream()
        unpack_event_queue = FreeEventQueue()

        def _deque_event_and_synchronize(queue):
            event = queue.dequeue_if_needed()
            if event:
                event.synchronize()

        def _enque_event(queue):
            free_event = torch.cuda.Event()
            free_event.record()
            queue.enqueue(free_event)

        def pack_to_cpu(tensor):
            if not tensor.is_cuda:
                return (tensor.device, tensor)
            copy_stream.wait_stream(current_stream)
            with torch.cuda.stream(copy_stream):
                packed = tensor.to("cpu", non_blocking=True)
            return (tensor.device, packed)

        def unpack_from_cpu(packed):
            device, tensor = packed
            if device.type == "cpu":
                return tensor
            _deque_event_and_synchronize(unpack_event_queue)
            with torch.cuda.stream(copy_stream):
                unpacked = tensor.to(device, non_blocking=True)
            current_stream.wait_stream(copy_stream)
            unpacked.record_stream(current_stream)
            _enque_event(unpack_event_queue)
            return unpacked

        super().__init__(pack_to_cpu, unpack_from_cpu)


class OffloadedCheckpoint(torch.nn.Module):
    """Keeps the inputs of checkpointed blocks in host memory."""

    def __init__(self, blocks, block_cls):
        super().__init__()
        self.blocks = blocks
        apply_activation_checkpointing(
            self.blocks, checkpoint_wrapper_fn=non_reentrant_wrapper, check_fn=lambda m: isinstance(m, block_cls)
        )

    def forward(self, hidden):
        with save_on_cpu_overlap():
            for block in self.blocks:
                hidden = block(hidden)
        return hidden
