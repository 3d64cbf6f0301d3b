"""Stop-token check: the token copy that drives the loop also fences the host buffers."""
import torch


class StepBuffers:
    def __init__(self, batch):
        self.temps = torch.ones(batch, pin_memory=True)
        self.active = torch.ones(batch, dtype=torch.bool, pin_memory=True)


class GreedyLoop:
    def __init__(self, batch=32, dim=1024, vocab=32000, eos=2):
        self.host = StepBuffers(batch)
        self.temps = torch.ones(batch, device="cuda")
        self.active = torch.ones(batch, dtype=torch.bool, device="cuda")
        self.emb = torch.randn(vocab, dim, device="cuda")
        self.w = torch.randn(dim, dim, device="cuda") / 32
        self.eos = eos
        self.batch = batch

    def _upload(self, step, alive):
        self.host.temps.fill_(1.0 + 0.01 * step)
        for i, flag in enumerate(alive):
            self.host.active[i] = flag
        self.temps.copy_(self.host.temps, non_blocking=True)
        self.active.copy_(self.host.active, non_blocking=True)

    def run(self, tokens, max_steps):
        alive = [True] * self.batch
        rows = []
        for step in range(max_steps):
            self._upload(step, alive)
            h = torch.tanh(self.emb[tokens] @ self.w)
            logits = (h @ self.emb.T) / self.temps[:, None]
            tokens = torch.where(self.active, logits.argmax(-1), self.eos)
            ids = tokens.cpu().tolist()
            rows.append(ids)
            alive = [a and t != self.eos for a, t in zip(alive, ids)]
            if not any(alive):
                break
        return rows


if __name__ == "__main__":
    loop = GreedyLoop()
    print(len(loop.run(torch.arange(32, device="cuda"), 128)))
