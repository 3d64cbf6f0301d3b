import threading

import torch
from torch.nn.utils import parameters_to_vector


class GpuWeightSlots:
    """Two device slots between a learner thread and a collector thread.

    The learner fills the slot that is not published, waits for the copy and flips the
    version under the lock; the collector holds the lock from choosing the slot until its copy is done.
    """

    def __init__(self, numel, device):
        self.slots = [torch.zeros(numel, device=device) for _ in range(2)]
        self.version = 0
        self.lock = threading.Lock()
        self.publish_stream = torch.cuda.Stream(device)
        self.sync_stream = torch.cuda.Stream(device)
        torch.cuda.synchronize(device)

    def publish(self, params):
        flat = parameters_to_vector(params).detach()
        target = self.slots[(self.version + 1) % 2]
        self.publish_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.publish_stream):
            target.copy_(flat)
            done = self.publish_stream.record_event()
        flat.record_stream(self.publish_stream)
        done.synchronize()
        with self.lock:
            self.version += 1

    def sync(self, params, seen):
        with self.lock:
            if self.version == seen:
                return seen
            source = self.slots[self.version % 2]
            self.sync_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.sync_stream), torch.no_grad():
                offset = 0
                for p in params:
                    n = p.numel()
                    p.copy_(source[offset : offset + n].view_as(p))
                    offset += n
                done = self.sync_stream.record_event()
            done.synchronize()
            return self.version


class Collector(threading.Thread):
    def __init__(self, actor, env, slots, sink, stop):
        super().__init__(daemon=True)
        self.actor, self.env, self.slots = actor, env, slots
        self.sink, self.stop_flag = sink, stop

    @torch.no_grad()
    def run(self):
        stream = torch.cuda.Stream()
        seen = 0
        obs = self.env.reset()
        with torch.cuda.stream(stream):
            while not self.stop_flag.is_set():
                seen = self.slots.sync(list(self.actor.parameters()), seen)
                act = self.actor(obs.to("cuda")).cpu()
                obs, reward, done = self.env.step(act)
                self.sink(obs, act, reward, done)


def learn(actor, collector_actor, env, replay, opt, loss_fn, steps):
    numel = sum(p.numel() for p in actor.parameters())
    slots = GpuWeightSlots(numel, "cuda")
    stop = threading.Event()
    collector = Collector(collector_actor, env, slots, replay.add, stop)
    torch.cuda.synchronize()
    collector.start()
    for _ in range(steps):
        batch = replay.sample()
        loss = loss_fn(actor, batch)
        opt.zero_grad()
        loss.backward()
        opt.step()
        slots.publish(actor.parameters())
    stop.set()
    collector.join()
