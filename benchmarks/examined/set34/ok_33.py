"""Message board that passes stream-ordered allocations between nodes."""
import ctypes
from collections import deque
from dataclasses import dataclass, field
from typing import Deque, List

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return rest[0] if len(rest) == 1 else tuple(rest)


def new_stream():
    return check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))


def new_event():
    return check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))


@dataclass
class Message:
    ptr: int
    nbytes: int
    ready: object
    readers: List[object] = field(default_factory=list)


class Publisher:
    """Fills messages and keeps the most recent ones alive."""

    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self.stream = new_stream()
        self.host = int(check(cudart.cudaMallocHost(nbytes)))
        self.view = np.ctypeslib.as_array((ctypes.c_ubyte * nbytes).from_address(self.host))
        self.uploaded = new_event()
        self.live: Deque[Message] = deque()

    def publish(self, value: int) -> Message:
        check(cudart.cudaEventSynchronize(self.uploaded))
        self.view[:] = value
        ptr = int(check(cudart.cudaMallocAsync(self.nbytes, self.stream)))
        kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        check(cudart.cudaMemcpyAsync(ptr, self.host, self.nbytes, kind, self.stream))
        check(cudart.cudaEventRecord(self.uploaded, self.stream))
        message = Message(ptr, self.nbytes, new_event())
        check(cudart.cudaEventRecord(message.ready, self.stream))
        self.live.append(message)
        return message

    def retire(self, keep: int) -> None:
        while len(self.live) > keep:
            message = self.live.popleft()
            for done in message.readers:
                check(cudart.cudaStreamWaitEvent(self.stream, done, 0))
                check(cudart.cudaEventDestroy(done))
            check(cudart.cudaFreeAsync(message.ptr, self.stream))
            check(cudart.cudaEventDestroy(message.ready))


class Subscriber:
    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self.stream = new_stream()
        self.latest = check(cudart.cudaMalloc(nbytes))

    def on_message(self, message: Message) -> None:
        check(cudart.cudaStreamWaitEvent(self.stream, message.ready, 0))
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        check(cudart.cudaMemcpyAsync(self.latest, message.ptr, self.nbytes, kind, self.stream))
        done = new_event()
        check(cudart.cudaEventRecord(done, self.stream))
        message.readers.append(done)

    def value(self) -> int:
        out = np.empty(1, dtype=np.uint8)
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        check(cudart.cudaMemcpyAsync(out.ctypes.data, self.latest, 1, kind, self.stream))
        check(cudart.cudaStreamSynchronize(self.stream))
        return int(out[0])


def main(messages: int = 200, nbytes: int = 8 << 20) -> None:
    check(cudart.cudaSetDevice(0))
    publisher = Publisher(nbytes)
    subscribers = [Subscriber(nbytes) for _ in range(3)]
    for k in range(messages):
        message = publisher.publish(k % 256)
        for s in subscribers:
            s.on_message(message)
        publisher.retire(keep=2)
    print([s.value() for s in subscribers])
    publisher.retire(keep=0)
    check(cudart.cudaStreamSynchronize(publisher.stream))


if __name__ == "__main__":
    main()
