"""A kernel of a CUDA extension, on the current stream, reads what a side stream is still writing."""

import sys

import torch
from torch.utils.cpp_extension import load_inline

RIGHT = "--right" in sys.argv
N = 1 << 20
HEADER = "void twice(torch::Tensor x, torch::Tensor y);"
SOURCE = """
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
__global__ void run(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}
void twice(torch::Tensor x, torch::Tensor y) {
    auto stream = c10::cuda::getCurrentCUDAStream();
    run<<<x.numel() / 256, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>());
}
"""


def main():
    extension = load_inline("streamlint_twice", HEADER, SOURCE, functions=["twice"])
    side = torch.cuda.Stream()
    x, y = torch.empty(N, device="cuda"), torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(4.0)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    extension.twice(x, y)
    print(y.sum().item())


main()
