"""Expert re-balancing: a worker thread computes the new placement on the GPU."""
import queue
import threading

import torch


def replicate_by_load(load, num_physical):
    """Greedy replication: give extra replicas to the most loaded experts."""
    num_logical = load.shape[0]
    mapping = torch.arange(num_physical, device=load.device) % num_logical
    counts = torch.ones(num_logical, device=load.device)
    for i in range(num_logical, num_physical):
        hottest = torch.argmax(load / counts)
        mapping[i] = hottest
        counts[hottest] += 1
    return mapping


class RebalanceWorker(threading.Thread):
    def __init__(self, num_layers, num_physical, device):
        super().__init__(daemon=True)
        self.device = device
        self.num_physical = num_physical
        self.stream = torch.cuda.Stream(device=device)
        self.requests = queue.Queue()
        self.map_done = torch.cuda.Event()
        self.new_map = torch.zeros(num_layers, num_physical, dtype=torch.int64, device=device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def submit(self, load):
        snapshot = load.clone()
        event = torch.cuda.Event()
        event.record()
        self.requests.put((snapshot, event))

    def run(self):
        torch.cuda.set_device(self.device)
        while True:
            item = self.requests.get()
            if item is None:
                return
            snapshot, event = item
            self.stream.wait_event(event)
            with torch.cuda.stream(self.stream):
                snapshot.record_stream(self.stream)
                for layer in range(snapshot.shape[0]):
                    self.new_map[layer].copy_(
                        replicate_by_load(snapshot[layer], self.num_physical)
                    )
                self.map_done.record(self.stream)


class EplbState:
    def __init__(self, num_layers, num_logical, num_physical, device, delay=8):
        self.device = device
        self.delay = delay
        self.expert_load = torch.zeros(num_layers, num_logical, device=device)
        self.physical_to_logical = (
            torch.arange(num_physical, device=device) % num_logical
        ).repeat(num_layers, 1)
        self.worker = RebalanceWorker(num_layers, num_physical, device)
        self.worker.start()
        self.pending_since = None

    def record_load(self, layer, topk_ids):
        ones = torch.ones_like(topk_ids, dtype=torch.float32).view(-1)
        self.expert_load[layer].index_add_(0, topk_ids.view(-1), ones)

    def step(self, step_idx, interval):
        if self.pending_since is None:
            if step_idx % interval == interval - 1:
                self.worker.submit(self.expert_load)
                self.expert_load.zero_()
                self.pending_since = step_idx
            return
        if step_idx - self.pending_since < self.delay:
            return
        torch.cuda.current_stream(self.device).wait_event(self.worker.map_done)
        self.physical_to_logical.copy_(self.worker.new_map)
        self.pending_since = None


class MoEModel:
    def __init__(self, layers, state):
        self.layers = layers
        self.state = state

    @torch.inference_mode()
    def __call__(self, x):
        for i, layer in enumerate(self.layers):
            topk_ids = layer.gate(x).topk(8, dim=-1).indices
            self.state.record_load(i, topk_ids)
            x = x + layer.experts(x, topk_ids, self.state.physical_to_logical[i])
        return x


def serve(layers, batches, num_logical=256, num_physical=288, interval=400):
    device = torch.device("cuda", torch.cuda.current_device())
    state = EplbState(len(layers), num_logical, num_physical, device)
    model = MoEModel(layers, state)
    for i, x in enumerate(batches):
        yield model(x.to(device))
        state.step(i, interval)
    state.worker.requests.put(None)
    state.worker.join()
