import torch

from flow import FlowNet
from overlap import Overlap


@torch.inference_mode()
def main(frames=24, size=(384, 512)):
    torch.manual_seed(0)
    net = FlowNet(Overlap()).cuda().eval()
    last = torch.rand(3, *size, device="cuda")
    total = torch.zeros((), device="cuda")
    for _ in range(frames):
        frame = (last.roll(2, dims=-1) + 0.01 * torch.randn_like(last)).clamp_(0, 1)
        total += net(last, frame).abs().mean()
        last = frame
    print(total.item() / frames)


if __name__ == "__main__":
    main()
