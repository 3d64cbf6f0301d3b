"""Swap space for the KV cache: blocks go out to pinned memory and come back on demand."""
import torch


class Transfer:
    """A handle for a queued swap."""

    def __init__(self, event):
        self._event = event

    def done(self):
        return self._event.query()

    def wait(self):
        torch.cuda.current_stream().wait_event(self._event)

    def synchronize(self):
        self._event.synchronize()


class KVSwapper:
    def __init__(self, gpu_cache, num_host_blocks):
        self.gpu = gpu_cache
        self.host = torch.empty((num_host_blocks,) + tuple(gpu_cache.shape[1:]),
                                dtype=gpu_cache.dtype, pin_memory=True)
        self.stream = torch.cuda.Stream()

    def _submit(self, pairs, src, dst):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for s, d in pairs:
                dst[d].copy_(src[s], non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        return Transfer(event)

    def swap_out(self, pairs):
        return self._submit(pairs, self.gpu, self.host)

    def swap_in(self, pairs):
        return self._submit(pairs, self.host, self.gpu)


class Engine:
    def __init__(self, num_blocks=64, block=16, heads=8, dim=64):
        self.cache = torch.zeros(num_blocks, 2, block, heads, dim, device="cuda")
        self.swapper = KVSwapper(self.cache, num_blocks)

    def write(self, block_ids, kv):
        self.cache[block_ids] = kv

    def attend(self, block_ids, q):
        k, v = self.cache[block_ids].unbind(1)
        score = torch.einsum("hd,nbhd->nbh", q, k).softmax(1)
        return torch.einsum("nbh,nbhd->hd", score, v)

    def preempt(self, mapping):
        handle = self.swapper.swap_out(mapping)
        handle.wait()

    def resume(self, mapping):
        handle = self.swapper.swap_in([(h, g) for g, h in mapping])
        handle.wait()


def main():
    eng = Engine()
    ids = torch.arange(8, device="cuda")
    for _ in range(10):
        eng.write(ids, torch.randn(8, 2, 16, 8, 64, device="cuda"))
        mapping = [(i, i) for i in range(8)]
        eng.preempt(mapping)
        eng.write(ids, torch.randn(8, 2, 16, 8, 64, device="cuda"))
        eng.resume(mapping)
        print(eng.attend(ids, torch.randn(8, 64, device="cuda")).sum().item())


if __name__ == "__main__":
    main()
