import torch
from torch import nn

from monitor import RangeMonitor
from uploader import UploadThread


def requests(count, rows, width):
    for k in range(count):
        yield torch.full((rows, width), 0.01 * k) + torch.rand(rows, width)


@torch.no_grad()
def serve(thread, model, monitor):
    answers = []
    while True:
        item = thread.out.get()
        if item is None:
            break
        if monitor.wants(item.index):
            monitor.observe(item.dev)
        answers.append(model(item.acquire()).argmax(dim=1))
        thread.recycle(item)
    return torch.cat(answers)


if __name__ == "__main__":
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 100)).to("cuda")
    thread = UploadThread(requests(128, 2048, 512), 4, (2048, 512))
    monitor = RangeMonitor(every=8)
    thread.start()
    print(serve(thread, model, monitor).bincount().tolist()[:5], monitor.report())
