"""Actor-side store that lets peers pull GPU tensors by id over a one-sided transport."""
import queue
import threading
import uuid

import torch


class TransportAgent:
    """Progress thread; serves reads of registered memory on a stream of its own."""

    def __init__(self, device):
        self.device = torch.device(device)
        self._regions = {}
        self._work = queue.Queue()
        self._thread = threading.Thread(target=self._progress, daemon=True)
        self._thread.start()

    def register_memory(self, key, tensors):
        self._regions[key] = tensors

    def deregister_memory(self, key):
        self._regions.pop(key, None)

    def read(self, key, index, dst):
        done = threading.Event()
        self._work.put((key, index, dst, done))
        return done

    def _progress(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            while True:
                item = self._work.get()
                if item is None:
                    return
                key, index, dst, done = item
                src = self._regions[key][index]
                dst.copy_(src, non_blocking=True)
                stream.synchronize()
                done.set()

    def close(self):
        self._work.put(None)
        self._thread.join()


class DeviceObjectStore:
    def __init__(self, device="cuda:0"):
        self.device = torch.device(device)
        self.agent = TransportAgent(device)

    def put(self, tensors):
        """Publish tensors; returns metadata a peer can use for reading them."""
        tensors = [t.contiguous() for t in tensors]
        devices = {t.device for t in tensors}
        if devices != {self.device}:
            raise ValueError("all tensors of an object must live on the actor's device")
        key = uuid.uuid4().hex
        self.agent.register_memory(key, tensors)
        return {"key": key, "meta": [(tuple(t.shape), t.dtype) for t in tensors]}

    def fetch(self, ref):
        """Peer side: pull all tensors of `ref` into pinned host memory."""
        out, pending = [], []
        for i, (shape, dtype) in enumerate(ref["meta"]):
            dst = torch.empty(shape, dtype=dtype, pin_memory=True)
            pending.append(self.agent.read(ref["key"], i, dst))
            out.append(dst)
        for p in pending:
            p.wait()
        return out

    def free(self, ref):
        self.agent.deregister_memory(ref["key"])


class RolloutActor:
    def __init__(self, policy, store):
        self.policy = policy
        self.store = store

    @torch.no_grad()
    def rollout(self, obs):
        logits = self.policy(obs)
        actions = torch.multinomial(logits.softmax(-1), 1).squeeze(-1)
        values = logits.logsumexp(-1)
        return self.store.put([logits, actions, values])


def main():
    policy = torch.nn.Sequential(
        torch.nn.Linear(512, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 64)
    ).cuda()
    store = DeviceObjectStore()
    actor = RolloutActor(policy, store)
    returns = []
    for _ in range(100):
        ref = actor.rollout(torch.randn(8192, 512, device="cuda"))
        logits, actions, values = store.fetch(ref)
        returns.append(float(values.mean()) + float(actions.float().mean()))
        store.free(ref)
    store.agent.close()
    return returns


if __name__ == "__main__":
    main()
