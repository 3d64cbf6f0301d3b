from typing import List

import torch


class StreamFanout:
    """Distributes independent solves over a few streams and joins them all."""

    def __init__(self, n: int):
        self.streams = [torch.cuda.Stream() for _ in range(n)]
        self.start = torch.cuda.Event()

    def map_into(self, fn, inputs: List[torch.Tensor], out: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream()
        self.start.record(main)
        ends = []
        for lane, stream in enumerate(self.streams):
            stream.wait_event(self.start)
            with torch.cuda.stream(stream):
                for i in range(lane, len(inputs), len(self.streams)):
                    out[i].copy_(fn(inputs[i]))
                end = torch.cuda.Event()
                end.record()
                ends.append(end)
        for end in ends:
            main.wait_event(end)
        return out


def ridge(sample: torch.Tensor) -> torch.Tensor:
    x, y = sample[:, :-1], sample[:, -1:]
    gram = x.t() @ x + 1e-3 * torch.eye(x.shape[1], device=x.device)
    return torch.cholesky_solve(x.t() @ y, torch.linalg.cholesky_ex(gram).L).squeeze(-1)


@torch.no_grad()
def main():
    fan = StreamFanout(4)
    data = torch.randn(4096, 65, device="cuda")
    coefs = []
    for rep in range(10):
        draws = [data[torch.randint(0, 4096, (4096,), device="cuda")] for _ in range(16)]
        out = torch.empty(16, 64, device="cuda")
        coefs.append(fan.map_into(ridge, draws, out))
    boot = torch.cat(coefs)
    print(boot.mean(0)[:4].tolist(), boot.std(0)[:4].tolist())


if __name__ == "__main__":
    main()
