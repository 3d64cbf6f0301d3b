"""Moves paged KV blocks to a pinned host cache, all on the connector's own stream."""
import torch


class PagedKVConnector:
    def __init__(self, layers, page_numel, max_pages, dtype=torch.float16, device="cuda"):
        self.layers = layers
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.ids = torch.zeros(max_pages, dtype=torch.int64, device=device)
            self.scratch = torch.empty(max_pages, page_numel, dtype=dtype, device=device)
        self.host_cache = {}

    def _stage_block_ids(self, block_ids):
        host = torch.tensor(block_ids, dtype=torch.int64).pin_memory()
        view = self.ids[: len(block_ids)]
        view.copy_(host, non_blocking=True)
        return view

    def _gather(self, pages, ids):
        out = self.scratch[: ids.numel()]
        torch.index_select(pages, 0, ids, out=out)
        host = torch.empty(out.shape, dtype=out.dtype, pin_memory=True)
        host.copy_(out, non_blocking=True)
        return host

    def save(self, key, block_ids, kv_ready):
        with torch.cuda.stream(self.stream):
            ids = self._stage_block_ids(block_ids)
            kv_ready.wait()
            chunks = [self._gather(pages, ids) for pages in self.layers]
            done = torch.cuda.Event()
            done.record()
        self.host_cache[key] = (chunks, done)

    def finish(self, key):
        chunks, done = self.host_cache[key]
        done.synchronize()
        return chunks


class ToyEngine:
    def __init__(self, num_layers=8, num_pages=1024, page_numel=16 * 1024):
        self.kv = [
            torch.zeros(num_pages, page_numel, dtype=torch.float16, device="cuda")
            for _ in range(num_layers)
        ]
        self.free = list(range(num_pages))
        self.connector = PagedKVConnector(self.kv, page_numel, max_pages=256)

    def prefill(self, value, pages):
        table = torch.tensor(pages, device="cuda")
        for layer, pool in enumerate(self.kv):
            pool[table] = float(value + layer)
        return torch.cuda.current_stream().record_event()

    def run(self, requests):
        for rid, count in enumerate(requests):
            pages = [self.free.pop() for _ in range(count)]
            self.connector.save(rid, pages, self.prefill(rid, pages))
        return [self.connector.finish(r)[0].float().mean().item() for r in range(len(requests))]


if __name__ == "__main__":
    print(ToyEngine().run([64, 128, 96, 200]))
