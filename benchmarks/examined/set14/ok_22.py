import mmap
import os

import torch


class StagingBuffer:
    def __init__(self, size):
        self.host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        self.event = torch.cuda.Event()


class WeightUploader:
    """Uploads tensors of a memory-mapped file through rotating pinned buffers."""

    def __init__(self, path, chunk=16 << 20, buffers=4):
        self.file = open(path, "rb")
        size = os.fstat(self.file.fileno()).st_size
        self.map = mmap.mmap(self.file.fileno(), size, access=mmap.ACCESS_COPY)
        self.chunk = chunk
        self.ring = [StagingBuffer(chunk) for _ in range(buffers)]
        self.turn = 0
        self.stream = torch.cuda.Stream()

    def _next(self):
        buffer = self.ring[self.turn]
        self.turn = (self.turn + 1) % len(self.ring)
        buffer.event.synchronize()
        return buffer

    def _upload(self, offset, nbytes):
        source = torch.frombuffer(self.map, dtype=torch.uint8, count=nbytes, offset=offset)
        target = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        for start in range(0, nbytes, self.chunk):
            part = source[start : start + self.chunk]
            buffer = self._next()
            staged = buffer.host[: part.numel()]
            staged.copy_(part)
            target[start : start + part.numel()].copy_(staged, non_blocking=True)
            buffer.event.record()
        return target

    def load(self, index):
        current = torch.cuda.current_stream()
        tensors = {}
        with torch.cuda.stream(self.stream):
            for name, (dtype, shape, offset, nbytes) in index.items():
                tensors[name] = self._upload(offset, nbytes).view(dtype).view(shape)
        current.wait_stream(self.stream)
        for tensor in tensors.values():
            tensor.record_stream(current)
        return tensors

    def close(self):
        self.stream.synchronize()
        self.map = None
        self.file.close()


def load_model(model, path, index):
    uploader = WeightUploader(path)
    state = uploader.load(index)
    model.load_state_dict(state, assign=True)
    uploader.close()
    return model
