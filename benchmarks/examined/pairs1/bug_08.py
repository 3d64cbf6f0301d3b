"""Speculative decoding for a hybrid state-space model."""
import torch


class MambaState:
    def __init__(self, max_reqs, dim, num_spec):
        self.states = torch.zeros(max_reqs, num_spec + 1, dim, device="cuda")
        self.num_accepted_cpu = torch.ones(max_reqs, dtype=torch.int64, pin_memory=True)
        self.num_accepted_np = self.num_accepted_cpu.numpy()


class HybridRunner:
    def __init__(self, max_reqs=32, dim=1024, num_spec=3):
        self.num_spec = num_spec
        self.state = MambaState(max_reqs, dim, num_spec)
        self.w = torch.randn(dim, dim, device="cuda") / 32
        self.head = torch.randn(dim, 4096, device="cuda")

    def _build_metadata(self, n):
        offsets = [int(c) - 1 for c in self.state.num_accepted_np[:n]]
        return torch.tensor(offsets, device="cuda")

    def _verify(self, h, drafts):
        target = (h @ self.head).argmax(-1)
        match = (target[:, :-1] == drafts).int()
        return match.cumprod(-1).sum(-1) + 1

    def _update_states_after_execute(self, accepted, n):
        self.state.num_accepted_cpu[:n].copy_(accepted, non_blocking=True)

    def execute_model(self, drafts):
        n = drafts.shape[0]
        offsets = self._build_metadata(n)
        start = self.state.states[torch.arange(n, device="cuda"), offsets]
        seq = [start]
        for _ in range(self.num_spec):
            seq.append(torch.tanh(seq[-1] @ self.w))
        h = torch.stack(seq, 1)
        self.state.states[:n] = h
        self._update_states_after_execute(self._verify(h, drafts), n)


def main():
    runner = HybridRunner()
    for _ in range(100):
        runner.execute_model(torch.randint(0, 4096, (32, 3), device="cuda"))
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
