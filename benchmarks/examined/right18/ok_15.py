"""Block allocator for a paged KV cache with swap to host memory."""
import torch


class SwapHandle:
    def __init__(self, host, event):
        self.host = host
        self.event = event


class PagedCache:
    def __init__(self, blocks, block_shape, dtype=torch.float16, device="cuda"):
        self.device = torch.device(device)
        self.store = torch.zeros((blocks, *block_shape), dtype=dtype, device=self.device)
        self.swap = torch.cuda.Stream(self.device)
        self.swap.wait_stream(torch.cuda.current_stream(self.device))
        self.store.record_stream(self.swap)
        self.free = list(range(blocks))
        self.leaving = {}
        self.arriving = {}

    def allocate(self, count):
        if count > len(self.free):
            raise MemoryError(f"{count} blocks wanted, {len(self.free)} free")
        stream = torch.cuda.current_stream(self.device)
        chosen = [self.free.pop() for _ in range(count)]
        for block in chosen:
            event = self.leaving.pop(block, None)
            if event is not None:
                stream.wait_event(event)
        return chosen

    def release(self, blocks):
        self.touch(blocks)
        self._vacate(blocks, torch.cuda.current_stream(self.device).record_event())

    def _vacate(self, blocks, event):
        for block in blocks:
            self.arriving.pop(block, None)
            self.leaving[block] = event
        self.free.extend(blocks)

    def touch(self, blocks):
        stream = torch.cuda.current_stream(self.device)
        for block in blocks:
            event = self.arriving.get(block)
            if event is not None:
                stream.wait_event(event)
        return self.store

    def swap_out(self, blocks):
        host = torch.empty(
            (len(blocks), *self.store.shape[1:]), dtype=self.store.dtype, pin_memory=True
        )
        self.touch(blocks)
        self.swap.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.swap):
            for row, block in enumerate(blocks):
                host[row].copy_(self.store[block], non_blocking=True)
            event = self.swap.record_event()
        self._vacate(blocks, event)
        return SwapHandle(host, event)

    def swap_in(self, handle):
        blocks = self.allocate(handle.host.shape[0])
        self.swap.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.swap):
            for row, block in enumerate(blocks):
                self.store[block].copy_(handle.host[row], non_blocking=True)
            event = self.swap.record_event()
        for block in blocks:
            self.arriving[block] = event
        return blocks

    def write(self, block, offset, values):
        store = self.touch([block])
        store[block, offset : offset + values.shape[0]] = values

    def read(self, blocks):
        return self.touch(blocks)[torch.as_tensor(blocks, device=self.device)]

    @staticmethod
    def export(handle):
        handle.event.synchronize()
        return handle.host.float().numpy()
