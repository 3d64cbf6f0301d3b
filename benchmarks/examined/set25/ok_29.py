"""Replayed forward pass with weights that are refined between replays."""
import torch


class Model(torch.nn.Module):
    def __init__(self, d_in, d_inner, d_out):
        super().__init__()
        self.linear1 = torch.nn.Linear(d_in, d_inner)
        self.linear2 = torch.nn.Linear(d_inner, d_out)

    def forward(self, inp):
        hidden = self.linear1(inp).relu()
        return hidden, self.linear2(hidden)


class GraphedModel:
    def __init__(self, model, example):
        self.model = model
        self.inp = example.clone()
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad():
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.model(self.inp)
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(self.graph):
                self.hidden, self.out = self.model(self.inp)

    def __call__(self, x):
        self.inp.copy_(x)
        self.graph.replay()
        return self.hidden.clone(), self.out.clone()


def refine(model, hidden, residual, lr=1e-3):
    with torch.no_grad():
        model.linear2.weight.sub_(lr * residual.t() @ hidden)
        model.linear2.bias.sub_(lr * residual.sum(0))


def main():
    torch.manual_seed(0)
    model = Model(256, 1024, 16).cuda()
    data = [torch.randn(512, 256).pin_memory() for _ in range(12)]
    target = torch.zeros(512, 16, device="cuda")
    graphed = GraphedModel(model, torch.zeros(512, 256, device="cuda"))
    upload = torch.cuda.Stream()
    outputs = []
    for host in data:
        with torch.cuda.stream(upload):
            x = host.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(upload)
        hidden, out = graphed(x)
        x.record_stream(torch.cuda.current_stream())
        refine(model, hidden, out - target)
        outputs.append(out)
    stacked = torch.stack(outputs).pow(2).mean(dim=(1, 2))
    print(stacked.tolist())


if __name__ == "__main__":
    main()
