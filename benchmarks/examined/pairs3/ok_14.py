"""Feed detector events from a CuPy decoder into a JAX histogram model."""
import cupy as cp
import jax
import jax.numpy as jnp
import numpy as np

decode = cp.ElementwiseKernel(
    "uint32 word", "float32 energy", "energy = (word & 0xffffu) * 0.25f", "decode_event")


@jax.jit
def accumulate(hist, energy):
    idx = jnp.clip(energy.astype(jnp.int32), 0, hist.shape[0] - 1)
    return hist.at[idx].add(1)


class EventPipeline:
    def __init__(self, block, bins=4096):
        self.energy = cp.empty(block, cp.float32)
        self.hist = jnp.zeros(bins, jnp.int32)

    def process(self, words):
        decode(cp.asarray(words), self.energy)
        cp.cuda.get_current_stream().synchronize()
        view = jax.dlpack.from_dlpack(self.energy)
        self.hist = accumulate(self.hist, view)
        self.hist.block_until_ready()

    def spectrum(self):
        return np.asarray(self.hist)


def read_blocks(path, block):
    words = np.memmap(path, dtype=np.uint32, mode="r")
    for start in range(0, words.size - block + 1, block):
        yield np.array(words[start:start + block])


def main(block=1 << 22):
    pipe = EventPipeline(block)
    for words in read_blocks("run42.bin", block):
        pipe.process(words)
    np.savetxt("spectrum.txt", pipe.spectrum(), fmt="%d")


if __name__ == "__main__":
    main()
