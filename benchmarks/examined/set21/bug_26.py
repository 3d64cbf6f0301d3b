"""Transport set-up: publish connection records into the device-side channel table."""
import ctypes

from cuda.bindings import runtime as cudart

D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest or None


class ConnInfo(ctypes.Structure):
    _fields_ = [("buff", ctypes.c_uint64), ("head", ctypes.c_uint64), ("tail", ctypes.c_uint64),
                ("step", ctypes.c_uint64)]


def pinned(ctype):
    """A page-locked instance of ``ctype``."""
    ptr = check(cudart.cudaHostAlloc(ctypes.sizeof(ctype), cudart.cudaHostAllocDefault))
    return ctype.from_address(int(ptr))


class HostStream:
    def __init__(self):
        self.handle = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def copy(self, dst, src, nbytes, kind):
        check(cudart.cudaMemcpyAsync(dst, src, nbytes, kind, self.handle))

    def synchronize(self):
        check(cudart.cudaStreamSynchronize(self.handle))


class Channel:
    """Device table: one pointer per peer, each to that peer's connection records."""

    def __init__(self, nranks, nconns):
        self.nranks = nranks
        self.peer_bytes = nconns * ctypes.sizeof(ConnInfo)
        self.dev_peers = check(cudart.cudaMalloc(8 * nranks))
        self.blocks = [check(cudart.cudaMalloc(self.peer_bytes)) for _ in range(nranks)]
        table = (ctypes.c_uint64 * nranks)(*[int(b) for b in self.blocks])
        check(cudart.cudaMemcpy(self.dev_peers, ctypes.addressof(table), 8 * nranks, H2D))
        check(cudart.cudaDeviceSynchronize())

    def peer_slot(self, rank):
        return int(self.dev_peers) + 8 * rank


class P2pSetup:
    def __init__(self, channels, connectors):
        self.channels = channels
        self.connectors = connectors
        self.stream = HostStream()
        self.addr = pinned(ctypes.c_uint64)

    def _connect(self, channel, peer, conn_index, connector):
        info = pinned(ConnInfo)
        info.buff, info.head, info.tail = connector.exchange(peer)
        info.step = 0
        self.stream.copy(ctypes.addressof(self.addr), channel.peer_slot(peer), 8, D2H)
        dst = self.addr.value + conn_index * ctypes.sizeof(ConnInfo)
        self.stream.copy(dst, ctypes.addressof(info), ctypes.sizeof(ConnInfo), H2D)
        return info

    def run(self, rank, conn_index=0):
        keep = []
        for step in range(1, self.channels[0].nranks):
            for channel, connector in zip(self.channels, self.connectors):
                peer = (rank + step) % channel.nranks
                if connector.connected(peer):
                    continue
                keep.append(self._connect(channel, peer, conn_index, connector))
        self.stream.synchronize()
        for info in keep:
            check(cudart.cudaFreeHost(ctypes.addressof(info)))
