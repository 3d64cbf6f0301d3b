"""One-process multi-GPU all-reduce; workspaces are created once behind a host barrier."""
import cupy as cp
from cupy.cuda import runtime


class Rank:
    def __init__(self, ordinal, world, numel):
        self.ordinal = ordinal
        self.device = cp.cuda.Device(ordinal)
        with self.device:
            self.init_stream = cp.cuda.Stream(non_blocking=True)
            self.comm_stream = cp.cuda.Stream(non_blocking=True)
            self.sent = cp.cuda.Event(disable_timing=True)
            with self.init_stream:
                self.workspace = cp.empty((world, numel), dtype=cp.float32)
                self.workspace.fill(-0.0)

    def ready(self):
        with self.device:
            self.init_stream.synchronize()

    def post(self, row, values, peers):
        with self.device:
            for dst in peers:
                runtime.memcpyPeerAsync(
                    dst.workspace[row].data.ptr, dst.ordinal, values.data.ptr,
                    self.ordinal, values.nbytes, self.comm_stream.ptr)
            self.sent.record(self.comm_stream)

    def reduce(self, peers):
        with self.device, self.comm_stream:
            for peer in peers:
                self.comm_stream.wait_event(peer.sent)
            return self.workspace.sum(axis=0)


def create_workspace(ordinals, numel):
    ranks = [Rank(o, len(ordinals), numel) for o in ordinals]
    for rank in ranks:
        rank.ready()
    return ranks


def all_reduce(ranks, inputs):
    for row, (rank, values) in enumerate(zip(ranks, inputs)):
        rank.post(row, values, ranks)
    outs = [rank.reduce(ranks) for rank in ranks]
    for rank in ranks:
        with rank.device:
            rank.comm_stream.synchronize()
    return outs


def main():
    numel = 32 << 20
    ordinals = list(range(min(4, runtime.getDeviceCount())))
    inputs = []
    for o in ordinals:
        with cp.cuda.Device(o):
            inputs.append(cp.full(numel, float(o + 1), dtype=cp.float32))
            cp.cuda.Device(o).synchronize()
    ranks = create_workspace(ordinals, numel)
    for o, out in zip(ordinals, all_reduce(ranks, inputs)):
        with cp.cuda.Device(o):
            print(o, float(out[0]), float(out[-1]))


if __name__ == "__main__":
    main()
