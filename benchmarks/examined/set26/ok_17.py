from collections import defaultdict, deque

import torch


class HostBlock:
    def __init__(self, nbytes):
        self.storage = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self.nbytes = nbytes
        self.streams = set()
        self.event_count = 0


class PinnedBlockAllocator:
    """Caches page-locked blocks that are shared by several streams."""

    def __init__(self):
        self.free_list = defaultdict(list)
        self.events = deque()

    @staticmethod
    def _round(nbytes):
        return 1 << max(9, (nbytes - 1).bit_length())

    def process_events(self):
        for _ in range(len(self.events)):
            event, block = self.events.popleft()
            if not event.query():
                self.events.append((event, block))
                continue
            block.event_count -= 1
            if block.event_count == 0:
                self.free_list[block.nbytes].append(block)

    def allocate(self, nbytes):
        self.process_events()
        size = self._round(nbytes)
        if self.free_list[size]:
            return self.free_list[size].pop()
        return HostBlock(size)

    def record_use(self, block, stream):
        block.streams.add(stream)

    def free(self, block):
        streams, block.streams = block.streams, set()
        for stream in streams:
            event = torch.cuda.Event()
            event.record(stream)
            block.event_count += 1
            self.events.append((event, block))
        if block.event_count == 0:
            self.free_list[block.nbytes].append(block)


class FeatureUploader:
    def __init__(self, ways=3):
        self.allocator = PinnedBlockAllocator()
        self.streams = [torch.cuda.Stream() for _ in range(ways)]

    def upload(self, array, way):
        source = torch.as_tensor(array)
        block = self.allocator.allocate(source.numel() * source.element_size())
        flat = source.contiguous().view(-1).view(torch.uint8)
        block.storage[: flat.numel()].copy_(flat)
        stream = self.streams[way]
        with torch.cuda.stream(stream):
            device = torch.empty(source.shape, dtype=source.dtype, device="cuda")
            device.view(-1).view(torch.uint8).copy_(block.storage[: flat.numel()], non_blocking=True)
        self.allocator.record_use(block, stream)
        self.allocator.free(block)
        return device

    def join(self, tensors):
        main = torch.cuda.current_stream()
        for way, t in tensors:
            main.wait_stream(self.streams[way])
            t.record_stream(main)


def reduce_tables(tables):
    uploader = FeatureUploader()
    total = torch.zeros((), dtype=torch.float64, device="cuda")
    for group in tables:
        parts = [(i % 3, uploader.upload(t, i % 3)) for i, t in enumerate(group)]
        uploader.join(parts)
        for _, t in parts:
            total += t.double().sum()
    return total.item()
