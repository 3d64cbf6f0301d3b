"""Multimodal feature transport: encoder process to scheduler process over CUDA IPC."""
import torch
import torch.multiprocessing as mp


class FeaturePool:
    """Fixed device slices; a slice is reused once the scheduler acknowledged it."""

    def __init__(self, slices, tokens, dim):
        self.memory = torch.zeros(slices, tokens, dim, device="cuda")
        torch.cuda.synchronize()
        self.free = list(range(slices))

    def acquire(self, acks):
        while not self.free:
            self.free.append(acks.get())
        return self.free.pop(0)


def encoder(requests, outbox, acks, slices, tokens, dim):
    pool = FeaturePool(slices, tokens, dim)
    outbox.put(pool.memory)
    projection = torch.randn(768, dim, device="cuda") / 28
    while (request := requests.get()) is not None:
        k = pool.acquire(acks)
        gen = torch.Generator(device="cuda").manual_seed(request)
        patches = torch.randn(tokens, 768, device="cuda", generator=gen)
        torch.matmul(patches, projection, out=pool.memory[k])
        torch.cuda.current_stream().synchronize()
        outbox.put((request, k))
    outbox.put(None)
    while acks.get() >= 0:
        continue


class Scheduler:
    def __init__(self, memory, acks):
        self.memory, self.acks = memory, acks
        self.layers = [torch.randn(1024, 1024, device="cuda") / 32 for _ in range(8)]

    def take(self, k):
        features = self.memory[k].clone()
        self.acks.put(k)
        return features

    def prefill(self, h):
        for w in self.layers:
            h = torch.nn.functional.gelu(h @ w)
        return h.mean()


def main(count=200):
    ctx = mp.get_context("spawn")
    requests, inbox, acks = ctx.Queue(), ctx.Queue(), ctx.Queue()
    proc = ctx.Process(target=encoder, args=(requests, inbox, acks, 2, 4096, 1024))
    proc.start()
    scheduler = Scheduler(inbox.get(), acks)
    for r in range(count):
        requests.put(r)
    requests.put(None)
    means = []
    while (item := inbox.get()) is not None:
        request, k = item
        means.append(scheduler.prefill(scheduler.take(k)))
    print(torch.stack(means).mean().item())
    del scheduler
    acks.put(-1)
    proc.join()


if __name__ == "__main__":
    main()
