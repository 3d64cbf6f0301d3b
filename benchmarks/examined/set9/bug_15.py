import cupy as cp
import torch

_SOURCE = r'''
extern "C" __global__
void quantize_blockwise(const float* code, const float* A, float* absmax, unsigned char* out,
                        int blocksize, int n) {
    int start = blockIdx.x * blocksize;
    int end = min(start + blocksize, n);
    float m = 0.0f;
    for (int i = start; i < end; ++i) m = fmaxf(m, fabsf(A[i]));
    absmax[blockIdx.x] = m;
    for (int i = start + threadIdx.x; i < end; i += blockDim.x) {
        float x = A[i] / m;
        int lo = 0, hi = 255;
        while (lo < hi) { int mid = (lo + hi) / 2; if (code[mid] < x) lo = mid + 1; else hi = mid; }
        out[i] = (unsigned char)lo;
    }
}
'''
_quantize_blockwise = cp.RawKernel(_SOURCE, "quantize_blockwise")


class QuantState:
    def __init__(self, absmax, shape, code, blocksize, dtype):
        self.absmax = absmax
        self.shape = shape
        self.code = code
        self.blocksize = blocksize
        self.dtype = dtype


def create_dynamic_map(device) -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, 256, device=device)


def quantize_blockwise(A: torch.Tensor, code: torch.Tensor, blocksize: int = 4096):
    n = A.numel()
    blocks = -(n // -blocksize)
    absmax = torch.empty((blocks,), device=A.device, dtype=torch.float32)
    out = torch.empty_like(A, dtype=torch.uint8)
    _quantize_blockwise(
        (blocks,),
        (64,),
        (code.data_ptr(), A.data_ptr(), absmax.data_ptr(), out.data_ptr(), cp.int32(blocksize), cp.int32(n)),
    )
    return out, QuantState(absmax, A.shape, code, blocksize, A.dtype)


def dequantize_blockwise(q: torch.Tensor, state: QuantState) -> torch.Tensor:
    values = state.code[q.view(-1).long()]
    scale = state.absmax.repeat_interleave(state.blocksize)[: values.numel()]
    return (values * scale).view(state.shape).to(state.dtype)


class StreamedQuantizer:
    """Uploads weights layer by layer and quantizes them on an own stream."""

    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.code = create_dynamic_map(self.device)

    def quantize_module(self, module: torch.nn.Module):
        state = {}
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for name, param in module.named_parameters():
                weight = param.data.pin_memory().to(self.device, non_blocking=True).float()
                weight = weight - weight.mean()
                state[name] = quantize_blockwise(weight, self.code)
                error = dequantize_blockwise(*state[name]).sub_(weight).abs_().max()
                state[name] += (error,)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        return state
