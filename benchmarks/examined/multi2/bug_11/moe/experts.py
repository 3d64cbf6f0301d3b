import torch


class ExpertSlot:
    """Room on the GPU for one expert."""

    def __init__(self, dim, inner, device="cuda"):
        self.w1 = torch.empty(dim, inner, device=device, dtype=torch.float16)
        self.w2 = torch.empty(inner, dim, device=device, dtype=torch.float16)
        self.loaded = torch.cuda.Event()
        self.used = torch.cuda.Event()
        self.expert = None

    def touch(self):
        self.used.record()

    def fill(self, pair):
        self.w1.copy_(pair[0], non_blocking=True)
        self.w2.copy_(pair[1], non_blocking=True)


class ExpertBank:
    """All experts, in page-locked memory."""

    def __init__(self, n, dim, inner):
        self.pairs = []
        for _ in range(n):
            w1 = torch.empty(dim, inner, dtype=torch.float16, pin_memory=True)
            w2 = torch.empty(inner, dim, dtype=torch.float16, pin_memory=True)
            self.pairs.append((w1.normal_(std=dim ** -0.5), w2.normal_(std=inner ** -0.5)))

    def __getitem__(self, e):
        return self.pairs[e]

    def __len__(self):
        return len(self.pairs)

    @property
    def nbytes(self):
        return sum(w.numel() * w.element_size() for pair in self.pairs for w in pair)
