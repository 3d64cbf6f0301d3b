"""Relay of sequence lengths between the forward stream and the scheduler in
overlap mode. ``publish`` stores new lengths in the relay buffer; consumers
wait for ``publish_ready`` before they read it."""
import torch


class FutureMap:
    def __init__(self, max_reqs, device):
        self.relay = torch.zeros(max_reqs, dtype=torch.int64, device=device)
        self.publish_ready = torch.cuda.Event()

    def publish(self, slots, lens):
        self.relay.index_copy_(0, slots, lens)
        self.publish_ready.record(torch.cuda.current_stream())


class Batch:
    def __init__(self, slots, device):
        self.slots = torch.tensor(slots, dtype=torch.int64, device=device)


class Worker:
    def __init__(self, device, hidden=2048):
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.w = torch.randn(hidden, hidden, device=device) / hidden ** 0.5
            self.h = torch.randn(64, hidden, device=device)

    def forward(self, batch, fmap):
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(fmap.publish_ready)
            for _ in range(8):
                self.h = torch.tanh(self.h @ self.w)
            lens = fmap.relay.index_select(0, batch.slots)
            fmap.publish(batch.slots, lens + 1)


class Scheduler:
    def __init__(self, max_reqs=256, device="cuda"):
        self.device = torch.device(device)
        self.fmap = FutureMap(max_reqs, self.device)
        self.worker = Worker(self.device)
        self.schedule_stream = torch.cuda.Stream(self.device)
        self.copy_stream = torch.cuda.Stream(self.device)
        self.seq_lens_cpu = torch.zeros(max_reqs, dtype=torch.int64).pin_memory()
        self.running = Batch(range(0, 64), self.device)
        self.next_slot = 64
        torch.cuda.synchronize(self.device)

    def seed_prebuilt(self, count, prompt_len):
        """Requests that arrive with their KV cache already transferred."""
        with torch.cuda.stream(self.schedule_stream):
            slots = torch.arange(self.next_slot, self.next_slot + count, device=self.device)
            lens = torch.full((count,), prompt_len, dtype=torch.int64, device=self.device)
            self.fmap.publish(slots, lens)
        self.next_slot += count

    def resolve_seq_lens_cpu(self):
        done = torch.cuda.Event()
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(self.fmap.publish_ready)
            self.seq_lens_cpu.copy_(self.fmap.relay, non_blocking=True)
            done.record(self.copy_stream)
        done.synchronize()
        return self.seq_lens_cpu[:self.next_slot].tolist()

    def step(self, arrivals):
        self.worker.forward(self.running, self.fmap)
        if arrivals:
            self.seed_prebuilt(arrivals, prompt_len=512)
        return self.resolve_seq_lens_cpu()


if __name__ == "__main__":
    sched = Scheduler()
    for it in range(12):
        lens = sched.step(arrivals=4 if it % 3 == 2 else 0)
        print(it, lens[0], lens[-1])
