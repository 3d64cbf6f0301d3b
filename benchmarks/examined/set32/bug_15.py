"""Point splatting with a hand-written kernel, views rendered on several streams."""
import cupy as cp
import torch

_SOURCE = r"""
extern "C" __global__
void splat(const float* xy, const float* rgb, float* image, int n, int w, int h) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    int x = (int)((xy[2 * i] * 0.5f + 0.5f) * w);
    int y = (int)((xy[2 * i + 1] * 0.5f + 0.5f) * h);
    if (x < 0 || y < 0 || x >= w || y >= h) return;
    for (int c = 0; c < 3; ++c)
        atomicAdd(image + (c * h + y) * w + x, rgb[3 * i + c]);
}
extern "C" __global__
void gather_grad(const float* xy, const float* grad, float* out, int n, int w, int h) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    int x = (int)((xy[2 * i] * 0.5f + 0.5f) * w);
    int y = (int)((xy[2 * i + 1] * 0.5f + 0.5f) * h);
    bool inside = x >= 0 && y >= 0 && x < w && y < h;
    for (int c = 0; c < 3; ++c)
        out[3 * i + c] = inside ? grad[(c * h + y) * w + x] : 0.f;
}
"""
_module = cp.RawModule(code=_SOURCE)
_splat = _module.get_function("splat")
_gather = _module.get_function("gather_grad")
_BLOCK = 256


def _grid(n):
    return ((n + _BLOCK - 1) // _BLOCK,)


class Splat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, xy, rgb, width, height):
        xy, rgb = xy.contiguous(), rgb.contiguous()
        image = torch.zeros(3, height, width, device=xy.device)
        n = xy.shape[0]
        _splat(
            _grid(n),
            (_BLOCK,),
            (xy.data_ptr(), rgb.data_ptr(), image.data_ptr(), n, width, height),
        )
        ctx.save_for_backward(xy)
        ctx.size = (width, height)
        return image

    @staticmethod
    def backward(ctx, grad):
        (xy,) = ctx.saved_tensors
        width, height = ctx.size
        grad = grad.contiguous()
        n = xy.shape[0]
        out = torch.empty(n, 3, device=grad.device)
        _gather(
            _grid(n),
            (_BLOCK,),
            (xy.data_ptr(), grad.data_ptr(), out.data_ptr(), n, width, height),
        )
        return None, out, None, None


class MultiViewRenderer(torch.nn.Module):
    def __init__(self, points, size=(1920, 1080), n_streams=4):
        super().__init__()
        self.xyz = torch.nn.Parameter(torch.randn(points, 3) * 0.3, requires_grad=False)
        self.rgb = torch.nn.Parameter(torch.rand(points, 3))
        self.size = size
        self.streams = [torch.cuda.Stream() for _ in range(n_streams)]

    def project(self, pose):
        cam = self.xyz @ pose[:, :3].T + pose[:, 3]
        return cam[:, :2] / cam[:, 2:].clamp_min(1e-3)

    def forward(self, poses):
        main = torch.cuda.current_stream()
        images = []
        for i, pose in enumerate(poses):
            stream = self.streams[i % len(self.streams)]
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                images.append(Splat.apply(self.project(pose), self.rgb, *self.size))
        for stream in self.streams:
            main.wait_stream(stream)
        for image in images:
            image.record_stream(main)
        return torch.stack(images)
