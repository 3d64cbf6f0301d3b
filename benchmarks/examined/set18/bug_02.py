"""Send and receive dictionaries of tensors through one flat byte buffer."""
import pickle

import torch
import torch.distributed as dist


def comm_device():
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _flat_bytes(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def dict_to_tensor(state, device):
    """Pack tensors and their layout; returns (header bytes, flat uint8 buffer)."""
    layout, parts, offset = [], [], 0
    for name, tensor in state.items():
        raw = _flat_bytes(tensor.to(device))
        layout.append((name, tensor.dtype, tuple(tensor.shape), offset, raw.numel()))
        parts.append(raw)
        offset += raw.numel()
    return pickle.dumps(layout), torch.cat(parts)


def tensor_to_dict(header, buffer, target_device):
    """Rebuild the dictionary on target_device from the received bytes."""
    layout = pickle.loads(header)
    if buffer.device != target_device:
        buffer = buffer.to(target_device, non_blocking=True)
    state = {}
    for name, dtype, shape, offset, nbytes in layout:
        out = torch.empty(shape, dtype=dtype, device=target_device)
        out.reshape(-1).view(torch.uint8).copy_(buffer[offset : offset + nbytes])
        state[name] = out
    return state


def broadcast_dict(state, src, group, target_device):
    device = comm_device()
    rank = dist.get_rank(group)
    if rank == src:
        header, buffer = dict_to_tensor(state, device)
        meta = [header, buffer.numel()]
    else:
        meta, buffer = [None, None], None
    dist.broadcast_object_list(meta, src=src, group=group)
    if buffer is None:
        buffer = torch.empty(meta[1], dtype=torch.uint8, device=device)
    dist.broadcast(buffer, src=src, group=group)
    if rank == src:
        return state
    return tensor_to_dict(meta[0], buffer, target_device)


class ReferencePolicySync:
    """Keeps a host copy of the policy on every rank but the source."""

    def __init__(self, policy, src=0, group=None):
        self.policy = policy
        self.src = src
        self.group = group
        self.snapshots = []

    def publish(self, step):
        state = {k: v for k, v in self.policy.state_dict().items()}
        received = broadcast_dict(state, self.src, self.group, torch.device("cpu"))
        if dist.get_rank(self.group) != self.src:
            self.snapshots.append((step, received))
            torch.save(received, f"/tmp/ref_policy_{step}.pt")


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    policy = torch.nn.TransformerEncoderLayer(2048, 16, device=comm_device())
    sync = ReferencePolicySync(policy)
    for step in range(10):
        sync.publish(step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
