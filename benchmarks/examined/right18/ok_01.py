"""Stages numpy batches through a small ring of pinned buffers."""
from collections import deque

import numpy as np
import torch


class StagedBatches:
    def __init__(self, source, device="cuda", depth=3, ahead=2):
        self.source = source
        self.device = torch.device(device)
        self.depth = depth
        self.ahead = ahead
        self.upload_stream = torch.cuda.Stream(self.device)
        self.host = [None] * depth
        self.sent = [torch.cuda.Event() for _ in range(depth)]
        self.count = 0

    def _staging(self, slot, like):
        buf = self.host[slot]
        if buf is None or buf.shape != like.shape or buf.dtype != like.dtype:
            buf = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
            self.host[slot] = buf
        return buf

    def _upload(self, array):
        slot = self.count % self.depth
        self.count += 1
        src = torch.from_numpy(np.ascontiguousarray(array))
        self.sent[slot].synchronize()
        buf = self._staging(slot, src)
        buf.copy_(src)
        with torch.cuda.stream(self.upload_stream):
            batch = buf.to(self.device, non_blocking=True)
            self.sent[slot].record(self.upload_stream)
        return batch, self.sent[slot]

    def __iter__(self):
        pending = deque()
        for array in self.source:
            pending.append(self._upload(array))
            if len(pending) > self.ahead:
                yield self._hand_over(*pending.popleft())
        while pending:
            yield self._hand_over(*pending.popleft())

    def _hand_over(self, batch, sent):
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(sent)
        batch.record_stream(stream)
        return batch


def train_epoch(model, optimizer, arrays, device="cuda"):
    total = torch.zeros((), device=device)
    steps = 0
    for batch in StagedBatches(arrays, device):
        optimizer.zero_grad(set_to_none=True)
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.detach()
        steps += 1
    if steps == 0:
        return 0.0
    return total.item() / steps
