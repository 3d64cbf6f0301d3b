from concurrent.futures import ThreadPoolExecutor

import cupy as cp
from cupy.cuda import runtime


class DeviceGroup:
    def __init__(self, num_devices, shape):
        self.num_devices = num_devices
        self.streams = []
        self.scratch = []
        for device_id in range(num_devices):
            with cp.cuda.Device(device_id):
                self.streams.append(cp.cuda.Stream(non_blocking=True))
                self.scratch.append(cp.empty(shape))
                cp.cuda.get_current_stream().synchronize()

    def run(self, func, args_per_device):
        def proc(device_id):
            with cp.cuda.Device(device_id), self.streams[device_id]:
                return func(*args_per_device[device_id])

        with ThreadPoolExecutor(max_workers=self.num_devices) as executor:
            futures = [executor.submit(proc, i) for i in range(self.num_devices)]
        return [fut.result() for fut in futures]


def p2p_transfer(dst, src, stream):
    runtime.memcpyPeerAsync(
        dst.data.ptr, dst.device.id, src.data.ptr, src.device.id, src.nbytes, stream.ptr
    )


def array_reduce(group, arrays):
    """Tree reduction of one partial array per device into arrays[0]."""
    step = 1
    while step < group.num_devices:
        for i in range(0, group.num_devices - step, 2 * step):
            dst, src = arrays[i], arrays[i + step]
            stream = group.streams[i]
            with src.device:
                ready = group.streams[i + step].record()
            with dst.device:
                stream.wait_event(ready)
                p2p_transfer(group.scratch[i], src, stream)
                with stream:
                    dst += group.scratch[i]
        step *= 2
    with cp.cuda.Device(0):
        group.streams[0].synchronize()
    return arrays[0]


def get_jk(group, dms, blocks):
    def contract(dm, block):
        return cp.einsum("ijkl,lk->ij", block, dm)

    vj = group.run(contract, list(zip(dms, blocks)))
    vj = array_reduce(group, vj)
    with cp.cuda.Device(0):
        return cp.asnumpy(vj)
