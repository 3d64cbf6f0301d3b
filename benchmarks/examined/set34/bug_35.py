"""Multi-lane weight refit over NCCL for a CuPy inference worker."""
from typing import Dict, List, NamedTuple

import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI

FLOAT = nccl.NCCL_FLOAT32


class Spec(NamedTuple):
    name: str
    shape: tuple
    lane: int


class Lane:
    def __init__(self, world: int, unique_id, rank: int):
        self.comm = nccl.NcclCommunicator(world, unique_id, rank)
        self.stream = cp.cuda.Stream(non_blocking=True)


class RefitReceiver:
    """Bulk parameters arrive by point-to-point, misc ones by broadcast."""

    def __init__(self, lanes: List[Lane], bulk: List[Spec], misc: List[Spec], trainer: int = 0):
        self.lanes, self.bulk, self.misc = lanes, bulk, misc
        self.trainer = trainer
        self.params = {s.name: cp.zeros(s.shape, dtype=cp.float32) for s in bulk + misc}
        self.ready = cp.cuda.Event(disable_timing=True)
        self.serving = cp.cuda.Event(disable_timing=True)
        cp.cuda.Device().synchronize()

    def start_weight_update(self, compute: cp.cuda.Stream) -> None:
        self.serving.record(compute)
        for lane in self.lanes:
            lane.stream.wait_event(self.serving)

    def update_weights(self) -> None:
        for spec in self.bulk:
            lane = self.lanes[spec.lane]
            dst = self.params[spec.name]
            lane.comm.recv(dst.data.ptr, dst.size, FLOAT, self.trainer, lane.stream.ptr)

    def finish_weight_update(self, broadcast_lane: int = 0) -> cp.cuda.Event:
        lane = self.lanes[broadcast_lane]
        for spec in self.misc:
            buf = self.params[spec.name]
            lane.comm.bcast(buf.data.ptr, buf.size, FLOAT, self.trainer, lane.stream.ptr)
        self.ready.record(lane.stream)
        return self.ready


class InferenceWorker:
    def __init__(self, receiver: RefitReceiver, width: int):
        self.receiver = receiver
        self.compute = cp.cuda.Stream(non_blocking=True)
        with self.compute:
            self.x = cp.ones((width, 8), dtype=cp.float32)
            self.y = cp.zeros_like(self.x)

    def refit(self) -> None:
        self.receiver.start_weight_update(self.compute)
        self.receiver.update_weights()
        ready = self.receiver.finish_weight_update()
        self.compute.wait_event(ready)

    def generate(self, steps: int) -> float:
        p = self.receiver.params
        with self.compute:
            for _ in range(steps):
                cp.matmul(p["up"], self.x, out=self.y)
                self.y += p["bias"]
                cp.matmul(p["down"], self.y, out=self.x)
                self.x *= p["gain"]
            return float(self.x.sum().get(stream=self.compute))


class TrainerPublisher:
    def __init__(self, lanes: List[Lane], world: int):
        self.lanes = lanes
        self.world = world

    def publish(self, weights: Dict[str, cp.ndarray], bulk: List[Spec], misc: List[Spec]) -> None:
        cp.cuda.Device().synchronize()
        for spec in bulk:
            lane, w = self.lanes[spec.lane], weights[spec.name]
            nccl.groupStart()
            for peer in range(1, self.world):
                lane.comm.send(w.data.ptr, w.size, FLOAT, peer, lane.stream.ptr)
            nccl.groupEnd()
        lane = self.lanes[0]
        for spec in misc:
            w = weights[spec.name]
            lane.comm.bcast(w.data.ptr, w.size, FLOAT, 0, lane.stream.ptr)
        for lane in self.lanes:
            lane.stream.synchronize()


def main(width: int = 4096, rounds: int = 20) -> None:
    world = MPI.COMM_WORLD
    ids = world.bcast([nccl.get_unique_id() for _ in range(2)] if world.rank == 0 else None)
    cp.cuda.Device(world.rank % cp.cuda.runtime.getDeviceCount()).use()
    lanes = [Lane(world.size, uid, world.rank) for uid in ids]
    bulk = [Spec("up", (width, width), 0), Spec("down", (width, width), 1)]
    misc = [Spec("bias", (width, 1), 0), Spec("gain", (width, 1), 0)]
    if world.rank == 0:
        publisher = TrainerPublisher(lanes, world.size)
        weights = {s.name: cp.random.rand(*s.shape, dtype=cp.float32) for s in bulk + misc}
        for _ in range(rounds):
            publisher.publish(weights, bulk, misc)
        return
    worker = InferenceWorker(RefitReceiver(lanes, bulk, misc), width)
    for _ in range(rounds):
        worker.refit()
        print(worker.generate(4))


if __name__ == "__main__":
    main()
