import numpy as np
import torch
import torch.nn as nn

FEATURES = 256
OUTPUTS = 32
MAX_BATCH = 128


def build():
    return nn.Sequential(
        nn.Linear(FEATURES, 1024),
        nn.SiLU(),
        nn.Linear(1024, 1024),
        nn.SiLU(),
        nn.Linear(1024, OUTPUTS),
    )


def fetch_checkpoint(version):
    torch.manual_seed(version)
    return build().state_dict()


class Replica:
    def __init__(self, module):
        self.module = module
        self.loaded = torch.cuda.Event()
        self.released = torch.cuda.Event()
        self.version = -1


class HotSwapServer:
    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self.replicas = [Replica(build().to(self.device).eval()) for _ in range(2)]
        self.live = 0
        self.infer_stream = torch.cuda.Stream(self.device)
        self.load_stream = torch.cuda.Stream(self.device)
        self.reply = torch.empty(MAX_BATCH, OUTPUTS, pin_memory=True)
        torch.cuda.synchronize(self.device)

    def stage(self, version):
        target = self.replicas[1 - self.live]
        host = {name: t.pin_memory() for name, t in fetch_checkpoint(version).items()}
        with torch.cuda.stream(self.load_stream), torch.no_grad():
            self.load_stream.wait_event(target.released)
            for name, dst in target.module.state_dict().items():
                dst.copy_(host[name], non_blocking=True)
            target.loaded.record(self.load_stream)
        target.version = version

    def promote(self):
        self.live = 1 - self.live
        self.infer_stream.wait_event(self.replicas[self.live].loaded)
        return self.replicas[self.live].version

    def predict(self, batch):
        replica = self.replicas[self.live]
        rows = len(batch)
        with torch.cuda.stream(self.infer_stream), torch.no_grad():
            x = torch.from_numpy(batch).to(self.device)
            y = replica.module(x)
            replica.released.record(self.infer_stream)
            self.reply[:rows].copy_(y, non_blocking=True)
            done = self.infer_stream.record_event()
        done.synchronize()
        return self.reply[:rows].numpy().copy()


def main():
    server = HotSwapServer()
    server.stage(1)
    print("serving", server.promote())
    rng = np.random.default_rng(0)
    totals = np.zeros(OUTPUTS)
    for tick in range(300):
        if tick % 40 == 10:
            server.stage(2 + tick // 40)
        if tick % 40 == 20:
            print("serving", server.promote())
        rows = int(rng.integers(1, MAX_BATCH + 1))
        scores = server.predict(rng.standard_normal((rows, FEATURES), dtype=np.float32))
        totals += scores.mean(axis=0)
    print(totals.argmax(), totals.max())


if __name__ == "__main__":
    main()
