"""Hot-swapped weights with two resident copies."""
import copy
import threading

import torch
from torch import nn


class Replica:
    def __init__(self, module: nn.Module):
        self.module = module
        self.uploaded = torch.cuda.Event()
        self.last_use = torch.cuda.Event()


class HotSwapServer:
    def __init__(self, module: nn.Module):
        module = module.cuda().eval().requires_grad_(False)
        self.replicas = [Replica(module), Replica(copy.deepcopy(module))]
        self.active = 0
        self.lock = threading.Lock()
        self.upload_stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    def infer(self, x: torch.Tensor) -> torch.Tensor:
        with self.lock:
            rep = self.replicas[self.active]
            rep.uploaded.wait()
            out = rep.module(x)
            rep.last_use.record()
        return out

    def load(self, state: dict):
        with self.lock:
            rep = self.replicas[1 - self.active]
            self.upload_stream.wait_event(rep.last_use)
        with torch.cuda.stream(self.upload_stream):
            for name, p in rep.module.state_dict().items():
                p.copy_(state[name], non_blocking=True)
            rep.uploaded.record()
        with self.lock:
            self.active = 1 - self.active


def updater(server: HotSwapServer, versions: list):
    for state in versions:
        server.load(state)


def main():
    server = HotSwapServer(nn.Linear(512, 512))
    versions = [
        {k: v.pin_memory() for k, v in nn.Linear(512, 512).state_dict().items()}
        for _ in range(5)
    ]
    t = threading.Thread(target=updater, args=(server, versions))
    t.start()
    acc = torch.zeros((), device="cuda")
    for _ in range(100):
        acc += server.infer(torch.randn(4, 512, device="cuda")).sum()
    t.join()
    print(acc.item())


if __name__ == "__main__":
    main()
