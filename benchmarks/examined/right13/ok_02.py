"""Graph-replayed inference with two static input slots."""
import torch


class Slot:
    def __init__(self, model, shape, device, run):
        self.host = torch.empty(shape, pin_memory=True)
        self.copied = torch.cuda.Event()
        self.consumed = torch.cuda.Event()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(run), torch.no_grad():
            self.x = torch.zeros(shape, device=device)
            for _ in range(3):
                model(self.x)
            run.synchronize()
            with torch.cuda.graph(self.graph, stream=run):
                self.y = model(self.x)
            self.consumed.record(run)


class GraphServer:
    def __init__(self, model, batch_shape, device="cuda", slots=2):
        self.device = torch.device(device)
        self.model = model.eval().to(self.device)
        self.run = torch.cuda.Stream(self.device)
        self.copy = torch.cuda.Stream(self.device)
        self.run.wait_stream(torch.cuda.current_stream(self.device))
        self.slots = [Slot(self.model, batch_shape, self.device, self.run) for _ in range(slots)]
        for slot in self.slots:
            slot.x.record_stream(self.copy)
        self.turn = 0

    def _next_slot(self):
        slot = self.slots[self.turn]
        self.turn = (self.turn + 1) % len(self.slots)
        return slot

    def submit(self, batch):
        if batch.is_cuda:
            raise ValueError("submit() takes host batches")
        caller = torch.cuda.current_stream(self.device)
        slot = self._next_slot()

        slot.copied.synchronize()
        slot.host.copy_(batch)
        with torch.cuda.stream(self.copy):
            self.copy.wait_event(slot.consumed)
            slot.x.copy_(slot.host, non_blocking=True)
            slot.copied.record(self.copy)

        self.run.wait_stream(caller)
        with torch.cuda.stream(self.run):
            self.run.wait_event(slot.copied)
            slot.graph.replay()
            out = slot.y.clone()
            slot.consumed.record(self.run)

        caller.wait_event(slot.consumed)
        out.record_stream(caller)
        return out

    def reload(self, state_dict):
        caller = torch.cuda.current_stream(self.device)
        caller.wait_stream(self.run)
        self.model.load_state_dict(state_dict)
        self.run.wait_stream(caller)


def main():
    net = torch.nn.Sequential(
        torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 64)
    )
    server = GraphServer(net, (32, 256))
    total = torch.zeros(64, device="cuda")
    for _ in range(100):
        total += server.submit(torch.randn(32, 256)).sum(0)
    print(total.cpu())


if __name__ == "__main__":
    main()
