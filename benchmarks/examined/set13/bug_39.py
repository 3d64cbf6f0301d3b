import multiprocessing as mp

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"{err}")
    return values[0] if len(values) == 1 else tuple(values)


class PbMemory:
    def __init__(self, ptr, nbytes, memory_type):
        self.ptr = ptr
        self.nbytes = nbytes
        self.memory_type = memory_type

    @classmethod
    def create_shared(cls, nbytes):
        ptr = check(cudart.cudaMalloc(nbytes))
        return cls(ptr, nbytes, "gpu"), bytes(check(cudart.cudaIpcGetMemHandle(ptr)).reserved)

    @classmethod
    def open_shared(cls, handle, nbytes):
        h = cudart.cudaIpcMemHandle_t()
        h.reserved = handle
        ptr = check(cudart.cudaIpcOpenMemHandle(h, cudart.cudaIpcMemLazyEnablePeerAccess))
        return cls(ptr, nbytes, "gpu")


def copy_buffer(dst, src):
    if src.memory_type == "gpu" and dst.memory_type == "gpu":
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    elif src.memory_type == "gpu":
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    else:
        kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    check(cudart.cudaMemcpy(dst.ptr, src.ptr, src.nbytes, kind))


def stub_process(conn, handle, nbytes):
    shared = PbMemory.open_shared(handle, nbytes)
    result = PbMemory(check(cudart.cudaMalloc(nbytes)), nbytes, "gpu")
    host = np.empty(nbytes // 4, dtype=np.float32)
    while True:
        request = conn.recv()
        if request is None:
            break
        host[:] = request
        copy_buffer(result, PbMemory(host.ctypes.data, nbytes, "cpu"))
        copy_buffer(shared, result)
        conn.send("ready")
    check(cudart.cudaIpcCloseMemHandle(shared.ptr))


class StubLauncher:
    def __init__(self, nbytes):
        ctx = mp.get_context("spawn")
        self.shared, handle = PbMemory.create_shared(nbytes)
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.conn, child = ctx.Pipe()
        self.process = ctx.Process(target=stub_process, args=(child, handle, nbytes))
        self.process.start()

    def execute(self, value):
        self.conn.send(value)
        assert self.conn.recv() == "ready"
        out = np.empty(self.shared.nbytes // 4, dtype=np.float32)
        check(cudart.cudaMemcpyAsync(
            out.ctypes.data, self.shared.ptr, self.shared.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.stream,
        ))
        check(cudart.cudaStreamSynchronize(self.stream))
        return out

    def shutdown(self):
        self.conn.send(None)
        self.process.join()
