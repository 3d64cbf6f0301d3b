import torch
from dataclasses import dataclass


@dataclass
class PutEntry:
    key: str
    tensor: torch.Tensor


class SharedMemoryCache:
    def __init__(self):
        self._segments = {}

    def segment(self, key, like):
        seg = self._segments.get(key)
        if seg is None or seg.shape != like.shape or seg.dtype != like.dtype:
            seg = torch.empty(like.shape, dtype=like.dtype).share_memory_()
            torch.cuda.cudart().cudaHostRegister(
                seg.data_ptr(), seg.numel() * seg.element_size(), 0
            )
            self._segments[key] = seg
        return seg


class SharedMemoryTransport:
    """Pushes tensors to a store that lives on the same host."""

    def __init__(self, volume):
        self.volume = volume
        self.cache = SharedMemoryCache()

    def put(self, entries):
        copy_streams = {}
        handles = []
        for entry in entries:
            segment = self.cache.segment(entry.key, entry.tensor)
            if entry.tensor.is_cuda:
                device = entry.tensor.device
                stream = copy_streams.get(device)
                if stream is None:
                    stream = torch.cuda.Stream(device=device)
                    stream.wait_stream(torch.cuda.current_stream(device))
                    copy_streams[device] = stream
                with torch.cuda.stream(stream):
                    segment.copy_(entry.tensor, non_blocking=True)
            else:
                segment.copy_(entry.tensor)
            handles.append((entry.key, segment))
        for stream in copy_streams.values():
            stream.synchronize()
        self.volume.publish(handles)


class DictVolume:
    def __init__(self):
        self.data = {}

    def publish(self, handles):
        for key, segment in handles:
            self.data[key] = segment.clone()


def push_policy(model, optimizer, batches, loss_fn):
    transport = SharedMemoryTransport(DictVolume())
    for step, (x, y) in enumerate(batches):
        loss = loss_fn(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            entries = [PutEntry(n, p.detach().t() if p.dim() == 2 else p.detach())
                       for n, p in model.named_parameters()]
            transport.put(entries)
    return transport.volume.data
