"""Scheduler metadata upload: page-locked buffers are recycled only when their copy is known to be over."""
import torch


class PinnedRecycler:
    """Hands out page-locked buffers of one shape; never waits, grows instead."""

    def __init__(self, shape, dtype, limit=8):
        self.shape = shape
        self.dtype = dtype
        self.limit = limit
        self._entries = []
        self.created = 0

    def take(self):
        for i, (event, buf) in enumerate(self._entries):
            if event.query():
                del self._entries[i]
                return buf
        self.created += 1
        return torch.empty(self.shape, dtype=self.dtype, pin_memory=True)

    def give(self, buf, stream):
        event = torch.cuda.Event()
        event.record(stream)
        self._entries.append((event, buf))
        if len(self._entries) > self.limit:
            del self._entries[0]


class BatchMetadata:
    """Device copies of positions, sequence lengths and block tables, one set per step in turn."""

    def __init__(self, max_seqs, max_blocks, device="cuda", sets=2):
        self.max_seqs = max_seqs
        self.max_blocks = max_blocks
        width = 2 + max_blocks
        self.recycler = PinnedRecycler((max_seqs, width), torch.int32)
        self.device_sets = [
            torch.zeros(max_seqs, width, dtype=torch.int32, device=device) for _ in range(sets)
        ]
        self.turn = 0

    def build(self, requests):
        stream = torch.cuda.current_stream()
        host = self.recycler.take()
        host.zero_()
        for row, (length, blocks) in enumerate(requests):
            host[row, 0] = length - 1
            host[row, 1] = length
            host[row, 2 : 2 + len(blocks)] = torch.as_tensor(blocks, dtype=torch.int32)
        target = self.device_sets[self.turn]
        self.turn = (self.turn + 1) % len(self.device_sets)
        n = len(requests)
        target[:n].copy_(host[:n], non_blocking=True)
        self.recycler.give(host, stream)
        view = target[:n]
        return view[:, 0], view[:, 1], view[:, 2:]


class PagedModel(torch.nn.Module):
    def __init__(self, blocks=8192, block_size=16, dim=512, vocab=32000):
        super().__init__()
        self.block_size = block_size
        self.register_buffer("cache", torch.randn(blocks, block_size, dim) * 0.1)
        self.head = torch.nn.Linear(dim, vocab, bias=False)

    def forward(self, position, length, table):
        kv = self.cache[table.long()].flatten(1, 2)
        index = torch.arange(kv.shape[1], device=kv.device)
        mask = (index[None] < length[:, None]).unsqueeze(-1)
        pooled = (kv * mask).sum(1) / length.unsqueeze(-1)
        return self.head(pooled + position.unsqueeze(-1) * 1e-4).argmax(-1)


class Engine:
    def __init__(self, model, max_seqs=64, max_blocks=32):
        self.model = model
        self.meta = BatchMetadata(max_seqs, max_blocks)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    @torch.inference_mode()
    def decode(self, prompt_lengths, steps):
        lengths = list(prompt_lengths)
        tables = [[1 + 32 * i + j for j in range(32)] for i in range(len(lengths))]
        outputs = []
        with torch.cuda.stream(self.stream):
            for _ in range(steps):
                requests = [(n, t[: (n + 15) // 16]) for n, t in zip(lengths, tables)]
                outputs.append(self.model(*self.meta.build(requests)))
                lengths = [n + 1 for n in lengths]
            return torch.stack(outputs).cpu()


if __name__ == "__main__":
    engine = Engine(PagedModel().cuda())
    print(engine.decode([17, 33, 80, 121], 200).sum())
