import torch
from torch import nn

from completer import Completer
from runner import Runner
from sinks import Collected, Peak, Tally

CLASSES = 1000
BATCH = 256


def net():
    return nn.Sequential(
        nn.Linear(2048, 4096), nn.GELU(),
        nn.Linear(4096, 4096), nn.GELU(),
        nn.Linear(4096, CLASSES),
    )


def main():
    torch.cuda.set_device(0)
    completer = Completer()
    completer.start()
    runner = Runner(net().cuda().eval(), completer, BATCH, CLASSES)
    tally, peak = Tally(CLASSES), Peak()
    kept = Collected()
    futures = []
    for _ in range(100):
        x = torch.randn(BATCH, 2048, device="cuda")
        fut = runner.launch(x)
        fut.add_done_callback(tally)
        fut.add_done_callback(peak)
        fut.add_done_callback(kept)
        futures.append(fut)
    completer.close()
    print(tally.batches, tally.counts.max(), peak.value, len(kept))
    print("last", futures[-1].result()[0, :4].tolist())


if __name__ == "__main__":
    main()
