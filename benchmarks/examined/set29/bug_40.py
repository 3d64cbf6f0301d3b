"""RetinaNet inference: the TensorRT engine yields class and box heads, the
box decoding runs as a separate device kernel."""
import cupy as cp
import numpy as np
import tensorrt as trt

_decode = cp.RawKernel(r"""
extern "C" __global__
void decode(const float* cls, const float* delta, const float* anchors, float thresh,
            int n_anchor, int n_cls, float* scores, float* boxes, int* labels) {
    int a = blockIdx.x * blockDim.x + threadIdx.x;
    if (a >= n_anchor) return;
    float best = 0.f; int arg = -1;
    for (int c = 0; c < n_cls; ++c) {
        float s = cls[a * n_cls + c];
        if (s > best) { best = s; arg = c; }
    }
    scores[a] = best > thresh ? best : 0.f;
    labels[a] = arg;
    const float* an = anchors + 4 * a; const float* d = delta + 4 * a;
    float w = an[2] - an[0], h = an[3] - an[1];
    float cx = an[0] + 0.5f * w + d[0] * w, cy = an[1] + 0.5f * h + d[1] * h;
    float bw = expf(d[2]) * w, bh = expf(d[3]) * h;
    boxes[4 * a] = cx - 0.5f * bw; boxes[4 * a + 1] = cy - 0.5f * bh;
    boxes[4 * a + 2] = cx + 0.5f * bw; boxes[4 * a + 3] = cy + 0.5f * bh;
}
""", "decode")


class DecodePlugin:
    def __init__(self, anchors, n_cls, score_thresh=0.05):
        self.anchors = anchors
        self.n = anchors.shape[0]
        self.n_cls = n_cls
        self.score_thresh = score_thresh
        self.scores = cp.zeros(self.n, dtype=cp.float32)
        self.boxes = cp.zeros((self.n, 4), dtype=cp.float32)
        self.labels = cp.zeros(self.n, dtype=cp.int32)

    def enqueue(self, cls_head, box_head, stream=None):
        grid = ((self.n + 127) // 128,)
        _decode(grid, (128,), (cls_head, box_head, self.anchors, cp.float32(self.score_thresh),
                               cp.int32(self.n), cp.int32(self.n_cls),
                               self.scores, self.boxes, self.labels))
        return self.scores, self.boxes, self.labels


class Engine:
    def __init__(self, plan, anchors, n_cls=80):
        with open(plan, "rb") as f:
            self.engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.buffers = {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            shape = tuple(self.engine.get_tensor_shape(name))
            self.buffers[name] = cp.zeros(shape, dtype=cp.float32)
            self.context.set_tensor_address(name, self.buffers[name].data.ptr)
        self.decode = DecodePlugin(cp.asarray(anchors, dtype=cp.float32), n_cls)
        cp.cuda.Device().synchronize()

    def infer(self, image):
        self.buffers["image"].set(image, stream=self.stream)
        self.context.execute_async_v3(self.stream.ptr)
        scores, boxes, labels = self.decode.enqueue(
            self.buffers["cls_head"], self.buffers["box_head"], stream=self.stream)
        host = [a.get(stream=self.stream) for a in (scores, boxes, labels)]
        keep = host[0] > 0
        return [h[keep] for h in host]


if __name__ == "__main__":
    anchors = np.load("anchors.npy")
    engine = Engine("retinanet_rn50.plan", anchors)
    rng = np.random.default_rng(0)
    for _ in range(20):
        frame = rng.random(engine.buffers["image"].shape, dtype=np.float32)
        s, b, l = engine.infer(frame)
        print(len(s))
