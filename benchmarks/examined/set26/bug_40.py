"""Batch transform split over several GPUs, read back per GPU."""
import numpy as np
import cupy as cp
import cupyx


class GpuSlot:
    def __init__(self, device_id):
        self.device = cp.cuda.Device(device_id)
        with self.device:
            self.exec_stream = cp.cuda.Stream(non_blocking=True)
            self.copy_stream = cp.cuda.Stream(non_blocking=True)
        self.chunk = None

    def upload(self, values):
        with self.device, self.exec_stream:
            self.chunk = cp.empty(values.shape, dtype=values.dtype)
            self.chunk.set(values, stream=self.exec_stream)


class XtDescriptor:
    """Rows of a matrix distributed over the GPUs of a plan."""

    def __init__(self, plan, shape):
        self.bounds = np.linspace(0, shape[0], len(plan.slots) + 1).astype(int)
        self.plan = plan

    def rows(self, k):
        return slice(self.bounds[k], self.bounds[k + 1])


class MgpuPlan:
    def __init__(self, device_ids):
        self.slots = [GpuSlot(d) for d in device_ids]

    def xt_memcpy_h2d(self, desc, host):
        for k, slot in enumerate(self.slots):
            slot.upload(host[desc.rows(k)])

    def xt_exec_descriptor(self, desc, inverse=False):
        for slot in self.slots:
            with slot.device, slot.exec_stream:
                fn = cp.fft.ifft if inverse else cp.fft.fft
                result = fn(slot.chunk, axis=1)
                slot.chunk[...] = result

    def xt_memcpy_d2h(self, desc, host):
        for k, slot in enumerate(self.slots):
            with slot.device:
                slot.chunk.get(stream=slot.copy_stream, out=host[desc.rows(k)],
                               blocking=False)
        for slot in self.slots:
            slot.copy_stream.synchronize()

    def close(self):
        for slot in self.slots:
            with slot.device:
                slot.exec_stream.synchronize()
            slot.chunk = None


def main(nrows=4096, ncols=8192):
    ngpus = min(2, cp.cuda.runtime.getDeviceCount())
    plan = MgpuPlan(range(ngpus))
    host_in = np.random.default_rng(0).standard_normal((nrows, ncols))
    host_in = host_in.astype(np.complex64)
    host_out = cupyx.empty_pinned((nrows, ncols), dtype=np.complex64)

    desc = XtDescriptor(plan, host_in.shape)
    plan.xt_memcpy_h2d(desc, host_in)
    plan.xt_exec_descriptor(desc)
    plan.xt_exec_descriptor(desc, inverse=True)
    plan.xt_memcpy_d2h(desc, host_out)

    err = np.linalg.norm(host_out - host_in) / np.linalg.norm(host_in)
    print("PASSED" if err < 1e-5 else f"FAILED with L2 error = {err}")
    plan.close()


if __name__ == "__main__":
    main()
