"""Filesystem weight broadcast that snapshots the policy and writes it from a background thread."""
import threading
from pathlib import Path

import torch
from safetensors.torch import save_file


def gather_weights_on_master(model, non_blocking):
    state = {}
    for name, param in model.named_parameters():
        cpu = torch.empty(param.shape, dtype=torch.bfloat16, pin_memory=True)
        cpu.copy_(param.detach().to(torch.bfloat16), non_blocking=non_blocking)
        state[name] = cpu
    return state


def split_fused_qkv(state, num_heads, num_kv_heads, head_dim):
    out = {}
    for name, tensor in state.items():
        if name.endswith("qkv_proj.weight"):
            q, k, v = tensor.split(
                [num_heads * head_dim, num_kv_heads * head_dim, num_kv_heads * head_dim], dim=0
            )
            prefix = name.removesuffix("qkv_proj.weight")
            out[prefix + "q_proj.weight"] = q.clone()
            out[prefix + "k_proj.weight"] = k.clone()
            out[prefix + "v_proj.weight"] = v.clone()
        elif name.endswith("experts.w13"):
            gate, up = tensor.chunk(2, dim=1)
            prefix = name.removesuffix("w13")
            for e in range(tensor.shape[0]):
                out[f"{prefix}{e}.gate_proj.weight"] = gate[e].contiguous().clone()
                out[f"{prefix}{e}.up_proj.weight"] = up[e].contiguous().clone()
        else:
            out[name] = tensor
    return out


class AsyncFileSystemWeightBroadcast:
    def __init__(self, output_dir, model_config, is_master):
        self.output_dir = Path(output_dir)
        self.config = model_config
        self.is_master = is_master
        self._thread = None

    def _write(self, step, state, cuda_event):
        cuda_event.synchronize()
        step_dir = self.output_dir / f"step_{step}"
        step_dir.mkdir(parents=True, exist_ok=True)
        save_file(state, str(step_dir / "model.safetensors"))
        (step_dir / "STABLE").touch()

    def wait(self):
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def broadcast_weights(self, model, step):
        self.wait()
        state = gather_weights_on_master(model, non_blocking=True)
        if not self.is_master:
            torch.cuda.current_stream().synchronize()
            return
        cuda_event = torch.cuda.Event()
        cuda_event.record()
        cfg = self.config
        hf_state = split_fused_qkv(
            state, cfg["num_heads"], cfg["num_kv_heads"], cfg["head_dim"]
        )
        self._thread = threading.Thread(
            target=self._write, args=(step, hf_state, cuda_event), name=f"broadcast-{step}"
        )
        self._thread.start()


def rl_loop(model, optimizer, rollouts, broadcast):
    for step, batch in enumerate(rollouts):
        loss = model(batch.cuda()).mean()
        loss.backward()
        broadcast.wait()
        optimizer.step()
        optimizer.zero_grad()
        broadcast.broadcast_weights(model, step)
    broadcast.wait()
