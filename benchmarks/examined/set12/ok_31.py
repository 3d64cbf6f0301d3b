import cupy as cp
import cupyx
import numpy as np


class TensorNetworkAmplitudes:
    """Contracts a chain of site tensors for many bit strings."""

    def __init__(self, sites, stream=None):
        self.stream = stream if stream is not None else cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.sites = [cp.asarray(s, dtype=cp.complex64) for s in sites]
        self._host = {}

    def _pinned(self, name, shape, dtype):
        array = self._host.get(name)
        if array is None or array.shape != shape or array.dtype != dtype:
            array = cupyx.empty_pinned(shape, dtype=dtype)
            self._host[name] = array
        return array

    def _contract(self, bits):
        bits = cp.asarray(bits)
        env = cp.ones((bits.shape[0], 1), dtype=cp.complex64)
        for k, site in enumerate(self.sites):
            env = cp.einsum("bl,blr->br", env, site[bits[:, k]])
            env /= cp.abs(env).max()
        return env[:, 0]

    def amplitudes(self, bits):
        with self.stream:
            amps = self._contract(bits)
            probs = cp.abs(amps) ** 2
            out_a = self._pinned("amps", amps.shape, np.dtype(np.complex64))
            out_p = self._pinned("probs", probs.shape, np.dtype(np.float32))
            cp.asnumpy(amps, out=out_a, blocking=False)
            cp.asnumpy(probs, out=out_p, blocking=False)
        self.stream.synchronize()
        return out_a.copy(), out_p / out_p.sum()

    def marginal(self, site):
        with self.stream:
            weight = cp.abs(self.sites[site]) ** 2
            dist = cp.asnumpy(weight.sum(axis=(1, 2)))
        return dist / dist.sum()


def sample_bits(network, bits, seed=0):
    _, probs = network.amplitudes(bits)
    rng = np.random.default_rng(seed)
    choice = rng.choice(len(probs), p=probs.astype(np.float64) / probs.astype(np.float64).sum())
    return bits[choice], network.marginal(0)
