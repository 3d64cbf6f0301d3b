"""Flow-from-depth operator: host-provided camera motion, device depth maps.

Camera matrices are pulled back to the host once per batch because the pose
solver runs on the CPU."""
import cupy as cp
import cupyx
import numpy as np

_flow = cp.RawKernel(r"""
extern "C" __global__
void depth_to_flow(const float* depth, const float* cam, float* flow, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y;
    if (x >= w) return;
    float d = depth[y * w + x];
    flow[(y * w + x) * 2 + 0] = cam[0] * d + cam[2] * x;
    flow[(y * w + x) * 2 + 1] = cam[1] * d + cam[3] * y;
}
""", "depth_to_flow")


class DepthToFlow:
    def __init__(self, h, w):
        self.h, self.w = h, w
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.cam_dev = cp.zeros(4, dtype=cp.float32)
        self.cam_host = cupyx.empty_pinned((4,), dtype=np.float32)
        self.next_cam = cupyx.zeros_pinned((4,), dtype=np.float32)
        self.cam_sent = cp.cuda.Event(disable_timing=True)
        self.cam_back = cp.cuda.Event(disable_timing=True)
        cp.cuda.Device().synchronize()

    def push_camera(self, cam):
        self.cam_sent.synchronize()
        self.next_cam[:] = cam
        self.cam_dev.set(self.next_cam, stream=self.stream)
        self.cam_sent.record(self.stream)

    def compute(self, depth, ready):
        """Enqueue the flow of one depth map; returns the flow image."""
        self.stream.wait_event(ready)
        with self.stream:
            flow = cp.empty((self.h, self.w, 2), dtype=cp.float32)
            self.cam_dev.get(stream=self.stream, out=self.cam_host, blocking=False)
            self.cam_back.record(self.stream)
            grid = ((self.w + 127) // 128, self.h)
            _flow(grid, (128,), (depth, self.cam_dev, flow, self.h, self.w))
        return flow

    def camera(self):
        self.cam_back.synchronize()
        return self.cam_host.copy()


def main():
    op = DepthToFlow(480, 640)
    source = cp.cuda.Stream(non_blocking=True)
    rng = np.random.default_rng(0)
    keep = []
    cam = np.array([1.0, 0.5, 0.01, 0.02], dtype=np.float32)
    for frame in range(20):
        with source:
            depth = cp.asarray(rng.random((480, 640), dtype=np.float32))
            ready = source.record()
        op.push_camera(cam)
        flow = op.compute(depth, ready)
        keep.append((depth, flow))
        cam = op.camera() * 1.01
    op.stream.synchronize()
    print(float(keep[-1][1].mean()))


if __name__ == "__main__":
    main()
