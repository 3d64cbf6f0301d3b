import rmm
import torch
from rmm.allocators.torch import rmm_torch_allocator


def use_rmm_pool(gib: int) -> None:
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource(initial_pool_size=gib << 30))
    torch.cuda.memory.change_current_allocator(rmm_torch_allocator)


class OverlappedProjection:
    """Half of the heads on a helper stream; its tensors are freed there as well."""

    def __init__(self, dim: int, heads: int):
        self.w = torch.randn(heads, dim, dim // heads, device="cuda") * dim ** -0.5
        self.helper = torch.cuda.Stream()
        self.helper.wait_stream(torch.cuda.current_stream())

    def _project(self, x, w, out):
        y = torch.einsum("nd,hdk->hnk", x, w)
        out.copy_(torch.softmax(y, dim=-1))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream()
        half = self.w.shape[0] // 2
        out = torch.empty(self.w.shape[0], x.shape[0], self.w.shape[2], device=x.device)
        self.helper.wait_stream(main)
        with torch.cuda.stream(self.helper):
            self._project(x, self.w[:half], out[:half])
        self._project(x, self.w[half:], out[half:])
        main.wait_stream(self.helper)
        return out


@torch.inference_mode()
def main():
    use_rmm_pool(2)
    proj = OverlappedProjection(1024, 16)
    total = torch.zeros((), device="cuda")
    for _ in range(50):
        x = torch.randn(512, 1024, device="cuda")
        total += proj(x).square().sum()
    print(total.item())


if __name__ == "__main__":
    main()
