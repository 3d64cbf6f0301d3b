"""Peer copies between two devices on user streams."""
import cupy as cp


class DeviceLane:
    """A device, its stream and one event used to publish progress."""

    def __init__(self, device_id):
        self.device = cp.cuda.Device(device_id)
        with self.device:
            self.stream = cp.cuda.Stream(non_blocking=True)
            self.event = cp.cuda.Event(disable_timing=True)

    def publish(self):
        with self.device:
            self.event.record(self.stream)
        return self.event

    def wait_for(self, other):
        event = other.publish()
        with self.device:
            self.stream.wait_event(event)


def copy_between(dst, dst_lane, src, src_lane):
    src_lane.wait_for(dst_lane)
    with src_lane.device:
        cp.cuda.runtime.memcpyPeerAsync(
            dst.data.ptr, dst_lane.device.id, src.data.ptr, src_lane.device.id,
            src.nbytes, src_lane.stream.ptr)
    dst_lane.wait_for(src_lane)


class PipelineStage:
    def __init__(self, lane, width, batch, seed):
        self.lane = lane
        with lane.device, lane.stream:
            self.weight = cp.random.RandomState(seed).standard_normal((width, width), dtype=cp.float32)
            self.inbox = cp.zeros((batch, width), dtype=cp.float32)
            self.outbox = cp.zeros((batch, width), dtype=cp.float32)
        lane.stream.synchronize()

    def forward(self):
        with self.lane.device, self.lane.stream:
            cp.matmul(self.inbox, self.weight, out=self.outbox)
            cp.tanh(self.outbox, out=self.outbox)


def main(width=1024, batch=256, micro_batches=16):
    lanes = [DeviceLane(0), DeviceLane(1)]
    first = PipelineStage(lanes[0], width, batch, 1)
    second = PipelineStage(lanes[1], width, batch, 2)
    scores = []
    for i in range(micro_batches):
        with lanes[0].device, lanes[0].stream:
            first.inbox.fill(0.01 * (i + 1))
        first.forward()
        copy_between(second.inbox, lanes[1], first.outbox, lanes[0])
        second.forward()
        with lanes[1].device, lanes[1].stream:
            scores.append(second.outbox.mean())
    for lane in lanes:
        with lane.device:
            lane.stream.synchronize()
    with lanes[1].device:
        return [float(s) for s in scores]


if __name__ == "__main__":
    print(main())
