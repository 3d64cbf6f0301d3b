import json
import mmap
import struct

import torch

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class SafetensorsFile:
    """Memory-mapped safetensors file."""

    def __init__(self, path):
        self.file = open(path, "rb")
        self.map = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_COPY)
        (size,) = struct.unpack("<Q", self.map[:8])
        self.header = json.loads(self.map[8 : 8 + size])
        self.header.pop("__metadata__", None)
        self.base = 8 + size

    def keys(self):
        return self.header.keys()

    def get(self, name):
        info = self.header[name]
        begin, end = info["data_offsets"]
        raw = torch.frombuffer(self.map, dtype=torch.uint8, count=end - begin, offset=self.base + begin)
        return raw.view(DTYPES[info["dtype"]]).view(info["shape"])


class PinnedWeightStager:
    """Moves pageable weights to the device through two pinned staging slots."""

    def __init__(self, slot_bytes=64 << 20, num_slots=2):
        self.stream = torch.cuda.Stream()
        self.slots = [torch.empty(slot_bytes, dtype=torch.uint8, pin_memory=True) for _ in range(num_slots)]
        self.events = [None] * num_slots
        self.next_slot = 0

    def _acquire(self):
        i = self.next_slot
        self.next_slot = (i + 1) % len(self.slots)
        if self.events[i] is not None:
            self.events[i].synchronize()
        return i

    def upload(self, src, dst):
        """Enqueues the copy of ``src`` into ``dst``; ordered with the caller by ``finish``."""
        self.stream.wait_stream(torch.cuda.current_stream())
        src_bytes = src.contiguous().view(-1).view(torch.uint8)
        dst_bytes = dst.view(-1).view(torch.uint8)
        chunk = self.slots[0].numel()
        for begin in range(0, src_bytes.numel(), chunk):
            end = min(begin + chunk, src_bytes.numel())
            i = self._acquire()
            staged = self.slots[i][: end - begin]
            staged.copy_(src_bytes[begin:end])
            with torch.cuda.stream(self.stream):
                dst_bytes[begin:end].copy_(staged, non_blocking=True)
                self.events[i] = self.stream.record_event()

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.stream)


def shard(tensor, dim, rank, world):
    return tensor if dim is None else tensor.chunk(world, dim=dim)[rank]


@torch.no_grad()
def load_weights(model, paths, rank, world, split_dims):
    stager = PinnedWeightStager()
    params = dict(model.named_parameters())
    scales = {}
    for path in paths:
        file = SafetensorsFile(path)
        for name in file.keys():
            weight = shard(file.get(name), split_dims.get(name), rank, world)
            staged = torch.empty(weight.shape, dtype=weight.dtype, device="cuda")
            stager.upload(weight, staged)
            stager.finish()
            target = params[name]
            if target.dtype == torch.float8_e4m3fn:
                scale = staged.abs().amax().float() / 448.0
                target.data.copy_((staged.float() / scale).to(torch.float8_e4m3fn))
                scales[name] = scale
            else:
                target.data.copy_(staged)
    return {name: scale.item() for name, scale in scales.items()}
