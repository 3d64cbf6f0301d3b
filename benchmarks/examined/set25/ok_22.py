"""Activation tier: D2H during forward, H2D during backward, two device slots."""
import torch


class TierActivationPipeline:
    def __init__(self, num_layers, shape, device="cuda"):
        self.device = torch.device(device)
        self.copy_out = torch.cuda.Stream(self.device)
        self.copy_in = torch.cuda.Stream(self.device)
        self.host = [torch.empty(shape, pin_memory=True) for _ in range(num_layers)]
        self.offloaded = [torch.cuda.Event() for _ in range(num_layers)]
        self.slots = [torch.empty(shape, device=self.device) for _ in range(2)]
        self.slot_ready = [torch.cuda.Event(), torch.cuda.Event()]
        self.slot_free = [torch.cuda.Event(), torch.cuda.Event()]
        for ev in self.slot_free:
            ev.record(torch.cuda.current_stream(self.device))

    def enqueue_offload(self, layer_id, act):
        self.copy_out.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.copy_out):
            self.host[layer_id].copy_(act, non_blocking=True)
            self.offloaded[layer_id].record(self.copy_out)
        act.record_stream(self.copy_out)

    def enqueue_prefetch(self, layer_id):
        if layer_id < 0:
            return
        slot = layer_id % 2
        self.copy_in.wait_event(self.slot_free[slot])
        self.copy_in.wait_event(self.offloaded[layer_id])
        with torch.cuda.stream(self.copy_in):
            self.slots[slot].copy_(self.host[layer_id], non_blocking=True)
            self.slot_ready[slot].record(self.copy_in)

    def acquire(self, layer_id):
        slot = layer_id % 2
        torch.cuda.current_stream(self.device).wait_event(self.slot_ready[slot])
        return self.slots[slot]

    def release(self, layer_id):
        self.slot_free[layer_id % 2].record(torch.cuda.current_stream(self.device))


def train_step(weights, x, pipe):
    for i, w in enumerate(weights):
        pipe.enqueue_offload(i, x)
        x = torch.tanh(x @ w)
    grad = torch.ones_like(x)
    last = len(weights) - 1
    pipe.enqueue_prefetch(last)
    pipe.enqueue_prefetch(last - 1)
    grads = [None] * len(weights)
    for i in range(last, -1, -1):
        act = pipe.acquire(i)
        pre = torch.tanh(act @ weights[i])
        local = grad * (1 - pre * pre)
        grads[i] = act.t() @ local
        grad = local @ weights[i].t()
        pipe.release(i)
        pipe.enqueue_prefetch(i - 2)
    return grads


def main():
    depth = 6
    weights = [torch.randn(512, 512, device="cuda") * 0.04 for _ in range(depth)]
    pipe = TierActivationPipeline(depth, (256, 512))
    for _ in range(10):
        x = torch.randn(256, 512, device="cuda")
        for w, g in zip(weights, train_step(weights, x, pipe)):
            w.sub_(1e-3 * g)
    print(weights[0].norm().item())


if __name__ == "__main__":
    main()
