import queue
import threading

import torch

from adapters import AdapterCache, LoraLinear


def worker(layer, inbox, results, lock):
    while True:
        job = inbox.get()
        if job is None:
            return
        i, tenant, x = job
        y = layer(x.to(layer.weight.device, layer.weight.dtype), tenant)
        score = y.float().norm(dim=-1).mean().item()
        with lock:
            results[i] = (tenant, score)


def main(threads=4, jobs=100, dim=1024):
    cache = AdapterCache(dim, 16)
    layer = LoraLinear(dim, cache)
    inbox, results, lock = queue.Queue(), {}, threading.Lock()
    pool = [
        threading.Thread(target=worker, args=(layer, inbox, results, lock))
        for _ in range(threads)
    ]
    for t in pool:
        t.start()
    for i in range(jobs):
        inbox.put((i, i % 9, torch.randn(32, dim)))
    for _ in pool:
        inbox.put(None)
    for t in pool:
        t.join()
    print(len(cache), cache.misses)
    for i in sorted(results)[:10]:
        print(i, *results[i])


if __name__ == "__main__":
    main()
