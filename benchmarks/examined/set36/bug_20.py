"""Ragged-array upload through recycled page-locked blocks."""
import threading

import numpy as np
import torch


class PinnedAllocator:
    """Page-locked blocks by power of two, with events."""

    def __init__(self):
        self.lock = threading.Lock()
        self.free = {}
        self.events = {}

    def allocate(self, nbytes):
        size = 1 << max(12, (nbytes - 1).bit_length())
        with self.lock:
            blocks = self.free.setdefault(size, [])
            for i, block in enumerate(blocks):
                event = self.events.get(block.data_ptr())
                if event is None or event.query():
                    self.events.pop(block.data_ptr(), None)
                    return blocks.pop(i)
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def record_event(self, tensor, stream):
        with self.lock:
            self.events[tensor.data_ptr()] = stream.record_event()

    def deallocate(self, block):
        with self.lock:
            self.free[block.numel()].append(block)


class RaggedUploader:
    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self.pinned = PinnedAllocator()
        self.stream = torch.cuda.Stream(self.device)

    def upload(self, arrays):
        """arrays: float32 numpy arrays. Returns device tensors, ready on the current stream."""
        sizes = [a.size * 4 for a in arrays]
        block = self.pinned.allocate(sum(sizes))
        host = block.numpy()
        result, offset = [], 0
        for array, size in zip(arrays, sizes):
            host[offset:offset + size] = array.ravel().view(np.uint8)
            offset += size
        offset = 0
        current = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self.stream):
            for array, size in zip(arrays, sizes):
                piece = block[offset:offset + size]
                tensor = torch.empty(array.shape, device=self.device)
                tensor.view(-1).view(torch.uint8).copy_(piece, non_blocking=True)
                self.pinned.record_event(piece, self.stream)
                tensor.record_stream(current)
                result.append(tensor)
                offset += size
        self.pinned.deallocate(block)
        current.wait_stream(self.stream)
        return result


def epoch(uploader, model, utterances, batch=32):
    total = torch.zeros((), device=uploader.device)
    for i in range(0, len(utterances), batch):
        feats = uploader.upload([np.ascontiguousarray(u, np.float32)
                                 for u in utterances[i:i + batch]])
        with torch.no_grad():
            total += sum(model(f).sum() for f in feats)
    return total.item()
