import torch


class Engine:
    def __init__(self, width=2048):
        self.stream = torch.cuda.Stream()
        self.model = torch.nn.Linear(width, width).cuda()
        self.x = torch.zeros(64, width, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.no_grad(), torch.cuda.stream(self.stream):
            self.model(self.x)
        torch.cuda.synchronize()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=self.stream):
            self.y = self.model(self.x)

    def load(self, x):
        self.x.copy_(x)

    def run(self):
        with torch.cuda.stream(self.stream):
            self.graph.replay()
        self.stream.synchronize()
        return self.y.clone()


def main():
    eng = Engine()
    for _ in range(4):
        eng.load(torch.randn(64, 2048, device="cuda").cumsum(0))
        print(eng.run().sum().item())


if __name__ == "__main__":
    main()
