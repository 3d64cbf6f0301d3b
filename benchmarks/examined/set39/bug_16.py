"""One-process multi-GPU all-reduce through peer workspaces."""
import cupy as cp
from cupy.cuda import runtime


class Rank:
    def __init__(self, ordinal):
        self.ordinal = ordinal
        self.device = cp.cuda.Device(ordinal)
        with self.device:
            self.init_stream = cp.cuda.Stream(non_blocking=True)
            self.comm_stream = cp.cuda.Stream(non_blocking=True)
            self.sent = cp.cuda.Event(disable_timing=True)
        self.workspace = None


class AllReduce:
    def __init__(self, ordinals, numel):
        self.numel = numel
        self.ranks = [Rank(o) for o in ordinals]
        self._enable_peers()
        self.create_workspace()

    def _enable_peers(self):
        for a in self.ranks:
            with a.device:
                for b in self.ranks:
                    if a is not b and runtime.deviceCanAccessPeer(a.ordinal, b.ordinal):
                        runtime.deviceEnablePeerAccess(b.ordinal)

    def create_workspace(self):
        world = len(self.ranks)
        for rank in self.ranks:
            with rank.device, rank.init_stream:
                rank.workspace = cp.empty((world, self.numel), dtype=cp.float32)
                rank.workspace.fill(-0.0)

    def broadcast(self, r, values):
        src = self.ranks[r]
        with src.device:
            for dst in self.ranks:
                slot = dst.workspace[r]
                runtime.memcpyPeerAsync(
                    slot.data.ptr, dst.ordinal, values.data.ptr, src.ordinal,
                    values.nbytes, src.comm_stream.ptr)
            src.sent.record(src.comm_stream)

    def gather(self):
        results = []
        for rank in self.ranks:
            with rank.device, rank.comm_stream:
                for peer in self.ranks:
                    rank.comm_stream.wait_event(peer.sent)
                results.append(rank.workspace.sum(axis=0))
        return results

    def finish(self):
        for rank in self.ranks:
            with rank.device:
                rank.comm_stream.synchronize()


def main():
    numel = 32 << 20
    ordinals = list(range(min(4, runtime.getDeviceCount())))
    inputs = []
    for o in ordinals:
        with cp.cuda.Device(o):
            inputs.append(cp.full(numel, float(o + 1), dtype=cp.float32))
            cp.cuda.Device(o).synchronize()
    comm = AllReduce(ordinals, numel)
    for r, values in enumerate(inputs):
        comm.broadcast(r, values)
    outs = comm.gather()
    comm.finish()
    for o, out in zip(ordinals, outs):
        with cp.cuda.Device(o):
            print(o, float(out[0]), float(out[-1]))


if __name__ == "__main__":
    main()
