"""Key/value reload: unpickled chunks are pinned and copied with raw pointers."""
import pickle

import torch
from cuda.bindings import runtime as cudart


def memcpy_async(dst, src, nbytes, stream):
    (err,) = cudart.cudaMemcpyAsync(
        dst, src, nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream.cuda_stream
    )
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))


class KVStore:
    def __init__(self, layers, blocks, block_shape):
        self.kv = [torch.zeros(blocks, *block_shape, dtype=torch.float16, device="cuda") for _ in range(layers)]
        self.load_stream = torch.cuda.Stream()
        self.load_stream.wait_stream(torch.cuda.current_stream())

    def scatter(self, layer, chunks, block_ids):
        """Issues the copies of one layer; the caller synchronizes load_stream."""
        pinned = [c.pin_memory() for c in chunks]
        for chunk, block in zip(pinned, block_ids):
            target = self.kv[layer][block]
            memcpy_async(target.data_ptr(), chunk.data_ptr(), chunk.nbytes, self.load_stream)

    def retrieve(self, payload, block_ids):
        for layer, chunks in enumerate(pickle.loads(payload)):
            self.scatter(layer, chunks, block_ids)
        self.load_stream.synchronize()


def make_payload(layers, blocks, shape, seed):
    gen = torch.Generator().manual_seed(seed)
    data = [[torch.randn(shape, generator=gen).half() for _ in range(blocks)] for _ in range(layers)]
    return pickle.dumps(data)


def main():
    shape = (2, 16, 8, 128)
    store = KVStore(32, 256, shape)
    for request in range(8):
        ids = list(range(request * 32, request * 32 + 32))
        store.retrieve(make_payload(32, 32, shape, request), ids)
    print(sum(layer.float().abs().mean().item() for layer in store.kv))


if __name__ == "__main__":
    main()
