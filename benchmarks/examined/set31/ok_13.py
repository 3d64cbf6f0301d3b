"""Neural network potential evaluated through a CUDA graph inside an integrator."""
import torch
from torch import nn


class GraphedForce:
    def __init__(self, model, n_atoms, device, warmup=3):
        self.model = model.to(device).eval()
        self.positions = torch.zeros(n_atoms, 3, device=device)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(warmup):
                self.model(self.positions)
        torch.cuda.current_stream(device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.forces = self.model(self.positions)
        torch.cuda.synchronize(device)

    def evaluate(self):
        self.graph.replay()
        return self.forces


class Integrator:
    def __init__(self, force, n_atoms, device, dt=1e-3):
        self.force = force
        self.dt = dt
        self.x = torch.randn(n_atoms, 3, device=device)
        self.v = torch.zeros(n_atoms, 3, device=device)
        self.sim_stream = torch.cuda.Stream(device)
        self.sim_stream.wait_stream(torch.cuda.current_stream(device))

    def step(self):
        with torch.cuda.stream(self.sim_stream):
            self.x.add_(self.v, alpha=self.dt)
            self.force.positions.copy_(self.x)
            f = self.force.evaluate()
            self.v.add_(f, alpha=self.dt)

    def run(self, n):
        for _ in range(n):
            self.step()
        self.sim_stream.synchronize()
        return self.x.cpu()


def main():
    device = torch.device("cuda", 0)
    net = nn.Sequential(nn.Linear(3, 128), nn.SiLU(), nn.Linear(128, 3))
    sim = Integrator(GraphedForce(net, 20000, device), 20000, device)
    print(sim.run(100).norm().item())


if __name__ == "__main__":
    main()
