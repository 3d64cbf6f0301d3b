"""Triton kernel issued from a worker stream."""
import torch
import triton
import triton.language as tl


@triton.jit
def scale_rows(x_ptr, s_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < cols
    x = tl.load(x_ptr + row * cols + offs, mask=mask)
    s = tl.load(s_ptr + row)
    tl.store(out_ptr + row * cols + offs, x * s, mask=mask)


class RowScaler:
    def __init__(self):
        self.aux = torch.cuda.Stream()

    def norms(self, x):
        return x.norm(dim=1).clamp_min(1e-6).reciprocal()

    def __call__(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream()
        scale, out = torch.empty(x.shape[0], device=x.device), torch.empty_like(x)
        self.aux.wait_stream(main)
        with torch.cuda.stream(self.aux):
            scale.copy_(self.norms(x))
            scale_rows[(x.shape[0],)](x, scale, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        extra = bias.sigmoid()
        main.wait_stream(self.aux)
        return out + extra


def main():
    scaler = RowScaler()
    h = torch.randn(512, 300, device="cuda")
    for _ in range(5):
        h = scaler(h, torch.randn(300, device="cuda"))
    print(h.std().item())


if __name__ == "__main__":
    main()
