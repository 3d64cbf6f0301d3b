import cupy as cp
import torch
import torch.nn as nn

_SRC = r"""
extern "C" __global__
void amplitude_encode(const double* x, const double* norm, double* state, int features, int dim) {
    int sample = blockIdx.y;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= dim) return;
    double v = i < features ? x[sample * (long long)features + i] / norm[sample] : 0.0;
    state[2 * (sample * (long long)dim + i)] = v;
    state[2 * (sample * (long long)dim + i) + 1] = 0.0;
}
"""


class QdpEngine:
    """Encodes classical vectors into state vectors on the device."""

    def __init__(self, device_id=0):
        self.device_id = device_id
        with cp.cuda.Device(device_id):
            self.kernel = cp.RawKernel(_SRC, "amplitude_encode")
            self.stream = cp.cuda.Stream(non_blocking=True)

    def _as_array(self, tensor):
        mem = cp.cuda.UnownedMemory(tensor.data_ptr(), tensor.numel() * 8, tensor)
        return cp.ndarray(tuple(tensor.shape), dtype=cp.float64, memptr=cp.cuda.MemoryPointer(mem, 0))

    def encode_batch(self, tensor, num_qubits):
        dim = 1 << num_qubits
        x = self._as_array(tensor)
        samples, features = x.shape
        with cp.cuda.Device(self.device_id), self.stream:
            norm = cp.sqrt((x * x).sum(axis=1))
            state = cp.empty((samples, dim, 2), dtype=cp.float64)
            grid = ((dim + 255) // 256, samples)
            self.kernel(grid, (256,), (x, norm, state, cp.int32(features), cp.int32(dim)))
        self.stream.synchronize()
        return state


class FeatureMap(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inp, 512), nn.Tanh(), nn.Linear(512, out))

    def forward(self, x):
        return self.net(x)


class EncodingPipeline:
    def __init__(self, inp, num_qubits):
        self.features = FeatureMap(inp, 1 << num_qubits).cuda().double().eval()
        self.engine = QdpEngine(0)
        self.num_qubits = num_qubits

    @torch.inference_mode()
    def __call__(self, batch):
        mapped = self.features(batch.to("cuda")).contiguous()
        return self.engine.encode_batch(mapped, self.num_qubits)


def main():
    pipe = EncodingPipeline(256, 12)
    deviation = 0.0
    for _ in range(50):
        state = pipe(torch.randn(128, 256, dtype=torch.float64))
        total = (state * state).sum(axis=(1, 2))
        deviation = max(deviation, float(cp.abs(total - 1.0).max()))
    print(deviation)


if __name__ == "__main__":
    main()
