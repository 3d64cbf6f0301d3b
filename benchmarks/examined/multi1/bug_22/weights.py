import torch


class LayerSlots:
    def __init__(self, layers, slots, device="cuda"):
        self.host = [w.pin_memory() for w in layers]
        self.dev = [torch.empty(self.host[0].shape, device=device) for _ in range(slots)]
        self.stream = torch.cuda.Stream(device=device)
        self.landed = {}

    def __len__(self):
        return len(self.host)

    def pending(self):
        return sorted(self.landed)

    def fetch(self, layer):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.dev[layer % len(self.dev)].copy_(self.host[layer], non_blocking=True)
            mark = torch.cuda.Event()
            mark.record()
        self.landed[layer] = mark

    def weight(self, layer):
        torch.cuda.current_stream().wait_event(self.landed.pop(layer))
        return self.dev[layer % len(self.dev)]
