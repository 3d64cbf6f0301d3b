"""KV cache server context: stores and retrieves pages of a serving engine."""
import threading

import torch


class GPUCacheContext:
    def __init__(self, kv_caches, chunk_tokens=256, device="cuda:0"):
        self.device = torch.device(device)
        self.kv_caches = kv_caches
        self.chunk_tokens = chunk_tokens
        self.hidden = kv_caches[0].shape[-1]
        self.stream = torch.cuda.Stream(device=self.device)
        _, greatest = torch.cuda.Stream.priority_range()
        self.high_priority_stream = torch.cuda.Stream(device=self.device, priority=greatest)
        self.tmp_gpu_buffer_ = torch.empty(
            len(kv_caches), chunk_tokens, self.hidden, dtype=kv_caches[0].dtype, device=self.device
        )

    def get_tmp_gpu_buffer(self, num_tokens):
        return self.tmp_gpu_buffer_[:, :num_tokens]


class CacheServer:
    def __init__(self, context):
        self.context = context
        self.lock = threading.Lock()
        self.objects = {}

    def _alloc_memory_obj(self, num_tokens):
        ctx = self.context
        return torch.empty(
            len(ctx.kv_caches), num_tokens, ctx.hidden, dtype=ctx.kv_caches[0].dtype, pin_memory=True
        )

    def store(self, key, slots, producer_event):
        ctx = self.context
        with self.lock, torch.cuda.device(ctx.device), torch.cuda.stream(ctx.stream):
            producer_event.wait(ctx.stream)
            buf = ctx.get_tmp_gpu_buffer(slots.numel())
            for layer, cache in enumerate(ctx.kv_caches):
                torch.index_select(cache, 0, slots, out=buf[layer])
            slots.record_stream(ctx.stream)
            obj = self._alloc_memory_obj(slots.numel())
            obj.copy_(buf, non_blocking=True)
            done = torch.cuda.Event()
            done.record()
            self.objects[key] = (obj, done)
        return done

    def retrieve(self, key, slots, consumer_event):
        ctx = self.context
        obj, stored = self.objects[key]
        stored.synchronize()
        with self.lock, torch.cuda.device(ctx.device), torch.cuda.stream(ctx.high_priority_stream):
            consumer_event.wait(ctx.high_priority_stream)
            buf = ctx.get_tmp_gpu_buffer(slots.numel())
            buf.copy_(obj, non_blocking=True)
            for layer, cache in enumerate(ctx.kv_caches):
                cache.index_copy_(0, slots, buf[layer])
            slots.record_stream(ctx.high_priority_stream)
            done = torch.cuda.Event()
            done.record()
        return done


def writer(server, jobs):
    for key, slots, event in jobs:
        server.store(key, slots, event)


def main(layers=16, pages=4096, hidden=1024):
    device = "cuda:0"
    caches = [torch.zeros(pages, hidden, dtype=torch.half, device=device) for _ in range(layers)]
    server = CacheServer(GPUCacheContext(caches, device=device))

    warm = torch.arange(0, 256, device=device)
    for cache in caches:
        cache[warm] = 1.0
    ready = torch.cuda.Event()
    ready.record()
    server.store("system-prompt", warm, ready)
    server.objects["system-prompt"][1].synchronize()

    jobs = []
    for i in range(1, 8):
        slots = torch.arange(i * 256, (i + 1) * 256, device=device)
        for cache in caches:
            cache[slots] = float(i)
        event = torch.cuda.Event()
        event.record()
        jobs.append((f"req-{i}", slots, event))

    thread = threading.Thread(target=writer, args=(server, jobs))
    thread.start()
    for i in range(8, 12):
        slots = torch.arange(i * 256, (i + 1) * 256, device=device)
        event = torch.cuda.Event()
        event.record()
        loaded = server.retrieve("system-prompt", slots, event)
        loaded.wait()
        print(i, caches[0][slots].float().mean().item())
    thread.join()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
