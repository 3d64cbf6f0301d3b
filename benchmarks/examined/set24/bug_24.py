"""Batched RWKV decoding with a captured step."""
import cupy as cp
import torch
from torch import nn

_STATE_FWD = cp.RawKernel(r"""
extern "C" __global__
void state_fwd(const float* r, const float* w, const float* k, const float* v,
               float* s, float* y, const int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float kv = k[i] * v[i];
    y[i] = r[i] * (s[i] + kv);
    s[i] = s[i] * w[i] + kv;
}
""", "state_fwd")


def cuda_forward_seq(r, w, k, v, state, y):
    n = y.numel()
    args = (r.data_ptr(), w.data_ptr(), k.data_ptr(), v.data_ptr(),
            state.data_ptr(), y.data_ptr(), cp.int32(n))
    _STATE_FWD(((n + 255) // 256,), (256,), args)


class TimeMix(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.receptance = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.decay = nn.Linear(dim, dim, bias=False)
        self.output = nn.Linear(dim, dim, bias=False)

    def forward(self, x, state, y):
        r = torch.sigmoid(self.receptance(x))
        w = torch.sigmoid(self.decay(x))
        k, v = self.key(x), self.value(x)
        cuda_forward_seq(r, w, k, v, state, y)
        return x + self.output(y)


class BatchedDecoder:
    def __init__(self, model, batch, dim):
        self.model = model
        self.x = torch.zeros(batch, dim, device="cuda")
        self.state = torch.zeros(batch, dim, device="cuda")
        self.y = torch.zeros(batch, dim, device="cuda")
        self.graph = None
        self.out = None

    def init_cuda_graph(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.x, self.state, self.y)
        torch.cuda.synchronize()
        self.state.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.model(self.x, self.state, self.y)
        torch.cuda.synchronize()
        self.state.zero_()

    def step(self, embeddings):
        self.x.copy_(embeddings)
        self.graph.replay()
        return self.out.clone()


@torch.inference_mode()
def main():
    model = TimeMix(2048).cuda()
    dec = BatchedDecoder(model, 16, 2048)
    dec.init_cuda_graph()
    for _ in range(32):
        logits = dec.step(torch.randn(16, 2048, device="cuda"))
    print(logits.norm().item())


if __name__ == "__main__":
    main()
