"""Uploader with a cache of page-locked blocks, one block for all fields of a sample batch."""
import numpy as np
import torch

ALIGN = 256


def aligned(n):
    return (n + ALIGN - 1) // ALIGN * ALIGN


class Block:
    def __init__(self, nbytes):
        self.data = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self.nbytes = nbytes
        self.uses = []


class PinnedCache:
    """Blocks return to the cache at once; a later owner waits for their recorded uses."""

    def __init__(self):
        self.free = []
        self.by_ptr = {}

    def acquire(self, nbytes):
        for i, block in enumerate(self.free):
            if block.nbytes >= nbytes:
                self.free.pop(i)
                for ev in block.uses:
                    ev.synchronize()
                block.uses.clear()
                return block
        block = Block(nbytes)
        self.by_ptr[block.data.data_ptr()] = block
        return block

    def record_use(self, ptr, stream):
        block = self.by_ptr.get(ptr)
        if block is not None:
            block.uses.append(stream.record_event())

    def release(self, block):
        self.free.append(block)


class Uploader:
    def __init__(self, cache, device):
        self.cache = cache
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def _to_device(self, view):
        with torch.cuda.stream(self.stream):
            out = torch.empty(view.shape, dtype=view.dtype, device=self.device)
            out.copy_(view, non_blocking=True)
        self.cache.record_use(view.data_ptr(), self.stream)
        return out

    def upload(self, fields):
        sizes = {k: aligned(v.nbytes) for k, v in fields.items()}
        block = self.cache.acquire(sum(sizes.values()))
        out, offset = {}, 0
        for name, arr in fields.items():
            raw = block.data[offset:offset + arr.nbytes]
            view = raw.view(torch.from_numpy(arr).dtype).view(arr.shape)
            view.numpy()[...] = arr
            out[name] = self._to_device(view)
            offset += sizes[name]
        self.cache.release(block)
        main = torch.cuda.current_stream(self.device)
        main.wait_stream(self.stream)
        for t in out.values():
            t.record_stream(main)
        return out


def batches(n, rng):
    for i in range(n):
        yield {
            "ids": np.full(4096, i, dtype=np.int64),
            "image": rng.random((64, 3, 224, 224), dtype=np.float32),
            "target": np.full((64, 128, 128), i % 7, dtype=np.int32),
        }


def main():
    device = torch.device("cuda", 0)
    loader = Uploader(PinnedCache(), device)
    rng = np.random.default_rng(0)
    seen = []
    for batch in batches(40, rng):
        dev = loader.upload(batch)
        stat = torch.stack([dev["ids"].float().mean(), dev["target"].float().mean(),
                            dev["image"].mean()])
        seen.append(stat)
    print(torch.stack(seen).cpu())


if __name__ == "__main__":
    main()
