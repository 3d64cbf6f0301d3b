"""Restores cached attention blocks from pickled host tensors into a paged device buffer."""
import pickle
import cupy as cp
import torch


class BlockStore:
    def __init__(self):
        self._data = {}

    def put(self, key, tensors):
        self._data[key] = pickle.dumps(tensors)

    def get(self, key):
        return pickle.loads(self._data[key])


class PagedKV:
    def __init__(self, layers, pages, page_tokens, width):
        self.kv = [torch.zeros(pages, page_tokens, width, dtype=torch.float16, device="cuda")
                   for _ in range(layers)]
        torch.cuda.synchronize()
        self.stream = torch.cuda.Stream()

    def _copy_in(self, layer, page, host):
        dst = self.kv[layer][page]
        cp.cuda.runtime.memcpyAsync(dst.data_ptr(), host.data_ptr(), host.numel() * host.element_size(),
                                    cp.cuda.runtime.memcpyHostToDevice, self.stream.cuda_stream)

    def restore(self, pages, groups):
        for layer, chunks in enumerate(groups):
            staged = [c if c.is_pinned() else c.pin_memory() for c in chunks]
            for page, host in zip(pages, staged):
                self._copy_in(layer, page, host)

    def wait_restored(self):
        self.stream.synchronize()


def main():
    layers, page_tokens, width = 16, 256, 1024
    store = BlockStore()
    for r in range(4):
        store.put(r, [[torch.randn(page_tokens, width).half() for _ in range(8)] for _ in range(layers)])
    cache = PagedKV(layers, 64, page_tokens, width)
    for r in range(4):
        cache.restore(range(r * 8, r * 8 + 8), store.get(r))
    cache.wait_restored()
    for r in range(4):
        ref = store.get(r)
        for layer in range(layers):
            got = cache.kv[layer][r * 8].cpu()
            assert torch.equal(got, ref[layer][0]), (r, layer)


if __name__ == "__main__":
    main()
