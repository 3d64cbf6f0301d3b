from collections import OrderedDict

import torch


class ExpertLoader:
    def __init__(self, bank, slots):
        self.bank = bank
        self.stream = torch.cuda.Stream()
        self.idle = list(slots)
        self.resident = OrderedDict()
        for s in slots:
            s.touch()

    def _victim(self):
        if self.idle:
            return self.idle.pop()
        _, slot = self.resident.popitem(last=False)
        return slot

    def want(self, e):
        slot = self.resident.get(e)
        if slot is not None:
            self.resident.move_to_end(e)
            return slot
        slot = self._victim()
        self.stream.wait_event(slot.used)
        with torch.cuda.stream(self.stream):
            slot.fill(self.bank[e])
            slot.loaded.record()
        slot.expert = e
        self.resident[e] = slot
        return slot

    def stats(self):
        return {"resident": list(self.resident), "idle": len(self.idle)}
