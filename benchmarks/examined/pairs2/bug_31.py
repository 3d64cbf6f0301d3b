"""Rolling in-memory checkpoints with a disk writer thread."""
import queue
import threading

import torch
import torch.nn as nn


class HostSlot:
    def __init__(self, state):
        self.state = {k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True) for k, v in state.items()}
        self.event = torch.cuda.Event()
        self.tag = None


class RollingCheckpoint:
    def __init__(self, model, num_slots=2):
        self.model = model
        state = model.state_dict()
        self.available = queue.Queue()
        for _ in range(num_slots):
            self.available.put(HostSlot(state))
        self.to_write = queue.Queue()
        self.thread = threading.Thread(target=self._loop)
        self.thread.start()

    def checkpoint(self, tag):
        slot = self.available.get()
        for k, v in self.model.state_dict().items():
            slot.state[k].copy_(v, non_blocking=True)
        slot.event.record()
        slot.tag = tag
        self.to_write.put((tag, slot))

    def _loop(self):
        while True:
            tag, slot = self.to_write.get()
            if slot is None:
                break
            slot.event.synchronize()
            self.available.put(slot)
            torch.save(slot.state, f"{tag}.ckpt")

    def close(self):
        self.to_write.put((None, None))
        self.thread.join()


def main():
    model = nn.Sequential(nn.Embedding(30000, 512), nn.Linear(512, 30000)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    rolling = RollingCheckpoint(model)
    for step in range(300):
        tokens = torch.randint(0, 30000, (512,), device="cuda")
        loss = nn.functional.cross_entropy(model(tokens), tokens.roll(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            rolling.checkpoint(f"step{step}")
    rolling.close()


if __name__ == "__main__":
    main()
