import torch

from experts import HostBank, Mixture, SeatPool

LAYERS, EXPERTS, HIDDEN, INNER = 4, 12, 1024, 2048


def main(device="cuda:0", tokens=128, steps=40):
    torch.cuda.set_device(device)
    bank = HostBank(LAYERS, EXPERTS, INNER, HIDDEN)
    pool = SeatPool(bank, seats=3, device=device)
    layers = [
        Mixture(i, HIDDEN, EXPERTS, pool).to(device).half() for i in range(LAYERS)
    ]
    x = torch.randn(tokens, HIDDEN, device=device).half()
    for _ in range(steps):
        for layer in layers:
            x = layer(x)
        x = x / x.float().norm(dim=-1, keepdim=True).half()
    print(x.float().abs().mean().item())


if __name__ == "__main__":
    main()
