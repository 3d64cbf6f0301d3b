import cupy as cp
import numpy as np


def _pinned_empty(shape, dtype):
    dtype = np.dtype(dtype)
    size = int(np.prod(shape))
    mem = cp.cuda.alloc_pinned_memory(size * dtype.itemsize)
    return np.frombuffer(mem, dtype, size).reshape(shape)


class BaselineCorrelator:
    """Correlates antenna voltages chunk by chunk on one non-blocking stream."""

    def __init__(self, n_ants, n_chans, n_spectra, gains):
        self.shape = (n_ants, n_chans, n_spectra)
        self.gains = np.asarray(gains, dtype=np.float32).reshape(n_ants, 1, 1)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.visibilities = cp.zeros((n_chans, n_ants, n_ants), dtype=cp.complex64)

    def _upload(self, raw):
        staging = _pinned_empty(self.shape, np.complex64)
        np.multiply(raw, self.gains, out=staging)
        device = cp.empty(self.shape, dtype=cp.complex64)
        device.data.copy_from_host_async(staging.ctypes.data, staging.nbytes, self.stream)
        return device

    def process(self, raw):
        with self.stream:
            voltages = self._upload(raw)
            per_chan = voltages.transpose(1, 0, 2)
            self.visibilities += per_chan @ per_chan.conj().transpose(0, 2, 1)

    def run(self, chunks):
        for raw in chunks:
            self.process(raw)
        self.stream.synchronize()
        return cp.asnumpy(self.visibilities)


def correlate_file(path, n_ants, n_chans, n_spectra, gains):
    data = np.memmap(path, dtype=np.complex64, mode="r").reshape(-1, n_ants, n_chans, n_spectra)
    correlator = BaselineCorrelator(n_ants, n_chans, n_spectra, gains)
    return correlator.run(data)
