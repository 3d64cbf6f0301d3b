import torch

from dit import Denoiser
from swap import BlockSwapper, PinnedBlocks, attach


@torch.inference_mode()
def sample(model, swapper, x, steps):
    for t in range(steps):
        swapper.start()
        eps = model(x)
        x = x - eps * (1.0 / (t + 2))
    return x


def main():
    torch.cuda.set_device(0)
    model = Denoiser(depth=12, dim=2048).eval().requires_grad_(False)
    host = PinnedBlocks(model.blocks)
    swapper = BlockSwapper(model.blocks, host, keep=3)
    attach(model.blocks, swapper)
    x = torch.randn(512, 2048, device="cuda")
    x = sample(model, swapper, x, steps=20)
    print(x.norm().item())
    swapper.close()


if __name__ == "__main__":
    main()
