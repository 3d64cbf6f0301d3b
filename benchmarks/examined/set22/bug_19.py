"""Engine states that can be parked in host memory between training and generation phases."""
from enum import Enum

import torch
from torch import nn


class StateKind(Enum):
    LP_PARAMS = "lp_params"
    HP_PARAMS = "hp_params"
    OPTIM = "optim_states"


class FlatGroup:
    def __init__(self, params):
        self.params = list(params)
        self.lp = torch.cat([p.detach().reshape(-1) for p in self.params])
        self.hp = self.lp.float()
        self.exp_avg = torch.zeros_like(self.hp)
        self.exp_avg_sq = torch.zeros_like(self.hp)
        self._link()

    def _link(self):
        offset = 0
        for p in self.params:
            p.data = self.lp[offset:offset + p.numel()].view(p.shape)
            offset += p.numel()

    def names(self, kind):
        return {
            StateKind.LP_PARAMS: ["lp"],
            StateKind.HP_PARAMS: ["hp"],
            StateKind.OPTIM: ["exp_avg", "exp_avg_sq"],
        }[kind]


class Engine:
    def __init__(self, module, lr=1e-5):
        self.module = module
        self.group = FlatGroup(module.parameters())
        self.lr = lr
        self.t = 0
        self.host_buffers = {}
        self.offloaded = {}

    def _host_buffer(self, name, tensor, pin_memory):
        if name not in self.host_buffers:
            self.host_buffers[name] = torch.empty(
                tensor.shape, dtype=tensor.dtype, pin_memory=pin_memory
            )
        return self.host_buffers[name]

    def offload_states(self, include=tuple(StateKind), pin_memory=True, non_blocking=False):
        for kind in include:
            for name in self.group.names(kind):
                tensor = getattr(self.group, name)
                host = self._host_buffer(name, tensor, pin_memory)
                host.copy_(tensor, non_blocking=non_blocking)
                setattr(self.group, name, host)
                self.offloaded[name] = tensor.device
                del tensor
        if StateKind.LP_PARAMS in include:
            self.group._link()

    def reload_states(self, non_blocking=False):
        for name, device in self.offloaded.items():
            host = getattr(self.group, name)
            setattr(self.group, name, host.to(device, non_blocking=non_blocking))
        self.offloaded.clear()
        self.group._link()

    @torch.no_grad()
    def step(self):
        self.t += 1
        g = torch.cat([p.grad.reshape(-1) for p in self.group.params]).float()
        self.group.exp_avg.lerp_(g, 0.1)
        self.group.exp_avg_sq.mul_(0.999).addcmul_(g, g, value=0.001)
        self.group.hp.addcdiv_(self.group.exp_avg, self.group.exp_avg_sq.sqrt() + 1e-8, value=-self.lr)
        self.group.lp.copy_(self.group.hp)
        for p in self.group.params:
            p.grad = None

    def export_master(self):
        return {"step": self.t, "hp": self.group.hp.numpy().copy()}


def rlhf(batches, generate, publish):
    module = nn.Sequential(nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 4096)).to("cuda", torch.bfloat16)
    engine = Engine(module)
    for batch in batches:
        engine.module(batch.to("cuda", torch.bfloat16)).float().mean().backward()
        engine.step()
        engine.offload_states(include=(StateKind.HP_PARAMS, StateKind.OPTIM), non_blocking=True)
        publish(engine.export_master())
        generate(engine.module)
        engine.reload_states(non_blocking=True)
