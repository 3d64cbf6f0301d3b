import ctypes

import numpy as np
from cuda.bindings import runtime as cudart

D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error: {err}")
    return rest[0] if rest else None


class CudaMemPoolContext:
    def __init__(self, device=0):
        check(cudart.cudaSetDevice(device))
        self.pool = check(cudart.cudaDeviceGetDefaultMemPool(device))
        self.free_stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def allocate(self, nbytes, stream):
        return int(check(cudart.cudaMallocFromPoolAsync(nbytes, self.pool, stream)))

    def deallocate(self, ptr, event):
        check(cudart.cudaStreamWaitEvent(self.free_stream, event, 0))
        check(cudart.cudaFreeAsync(ptr, self.free_stream))


class CudaPointCloud2:
    """Message type of the blackboard: owns device memory of the pool."""

    def __init__(self, context, nbytes, stream):
        self.context = context
        self.nbytes = nbytes
        self.ready_event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.data = context.allocate(nbytes, stream)

    def mark_used(self, stream):
        check(cudart.cudaEventRecord(self.ready_event, stream))

    def release(self):
        if self.data:
            self.context.deallocate(self.data, self.ready_event)
            self.data = 0
            check(cudart.cudaEventDestroy(self.ready_event))


class LidarDriver:
    def __init__(self, context, max_bytes):
        self.context = context
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.staging = int(check(cudart.cudaMallocHost(max_bytes)))

    def upload(self, points):
        points = np.ascontiguousarray(points, dtype=np.float32)
        ctypes.memmove(self.staging, points.ctypes.data, points.nbytes)
        cloud = CudaPointCloud2(self.context, points.nbytes, self.stream)
        check(cudart.cudaMemcpyAsync(cloud.data, self.staging, points.nbytes, H2D, self.stream))
        check(cudart.cudaStreamSynchronize(self.stream))
        return cloud


class ConcatenateNode:
    """Merges the clouds of all lidars into one message."""

    def __init__(self, context):
        self.context = context
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def concatenate(self, clouds):
        total = sum(c.nbytes for c in clouds)
        out = CudaPointCloud2(self.context, total, self.stream)
        offset = 0
        for cloud in clouds:
            check(cudart.cudaMemcpyAsync(out.data + offset, cloud.data, cloud.nbytes, D2D, self.stream))
            offset += cloud.nbytes
            cloud.mark_used(self.stream)
            cloud.release()
        return out

    def finish(self, merged, publish):
        check(cudart.cudaStreamSynchronize(self.stream))
        publish(merged.data, merged.nbytes)
        check(cudart.cudaFreeAsync(merged.data, self.stream))


def spin(drivers, node, scans, publish):
    merged = None
    for scan in scans:
        clouds = [driver.upload(points) for driver, points in zip(drivers, scan)]
        if merged is not None:
            node.finish(merged, publish)
        merged = node.concatenate(clouds)
    node.finish(merged, publish)
