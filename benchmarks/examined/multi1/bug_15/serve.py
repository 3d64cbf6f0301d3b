import torch

from factory import make_engine


class Server:
    def __init__(self, **overrides):
        self.engine, self.cfg = make_engine(**overrides)
        self.counts = torch.zeros(self.cfg["classes"], dtype=torch.long, device="cuda")

    @torch.no_grad()
    def handle(self, request):
        x = request.to("cuda")
        out = self.engine.infer(x)
        best = out.argmax(dim=1)
        self.engine.flush()
        self.counts.add_(torch.bincount(best, minlength=self.cfg["classes"]))
        return best.tolist()


def main():
    server = Server()
    shape = (server.cfg["batch"], server.cfg["width"])
    for _ in range(50):
        answer = server.handle(torch.randn(shape))
    print(answer[:8], server.counts.max().item())


if __name__ == "__main__":
    main()
