import queue
import threading

import torch


class FutureMap:
    def __init__(self, size, device):
        self.values = torch.zeros(size, dtype=torch.long, device=device)
        self.size, self.cursor = size, 0

    def reserve(self, n):
        if self.cursor + n >= self.size:
            self.cursor = 0
        start = self.cursor
        self.cursor += n
        return start

    def resolve_(self, ids):
        ids.copy_(torch.where(ids < 0, self.values[(-ids - 1).clamp_min(0)], ids))


class ForwardThread(threading.Thread):
    def __init__(self, model, device="cuda"):
        super().__init__(daemon=True)
        self.model = model
        self.futures = FutureMap(4096, device)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.inputs, self.outputs = queue.Queue(), queue.Queue()

    @torch.no_grad()
    def run(self):
        with torch.cuda.stream(self.stream):
            while (job := self.inputs.get()) is not None:
                ids, start, submitted = job
                submitted.wait()
                self.futures.resolve_(ids)
                nxt = self.model(ids).argmax(-1)
                self.futures.values[start:start + nxt.numel()] = nxt
                host = nxt.to("cpu", non_blocking=True)
                copy_done = torch.cuda.Event()
                copy_done.record()
                self.outputs.put((copy_done, host, ids, nxt))


class OverlapClient:
    def __init__(self, model):
        self.worker = ForwardThread(model)
        self.worker.start()

    def launch(self, ids):
        start = self.worker.futures.reserve(ids.numel())
        submitted = torch.cuda.current_stream().record_event()
        self.worker.inputs.put((ids, start, submitted))
        return -torch.arange(start + 1, start + 1 + ids.numel(), device="cuda")

    def resolve(self):
        copy_done, host, ids, nxt = self.worker.outputs.get()
        copy_done.synchronize()
        return host.tolist()

    def close(self):
        self.worker.inputs.put(None)
        self.worker.join()


def generate(model, prompt, steps):
    client = OverlapClient(model)
    out, ahead = [], 0
    ids = prompt.cuda()
    for _ in range(steps):
        ids = client.launch(ids)
        ahead += 1
        if ahead > 1:
            out.append(client.resolve())
            ahead -= 1
    out.append(client.resolve())
    client.close()
    return out


if __name__ == "__main__":
    net = torch.nn.Sequential(torch.nn.Embedding(1000, 64), torch.nn.Linear(64, 1000)).cuda()
    print(generate(net, torch.randint(0, 1000, (16,)), 64)[-1])
