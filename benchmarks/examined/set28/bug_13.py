from concurrent.futures import ThreadPoolExecutor

import requests
import torch
from torch import nn
from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator
from vllm.distributed.utils import StatelessProcessGroup


class VLLMClient:
    """Talks to an external vLLM server and sends it updated weights."""

    def __init__(self, base_url, group_host, group_port, world_size, device):
        self.base_url = base_url
        self.rank = world_size - 1
        self.device = device
        group = StatelessProcessGroup.create(host=group_host, port=group_port, rank=self.rank, world_size=world_size)
        self.pynccl_comm = PyNcclCommunicator(group, device=device)
        self.session = requests.Session()

    def update_named_param(self, name, weight):
        self.session.post(
            f"{self.base_url}/update_named_param",
            json={"name": name, "dtype": str(weight.dtype), "shape": tuple(weight.shape)},
            timeout=300,
        ).raise_for_status()
        self.pynccl_comm.broadcast(weight, src=self.rank, stream=torch.cuda.current_stream())
        self.pynccl_comm.group.barrier()

    def reset_prefix_cache(self):
        self.session.post(f"{self.base_url}/reset_prefix_cache", timeout=60).raise_for_status()


class MegatronBridge:
    """Turns fused Megatron parameters into the names and layouts of the Hugging Face model."""

    def __init__(self, model, num_heads, num_groups, head_dim):
        self.model = model
        self.per_group = num_heads // num_groups
        self.num_groups, self.head_dim = num_groups, head_dim

    def export_weights(self):
        for name, p in self.model.named_parameters():
            w = p.detach()
            if name.endswith("linear_qkv.weight"):
                w = w.view(self.num_groups, self.per_group + 2, self.head_dim, -1)
                q, k, v = w.split([self.per_group, 1, 1], dim=1)
                for part, t in (("q_proj", q), ("k_proj", k), ("v_proj", v)):
                    yield name.replace("linear_qkv", part), t.reshape(-1, w.shape[-1]).to(torch.bfloat16)
            elif name.endswith("linear_fc1.weight"):
                gate, up = w.chunk(2, dim=0)
                yield name.replace("linear_fc1", "gate_proj"), gate.to(torch.bfloat16, copy=True)
                yield name.replace("linear_fc1", "up_proj"), up.to(torch.bfloat16, copy=True)
            else:
                yield name, w.to(torch.bfloat16, copy=True)


class GRPOTrainer:
    def __init__(self, model: nn.Module, bridge, client):
        self.model, self.bridge, self.client = model, bridge, client
        self.export_stream = torch.cuda.Stream()
        self.pool = ThreadPoolExecutor(max_workers=1)

    def move_weights_to_vllm(self):
        self.export_stream.wait_stream(torch.cuda.current_stream())
        futures = []
        with torch.cuda.stream(self.export_stream):
            for name, weight in self.bridge.export_weights():
                futures.append(self.pool.submit(self.client.update_named_param, name, weight))
        for f in futures:
            f.result()
        self.client.reset_prefix_cache()

    def train(self, optimizer, rollouts, steps):
        for _ in range(steps):
            loss = self.model(rollouts.next_batch()).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.synchronize()
            self.move_weights_to_vllm()
