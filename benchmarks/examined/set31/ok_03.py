import torch


class Overlap:
    def __init__(self, width):
        self.side = torch.cuda.Stream()
        self.shared = torch.nn.Linear(width, width, device="cuda")
        self.routed = torch.nn.Linear(width, width, device="cuda")

    @torch.no_grad()
    def forward(self, x):
        cur = torch.cuda.current_stream()
        normed = torch.nn.functional.layer_norm(x, x.shape[-1:])
        out = torch.empty_like(x)
        self.side.wait_stream(cur)
        with torch.cuda.stream(self.side):
            out.copy_(self.shared(normed))
        routed = self.routed(x)
        cur.wait_stream(self.side)
        del normed
        return out + routed


def main():
    layer = Overlap(2048)
    x = torch.randn(64, 2048, device="cuda")
    for _ in range(12):
        x = layer.forward(x)
    print(x.norm().item())


if __name__ == "__main__":
    main()
