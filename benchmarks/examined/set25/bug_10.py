import queue
import threading

import torch
import torch.nn as nn


class KVStore:
    def __init__(self):
        self.data = {}

    def put(self, keys, values):
        for k, v in zip(keys, values):
            self.data[k] = v


class KVCacheStoreSendingThread(threading.Thread):
    def __init__(self, kv_caches, store, device):
        super().__init__(daemon=True)
        self.kv_caches = kv_caches
        self.store = store
        self.device = device
        self.requests = queue.Queue()

    def add_request(self, req_id, block_ids):
        self.requests.put((req_id, block_ids))

    def _handle_request(self, req_id, block_ids):
        keys, values = [], []
        torch.cuda.current_stream().synchronize()
        for layer, cache in enumerate(self.kv_caches):
            for b in block_ids:
                keys.append((req_id, layer, b))
                values.append(cache[b].cpu())
        self.store.put(keys, values)

    def run(self):
        torch.cuda.set_device(self.device)
        while True:
            item = self.requests.get()
            if item is None:
                break
            self._handle_request(*item)


class ModelRunner:
    def __init__(self, layers, blocks, block_size, dim, device):
        self.stream = torch.cuda.Stream(device)
        self.kv_caches = [torch.zeros(blocks, block_size, dim, device=device) for _ in range(layers)]
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers)).to(device)
        self.kv_proj = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers)).to(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    @torch.inference_mode()
    def prefill(self, tokens, block_ids):
        self.stream.wait_stream(torch.cuda.current_stream())
        tokens.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            x = tokens
            for layer, proj, cache in zip(self.layers, self.kv_proj, self.kv_caches):
                kv = proj(x).view(len(block_ids), *cache.shape[1:])
                for i, b in enumerate(block_ids):
                    cache[b].copy_(kv[i])
                x = torch.relu(layer(x))
        return x


class Worker:
    def __init__(self, device):
        self.runner = ModelRunner(8, 256, 128, 1024, device)
        self.store = KVStore()
        self.sender = KVCacheStoreSendingThread(self.runner.kv_caches, self.store, device)
        self.sender.start()

    def execute(self, req_id, tokens, block_ids):
        self.runner.prefill(tokens, block_ids)
        self.sender.add_request(req_id, block_ids)

    def close(self):
        self.sender.requests.put(None)
        self.sender.join()


def main():
    device = torch.device("cuda", 0)
    worker = Worker(device)
    for i in range(32):
        blocks = list(range(i * 8, i * 8 + 8))
        worker.execute(f"req-{i}", torch.randn(8 * 128, 1024, device=device), blocks)
    worker.close()
    print(len(worker.store.data))


if __name__ == "__main__":
    main()
