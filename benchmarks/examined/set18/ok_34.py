import torch


class StagingBuffer:
    """Device scratch of one slot, allocated on the stream that writes it first."""

    def __init__(self, device: torch.device, dtype: torch.dtype):
        self.device = device
        self.dtype = dtype
        self.data: torch.Tensor | None = None

    def ensure_buffer(self, numel: int) -> torch.Tensor:
        if self.data is None or self.data.numel() < numel:
            self.data = None
            self.data = torch.empty(numel, dtype=self.dtype, device=self.device)
        return self.data[:numel]


class Stage:
    """One direction of the two-stage transfer: (first stream, second stream)."""

    def __init__(self, first, second, device, dtype, depth):
        self.first = first
        self.second = second
        self.staging = [StagingBuffer(device, dtype) for _ in range(depth)]
        self.ready = [torch.cuda.Event() for _ in range(depth)]
        self.free = [torch.cuda.Event() for _ in range(depth)]
        self.turn = 0

    def run(self, numel, after, first_fn, second_fn) -> torch.cuda.Event:
        slot = self.turn
        self.turn = (slot + 1) % len(self.staging)
        with torch.cuda.stream(self.first):
            self.first.wait_event(self.free[slot])
            if after is not None:
                self.first.wait_event(after)
            staged = self.staging[slot].ensure_buffer(numel)
            first_fn(staged)
            self.ready[slot].record(self.first)
        with torch.cuda.stream(self.second):
            self.second.wait_event(self.ready[slot])
            second_fn(staged)
            self.free[slot].record(self.second)
            return self.second.record_event()


class PageOffloadConnector:
    def __init__(self, kv_cache: torch.Tensor, depth: int = 2):
        self.kv_cache = kv_cache
        self.page_shape = kv_cache.shape[1:]
        self.page_numel = kv_cache[0].numel()
        device, dtype = kv_cache.device, kv_cache.dtype
        self.pack_stream = torch.cuda.Stream(device)
        self.copy_stream = torch.cuda.Stream(device)
        self.save_stage = Stage(self.pack_stream, self.copy_stream, device, dtype, depth)
        self.load_stage = Stage(self.copy_stream, self.pack_stream, device, dtype, depth)

    def save(self, page_ids: torch.Tensor):
        """Starts saving pages; returns the host pages and the event that completes them."""
        count = page_ids.numel()
        host = torch.empty((count, *self.page_shape), dtype=self.kv_cache.dtype, pin_memory=True)
        kv_ready = torch.cuda.current_stream().record_event()

        def pack(staged):
            torch.index_select(self.kv_cache, 0, page_ids, out=staged.view(host.shape))

        def copy(staged):
            host.copy_(staged.view(host.shape), non_blocking=True)

        done = self.save_stage.run(count * self.page_numel, kv_ready, pack, copy)
        page_ids.record_stream(self.pack_stream)
        return host, done

    def load(self, host: torch.Tensor, page_ids: torch.Tensor) -> torch.cuda.Event:
        """Starts loading pages; the caller's stream has to wait for the returned event."""
        last_use = torch.cuda.current_stream().record_event()

        def copy(staged):
            staged.view(host.shape).copy_(host, non_blocking=True)

        def unpack(staged):
            self.kv_cache.index_copy_(0, page_ids, staged.view(host.shape))

        done = self.load_stage.run(host.numel(), last_use, copy, unpack)
        page_ids.record_stream(self.pack_stream)
        return done


def main(pages=256, page_size=16, dim=1024):
    kv = torch.zeros(pages, page_size, dim, device="cuda", dtype=torch.bfloat16)
    connector = PageOffloadConnector(kv)
    saved = []
    for count in (4, 8, 16, 32):
        ids = torch.arange(count, device="cuda") + count
        kv[ids] = torch.randn(count, page_size, dim, device="cuda", dtype=torch.bfloat16)
        scores = torch.softmax(kv[ids].float().flatten(1) @ torch.randn(page_size * dim, 64, device="cuda"), -1)
        saved.append((*connector.save(ids), scores.argmax(-1)))

    for host, done, _ in saved:
        done.synchronize()
        print(host.float().std().item())

    for host, _, best in saved:
        ids = pages - 1 - torch.arange(host.shape[0], device="cuda")
        torch.cuda.current_stream().wait_event(connector.load(host, ids))
        print(kv[ids].float().std().item(), best.float().mean().item())


if __name__ == "__main__":
    main()
