class Feeder:
    def __init__(self, slots, samples):
        self.slots = slots
        self.samples = samples
        self.loaded = 0

    def __len__(self):
        return len(self.samples)

    def slot(self, k):
        return self.slots[k % len(self.slots)]

    def load(self, k):
        slot = self.slot(k)
        slot.settle()
        slot.host.copy_(self.samples[k])
        slot.fence()
        slot.mark()
        slot.upload()
        self.loaded += 1

    def __iter__(self):
        if len(self):
            self.load(0)
        for k in range(len(self)):
            if k + 1 < len(self):
                self.load(k + 1)
            slot = self.slot(k)
            slot.wait()
            yield slot.dev
