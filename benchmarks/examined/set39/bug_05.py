"""Moves paged KV blocks between the serving engine and a pinned host cache."""
import torch


class PagedKVConnector:
    def __init__(self, layers, page_numel, max_pages, dtype=torch.float16, device="cuda"):
        self.device = torch.device(device)
        self.layers = layers
        self.stream = torch.cuda.Stream(self.device)
        self.ids = torch.zeros(max_pages, dtype=torch.int64, device=self.device)
        self.scratch = torch.empty(max_pages, page_numel, dtype=dtype, device=self.device)
        self.host_cache = {}
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def _stage_block_ids(self, block_ids):
        host = torch.tensor(block_ids, dtype=torch.int64).pin_memory()
        n = len(block_ids)
        self.ids[:n].copy_(host, non_blocking=True)
        return self.ids[:n]

    def save(self, key, block_ids, kv_ready):
        ids = self._stage_block_ids(block_ids)
        n = ids.numel()
        chunks = []
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(kv_ready)
            for pages in self.layers:
                out = self.scratch[:n]
                torch.index_select(pages, 0, ids, out=out)
                host = torch.empty(out.shape, dtype=out.dtype, pin_memory=True)
                host.copy_(out, non_blocking=True)
                chunks.append(host)
        done = self.stream.record_event()
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
        self.num_pages = num_pages
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
            ready = self.prefill(rid, pages)
            self.connector.save(rid, pages, ready)
        return [self.connector.finish(rid)[0].float().mean().item() for rid in range(len(requests))]


if __name__ == "__main__":
    print(ToyEngine().run([64, 128, 96, 200]))
