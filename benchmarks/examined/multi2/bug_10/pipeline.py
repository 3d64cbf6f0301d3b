from kernels import bilateral, grid_for


class Pipeline:
    """Sends frames through the lanes; hands a lane to the sink one lap later."""

    def __init__(self, lanes, sink):
        self.lanes = lanes
        self.sink = sink
        self.pushed = 0

    @property
    def in_flight(self):
        return sum(1 for f in self.lanes.frames() if f >= 0)

    def _retire(self, lane):
        if lane.frame >= 0:
            self.sink.collect(lane)
            lane.frame = -1

    def push(self, i, frame):
        lane = self.lanes.for_frame(i)
        self._retire(lane)
        lane.h_in[:] = frame
        lane.d_in.copy_to_device(lane.h_in, stream=lane.stream)
        grid, block = grid_for(frame.shape)
        bilateral[grid, block, lane.stream](lane.d_in, lane.d_out, 18.0, 0.05)
        lane.d_out.copy_to_host(lane.h_out, stream=lane.stream)
        lane.done.record(lane.stream)
        lane.frame = i
        self.pushed += 1

    def finish(self):
        for lane in self.lanes.lanes:
            self._retire(lane)
