import torch


class DenoiseEngine:
    def __init__(self, net, shape):
        self.net = net
        self.latent = torch.zeros(shape, device="cuda")
        self.coef = torch.ones(3, device="cuda")
        self.listeners = []
        self.graph = self._capture()

    @torch.no_grad()
    def _advance(self):
        t, now, nxt = self.coef[0], self.coef[1], self.coef[2]
        eps = self.net(self.latent, t)
        clean = (self.latent - (1 - now).sqrt() * eps) / now.sqrt()
        self.latent.copy_(nxt.sqrt() * clean.clamp(-3, 3) + (1 - nxt).clamp_min(0).sqrt() * eps)

    def _capture(self):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                self._advance()
        torch.cuda.current_stream().wait_stream(warm)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._advance()
        return graph

    def sample(self, schedule, noise):
        self.latent.copy_(noise)
        for k, row in enumerate(schedule):
            self.coef.copy_(row, non_blocking=True)
            for each in self.listeners:
                each.before_replay(k)
            self.graph.replay()
            for each in self.listeners:
                each.after_replay(k)
        return self.latent.clone()
