"""Execution-space instances and views; allocation through the stream-ordered pool."""
from cuda.bindings import runtime as cudart


def check(ret):
    err, *rest = ret
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest


class Cuda:
    """An execution-space instance: wraps one stream."""

    def __init__(self):
        self.stream = check(
            cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def fence(self):
        check(cudart.cudaStreamSynchronize(self.stream))


class CudaSpace:
    def __init__(self):
        self.alloc_stream = check(
            cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def allocate(self, nbytes):
        ptr = check(cudart.cudaMallocAsync(nbytes, self.alloc_stream))
        check(cudart.cudaStreamSynchronize(self.alloc_stream))
        return ptr

    def deallocate(self, ptr):
        check(cudart.cudaFree(ptr))


class View:
    def __init__(self, space, nbytes):
        self.space = space
        self.nbytes = nbytes
        self.ptr = space.allocate(nbytes)
        self.refs = 1

    def decrement(self):
        self.refs -= 1
        if self.refs == 0:
            self.space.deallocate(self.ptr)
            self.ptr = None


def fill(instance, view, byte):
    check(cudart.cudaMemsetAsync(view.ptr, byte, view.nbytes, instance.stream))


def deep_copy(instance, dst, src):
    check(cudart.cudaMemcpyAsync(
        dst.ptr, src.ptr, src.nbytes,
        cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice, instance.stream))


def scatter(space, instance, dst, byte):
    scratch = View(space, dst.nbytes)
    fill(instance, scratch, byte)
    deep_copy(instance, dst, scratch)
    scratch.decrement()


def main():
    space = CudaSpace()
    instances = [Cuda() for _ in range(3)]
    nbytes = 256 << 20
    targets = [View(space, nbytes) for _ in instances]
    for rep in range(4):
        for k, (inst, dst) in enumerate(zip(instances, targets)):
            scatter(space, inst, dst, 16 * rep + k)
    for inst in instances:
        inst.fence()
    for t in targets:
        t.decrement()


if __name__ == "__main__":
    main()
