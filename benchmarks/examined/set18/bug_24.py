from dataclasses import dataclass, field

import torch


class StagingBuffer:
    """Device scratch for one page batch; grows to the largest request seen."""

    def __init__(self, device: torch.device, dtype: torch.dtype):
        self.device = device
        self.dtype = dtype
        self.data: torch.Tensor | None = None

    def ensure_buffer(self, shape: tuple[int, ...]) -> torch.Tensor:
        numel = 1
        for s in shape:
            numel *= s
        if self.data is None or self.data.numel() < numel:
            self.data = torch.empty(numel, dtype=self.dtype, device=self.device)
        return self.data[:numel].view(shape)


@dataclass
class Request:
    rid: str
    page_ids: torch.Tensor
    saved: list[tuple[torch.Tensor, torch.cuda.Event]] = field(default_factory=list)


class PageOffloadConnector:
    """Saves KV pages: pack stage gathers pages, copy stage moves them to the host."""

    def __init__(self, kv_cache: torch.Tensor, depth: int = 2):
        self.kv_cache = kv_cache
        device, dtype = kv_cache.device, kv_cache.dtype
        self.pack_stream = torch.cuda.Stream(device)
        self.copy_stream = torch.cuda.Stream(device)
        self.staging = [StagingBuffer(device, dtype) for _ in range(depth)]
        self.ready_event = [torch.cuda.Event() for _ in range(depth)]
        self.free_event = [torch.cuda.Event() for _ in range(depth)]
        self.turn = 0

    def save(self, request: Request, kv_ready: torch.cuda.Event):
        slot = self.turn
        self.turn = (slot + 1) % len(self.staging)
        shape = (request.page_ids.numel(), *self.kv_cache.shape[1:])

        staged = self.staging[slot].ensure_buffer(shape)
        with torch.cuda.stream(self.pack_stream):
            self.pack_stream.wait_event(kv_ready)
            self.pack_stream.wait_event(self.free_event[slot])
            torch.index_select(self.kv_cache, 0, request.page_ids, out=staged)
            self.ready_event[slot].record(self.pack_stream)

        host = torch.empty(shape, dtype=staged.dtype, pin_memory=True)
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(self.ready_event[slot])
            host.copy_(staged, non_blocking=True)
            self.free_event[slot].record(self.copy_stream)
            done = self.copy_stream.record_event()
        request.saved.append((host, done))

    def collect(self, request: Request) -> list[torch.Tensor]:
        pages = []
        for host, done in request.saved:
            done.synchronize()
            pages.append(host)
        return pages


class Runner:
    def __init__(self, vocab=32000, dim=2048, pages=512, page_size=16):
        dev = torch.device("cuda")
        self.lm_head = torch.randn(vocab, dim, device=dev, dtype=torch.bfloat16)
        self.kv_cache = torch.zeros(pages, page_size, dim, device=dev, dtype=torch.bfloat16)
        self.connector = PageOffloadConnector(self.kv_cache)

    def forward(self, request: Request, hidden: torch.Tensor) -> torch.Tensor:
        self.kv_cache.index_copy_(0, request.page_ids, hidden.view(-1, *self.kv_cache.shape[1:]))
        return torch.nn.functional.rms_norm(hidden, hidden.shape[-1:])

    def sample(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = (hidden @ self.lm_head.t()).float()
        probs = torch.softmax(logits / 0.7, dim=-1)
        return torch.multinomial(probs, 1).squeeze(-1)

    def step(self, request: Request, hidden: torch.Tensor) -> torch.Tensor:
        out = self.forward(request, hidden)
        kv_ready = torch.cuda.current_stream().record_event()
        tokens = self.sample(out)
        self.connector.save(request, kv_ready)
        return tokens


def main():
    runner = Runner()
    requests, tokens, start = [], [], 0
    for count in (16, 32, 64, 128):
        request = Request(f"r{count}", torch.arange(start, start + count, device="cuda"))
        start += count
        hidden = torch.randn(count * 16, 2048, device="cuda", dtype=torch.bfloat16)
        tokens.append(runner.step(request, hidden))
        requests.append(request)
    for request in requests:
        print(request.rid, [p.shape for p in runner.connector.collect(request)])
    print(torch.cat(tokens)[:8].tolist())


if __name__ == "__main__":
    main()
