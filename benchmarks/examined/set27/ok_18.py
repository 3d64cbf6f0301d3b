from collections import deque

import torch


class PagedCache:
    """One tensor of KV pages; page numbers are handed out by the host."""

    def __init__(self, pages, page_size, width, stream):
        self.data = torch.zeros(pages, page_size, width, dtype=torch.bfloat16, device="cuda")
        self.free_pages = deque(range(pages))
        self.compute_stream = stream
        self.compute_stream.wait_stream(torch.cuda.current_stream())

    def allocate(self, n):
        if len(self.free_pages) < n:
            return None
        return [self.free_pages.popleft() for _ in range(n)]

    def free(self, pages):
        self.free_pages.extend(pages)


class OffloadingManager:
    """Moves whole requests between the paged cache and a pinned host pool.

    All copies run on the compute stream.
    """

    def __init__(self, cache, host_pages):
        self.cache = cache
        shape = cache.data.shape[1:]
        self.host = torch.empty(host_pages, *shape, dtype=cache.data.dtype, pin_memory=True)
        self.free_host = deque(range(host_pages))
        self.offloaded = {}

    def _device_index(self, pages):
        return torch.tensor(pages).pin_memory().to("cuda", non_blocking=True)

    def offload_request(self, rid, pages):
        if len(self.free_host) < len(pages):
            return False
        slots = [self.free_host.popleft() for _ in pages]
        with torch.cuda.stream(self.cache.compute_stream):
            packed = self.cache.data.index_select(0, self._device_index(pages))
            for i, slot in enumerate(slots):
                self.host[slot].copy_(packed[i], non_blocking=True)
        self.cache.free(pages)
        self.offloaded[rid] = slots
        return True

    def restore_request(self, rid):
        slots = self.offloaded[rid]
        pages = self.cache.allocate(len(slots))
        if pages is None:
            return None
        del self.offloaded[rid]
        with torch.cuda.stream(self.cache.compute_stream):
            packed = torch.empty(
                len(slots), *self.host.shape[1:], dtype=self.host.dtype, device="cuda"
            )
            for i, slot in enumerate(slots):
                packed[i].copy_(self.host[slot], non_blocking=True)
            self.cache.data.index_copy_(0, self._device_index(pages), packed)
        self.free_host.extend(slots)
        return pages


class ContinuousBatcher:
    def __init__(self, model, cache, offloader):
        self.model = model
        self.cache = cache
        self.offloader = offloader
        self.running = {}
        self.paused = deque()

    def _make_room(self, needed):
        while len(self.cache.free_pages) < needed and len(self.running) > 1:
            rid, pages = self.running.popitem()
            if self.offloader.offload_request(rid, pages):
                self.paused.append(rid)
            else:
                self.running[rid] = pages
                break

    def admit(self, rid, pages_needed):
        self._make_room(pages_needed)
        pages = self.cache.allocate(pages_needed)
        if pages is not None:
            self.running[rid] = pages
        return pages is not None

    def resume(self):
        while self.paused:
            pages = self.offloader.restore_request(self.paused[0])
            if pages is None:
                return
            self.running[self.paused.popleft()] = pages

    @torch.inference_mode()
    def step(self, token_ids):
        stream = self.cache.compute_stream
        ids = torch.tensor(token_ids).pin_memory()
        with torch.cuda.stream(stream):
            ids = ids.to("cuda", non_blocking=True)
            logits = self.model(ids, self.cache.data, list(self.running.values()))
            tokens = logits.argmax(dim=-1).to("cpu", non_blocking=True)
            done = stream.record_event()
        done.synchronize()
        self.resume()
        return tokens.tolist()
