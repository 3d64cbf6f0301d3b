from dataclasses import dataclass

import torch


@dataclass
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    repetition_penalty: float = 1.0
    seed: int = 0


class Buffer:
    """A per-slot master table and the batch gathered from it."""

    def __init__(self, name, max_slots, max_batch, dtype, device):
        self.name = name
        self.master = torch.zeros(max_slots, dtype=dtype, device=device)
        self.batch = torch.zeros(max_batch, dtype=dtype, device=device)
        self.row_cpu = torch.zeros(1, dtype=dtype, pin_memory=True)

    def write_master_row(self, slot, value):
        self.row_cpu.fill_(value)
        self.master[slot : slot + 1].copy_(self.row_cpu, non_blocking=True)

    def gather(self, slot_idx):
        n = slot_idx.numel()
        torch.index_select(self.master, 0, slot_idx, out=self.batch[:n])
        return self.batch[:n]


class SamplerState:
    FIELDS = {
        "temperature": torch.float32,
        "top_p": torch.float32,
        "top_k": torch.int32,
        "repetition_penalty": torch.float32,
        "seed": torch.int64,
    }

    def __init__(self, max_slots, max_batch, device):
        self.device = device
        self.free_slots = list(range(max_slots))
        self.slots = {}
        self.buffers = {
            name: Buffer(name, max_slots, max_batch, dtype, device)
            for name, dtype in self.FIELDS.items()
        }

    def register(self, rid, params):
        slot = self.free_slots.pop()
        self.slots[rid] = slot
        for name, buf in self.buffers.items():
            buf.write_master_row(slot, getattr(params, name))

    def update_request_config(self, rid, **changes):
        for name, value in changes.items():
            self.buffers[name].write_master_row(self.slots[rid], value)

    def release(self, rid):
        self.free_slots.append(self.slots.pop(rid))

    def stage(self, rids):
        idx = torch.tensor([self.slots[r] for r in rids]).pin_memory()
        idx = idx.to(self.device, non_blocking=True)
        return {name: buf.gather(idx) for name, buf in self.buffers.items()}


class Engine:
    def __init__(self, model, max_slots=256, device="cuda"):
        self.model = model
        self.state = SamplerState(max_slots, max_slots, device)
        self.running = []

    @torch.no_grad()
    def step(self, admitted, finished, input_ids):
        for rid in finished:
            self.running.remove(rid)
            self.state.release(rid)
        for rid, params in admitted:
            self.state.register(rid, params)
            self.running.append(rid)
        logits = self.model(input_ids)
        cfg = self.state.stage(self.running)
        probs = torch.softmax(logits / cfg["temperature"].unsqueeze(1), dim=-1)
        return torch.multinomial(probs, 1).squeeze(1)
