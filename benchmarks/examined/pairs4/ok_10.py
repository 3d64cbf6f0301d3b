"""Gaussian projection: PyTorch tensors, CuPy kernel on the caller's stream."""
import cupy as cp
import numpy as np
import torch

_project = cp.RawKernel(r"""
extern "C" __global__ void project(const float* means, const float* view, float* uv, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p[3];
    for (int r = 0; r < 3; ++r)
        p[r] = view[4*r]*means[3*i] + view[4*r+1]*means[3*i+1] + view[4*r+2]*means[3*i+2] + view[4*r+3];
    uv[2*i] = p[0] / fmaxf(p[2], 1e-4f);
    uv[2*i+1] = p[1] / fmaxf(p[2], 1e-4f);
}
""", "project")


def project(means, view):
    n = means.shape[0]
    uv = torch.empty(n, 2, device=means.device)
    with cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        _project(((n + 255) // 256,), (256,),
                 (cp.asarray(means), cp.asarray(view), cp.asarray(uv), np.int32(n)))
    return uv


class Viewer:
    def __init__(self, n):
        self.render_stream = torch.cuda.Stream()
        self.means = torch.randn(n, 3, device="cuda")
        self.render_stream.wait_stream(torch.cuda.current_stream())

    def frame(self, angle):
        with torch.cuda.stream(self.render_stream):
            c, s = np.cos(angle), np.sin(angle)
            view = torch.tensor([[c, 0, s, 0], [0, 1, 0, 0], [-s, 0, c, 4], [0, 0, 0, 1]],
                                dtype=torch.float32).cuda()
            uv = project(self.means, view)
            image = torch.histc(uv[:, 0].clamp(-1, 1), bins=512)
            return image.cpu()


def main():
    viewer = Viewer(1_000_000)
    total = sum(viewer.frame(a) for a in np.linspace(0, 6.28, 120))
    print(total.sum())


if __name__ == "__main__":
    main()
