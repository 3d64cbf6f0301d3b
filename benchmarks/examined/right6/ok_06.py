import cupy as cp
import torch

_SRC = r"""
extern "C" __global__ void clip_scale(float* x, const float* s, float hi, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float v = x[i] * s[0]; x[i] = v > hi ? hi : v; }
}
"""


@cp.memoize(for_each_device=True)
def _kernel():
    return cp.RawKernel(_SRC, "clip_scale")


def mark_used(batch, stream):
    if torch.is_tensor(batch):
        batch.record_stream(stream)
    elif isinstance(batch, dict):
        for v in batch.values():
            mark_used(v, stream)
    elif isinstance(batch, (list, tuple)):
        for v in batch:
            mark_used(v, stream)


def clip_scale_(x, scale, hi):
    n = x.numel()
    with cp.cuda.ExternalStream(torch.cuda.current_stream(x.device).cuda_stream):
        _kernel()(((n + 255) // 256,), (256,),
                  (x.data_ptr(), scale.data_ptr(), cp.float32(hi), cp.int32(n)))
    return x


class GradPostprocessor:
    def __init__(self, device):
        self.stream = torch.cuda.Stream(device)

    def __call__(self, grads, scale):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for g in grads["flat"]:
                clip_scale_(g, scale, 1.0)
        mark_used((grads, [scale]), self.stream)
        return self.stream.record_event()


def train_steps(steps):
    device = torch.device("cuda")
    post = GradPostprocessor(device)
    w = torch.zeros(1 << 20, device=device)
    for _ in range(steps):
        grads = {"flat": [torch.randn_like(w), torch.randn_like(w)]}
        scale = torch.rand(1, device=device)
        ready = post(grads, scale)
        del scale
        torch.cuda.current_stream().wait_event(ready)
        for g in grads["flat"]:
            w.add_(g, alpha=-0.1)
    return w.norm().item()


if __name__ == "__main__":
    print(train_steps(20))
