import cupy as cp
import torch

_QUANT_SOURCE = r"""
#include <cuda_fp16.h>
extern "C" __global__
void quant_per_block_int8(const __half* __restrict__ x, signed char* __restrict__ q,
                          float* __restrict__ scale, int rows, int dim, int block_rows)
{
    extern __shared__ float red[];
    long long base = ((long long)blockIdx.y * rows + (long long)blockIdx.x * block_rows) * dim;
    int count = min(block_rows, rows - (int)blockIdx.x * block_rows) * dim;
    float amax = 0.f;
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        amax = fmaxf(amax, fabsf(__half2float(x[base + i])));
    red[threadIdx.x] = amax;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) red[threadIdx.x] = fmaxf(red[threadIdx.x], red[threadIdx.x + s]);
        __syncthreads();
    }
    float step = fmaxf(red[0], 1e-6f) / 127.f;
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        q[base + i] = (signed char)__float2int_rn(__half2float(x[base + i]) / step);
    if (threadIdx.x == 0) scale[blockIdx.y * gridDim.x + blockIdx.x] = step;
}
"""

_quant_kernel = cp.RawKernel(_QUANT_SOURCE, "quant_per_block_int8")


def quant_per_block(x, block_rows):
    """int8 values and one scale per block of rows; ``x`` is (heads, rows, dim)."""
    heads, rows, dim = x.shape
    blocks = -(-rows // block_rows)
    q = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scale = torch.empty(heads, blocks, dtype=torch.float32, device=x.device)
    _quant_kernel(
        (blocks, heads),
        (256,),
        (cp.asarray(x), cp.asarray(q), cp.asarray(scale), cp.int32(rows), cp.int32(dim), cp.int32(block_rows)),
        shared_mem=256 * 4,
    )
    return q, scale.repeat_interleave(block_rows, dim=1)[:, :rows]


def sage_attention(q, k, v, block_q=128, block_k=64):
    k = k - k.mean(dim=1, keepdim=True)
    q_int8, q_scale = quant_per_block(q.contiguous(), block_q)
    k_int8, k_scale = quant_per_block(k.contiguous(), block_k)
    out = torch.empty_like(q)
    sm_scale = q.shape[-1] ** -0.5
    for h in range(q.shape[0]):
        score = torch._int_mm(q_int8[h], k_int8[h].T).float()
        score *= q_scale[h].unsqueeze(1) * k_scale[h].unsqueeze(0) * sm_scale
        out[h] = torch.softmax(score, dim=-1).to(v.dtype) @ v[h]
    return out


class SageBlock(torch.nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(hidden, 3 * hidden)
        self.proj = torch.nn.Linear(hidden, hidden)

    def forward(self, x):
        tokens, hidden = x.shape
        q, k, v = self.qkv(x).view(tokens, 3, self.heads, -1).permute(1, 2, 0, 3)
        out = sage_attention(q, k, v)
        return x + self.proj(out.transpose(0, 1).reshape(tokens, hidden))


class DenoiseWorker:
    """Runs the denoising loop on a stream of its own next to the VAE's."""

    def __init__(self, hidden, heads, depth):
        self.stream = torch.cuda.Stream()
        self.blocks = torch.nn.ModuleList([SageBlock(hidden, heads) for _ in range(depth)])
        self.blocks.to("cuda", torch.float16)

    @torch.inference_mode()
    def denoise(self, latents, sigmas):
        self.stream.wait_stream(torch.cuda.current_stream())
        latents.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            for sigma, following in zip(sigmas[:-1], sigmas[1:]):
                x = latents
                for block in self.blocks:
                    x = block(x)
                latents = latents + (following - sigma) * x
        torch.cuda.current_stream().wait_stream(self.stream)
        latents.record_stream(torch.cuda.current_stream())
        return latents
