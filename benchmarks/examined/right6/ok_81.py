from dataclasses import dataclass

import numpy as np
from cuda.bindings import runtime as cudart

KIND = cudart.cudaMemcpyKind


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else None


@dataclass
class Endpoint:
    device: int
    stream: object
    event: object
    buffer: int

    @classmethod
    def create(cls, device, nbytes):
        check(cudart.cudaSetDevice(device))
        return cls(device,
                   check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking)),
                   check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)),
                   check(cudart.cudaMalloc(nbytes)))

    def mark(self):
        check(cudart.cudaSetDevice(self.device))
        check(cudart.cudaEventRecord(self.event, self.stream))

    def after(self, other):
        check(cudart.cudaSetDevice(self.device))
        check(cudart.cudaStreamWaitEvent(self.stream, other.event, 0))


class Relay:
    """Host to device 0, device 0 to device 1, device 1 back to the host."""

    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.a = Endpoint.create(0, nbytes)
        self.b = Endpoint.create(1, nbytes)

    def pass_through(self, values, out):
        check(cudart.cudaSetDevice(0))
        check(cudart.cudaMemcpyAsync(self.a.buffer, values.ctypes.data, self.nbytes,
                                     KIND.cudaMemcpyHostToDevice, self.a.stream))
        self.a.after(self.b)
        check(cudart.cudaMemcpyPeerAsync(self.b.buffer, 1, self.a.buffer, 0, self.nbytes, self.a.stream))
        self.a.mark()
        self.b.after(self.a)
        check(cudart.cudaMemcpyAsync(out.ctypes.data, self.b.buffer, self.nbytes,
                                     KIND.cudaMemcpyDeviceToHost, self.b.stream))
        self.b.mark()

    def finish(self):
        check(cudart.cudaEventSynchronize(self.b.event))

    def close(self):
        for end in (self.a, self.b):
            check(cudart.cudaSetDevice(end.device))
            check(cudart.cudaStreamSynchronize(end.stream))
            check(cudart.cudaFree(end.buffer))


def main():
    blocks = [np.full(1 << 16, k, np.int32) for k in range(6)]
    outs = [np.empty_like(b) for b in blocks]
    relay = Relay(blocks[0].nbytes)
    try:
        for b, o in zip(blocks, outs):
            relay.pass_through(b, o)
        relay.finish()
        print(all(np.array_equal(b, o) for b, o in zip(blocks, outs)))
    finally:
        relay.close()


if __name__ == "__main__":
    main()
