import torch
import torch.distributed as dist


def p2p_communicate(send, recv, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    dst = dist.get_global_rank(group, (rank + 1) % size)
    src = dist.get_global_rank(group, (rank - 1) % size)
    return dist.batch_isend_irecv([
        dist.P2POp(dist.isend, send, dst, group),
        dist.P2POp(dist.irecv, recv, src, group),
    ])


def attention_with_lse(q, kv):
    k, v = kv[0], kv[1]
    scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    lse = torch.logsumexp(scores, dim=-1, keepdim=True)
    return torch.matmul(torch.exp(scores - lse), v), lse


class AttnWithCPAndKVP2P:
    """Ring attention that alternates between two streams."""

    def __init__(self, cp_group):
        self.group = cp_group
        self.cp_stream = torch.cuda.Stream()

    def forward(self, q, kv):
        cp_size = dist.get_world_size(self.group)
        main = torch.cuda.current_stream()
        streams = [main, self.cp_stream]
        self.cp_stream.wait_stream(main)
        p2p_comm_buffers = [None] * cp_size
        p2p_comm_buffers[0] = kv.contiguous()
        self.cp_stream.wait_stream(main)
        send_recv_reqs = [[], []]
        outs, lses = [], []
        for i in range(cp_size):
            with torch.cuda.stream(streams[i % 2]):
                for req in send_recv_reqs[(i + 1) % 2]:
                    req.wait()
                if i < cp_size - 1:
                    p2p_comm_buffers[i + 1] = torch.empty_like(p2p_comm_buffers[i])
                    send_recv_reqs[i % 2] = p2p_communicate(
                        p2p_comm_buffers[i], p2p_comm_buffers[i + 1], self.group)
                out, lse = attention_with_lse(q, p2p_comm_buffers[i])
                outs.append(out)
                lses.append(lse)
            if i > 0:
                p2p_comm_buffers[i] = None
        main.wait_stream(self.cp_stream)
        total = torch.logsumexp(torch.stack(lses), dim=0)
        result = torch.zeros_like(outs[0])
        for out, lse in zip(outs, lses):
            result += out * torch.exp(lse - total)
        torch.cuda.current_stream().synchronize()
        return result


@torch.no_grad()
def prefill(layers, hidden, heads=16, dim=128):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    attn = AttnWithCPAndKVP2P(dist.group.WORLD)
    x = hidden.cuda()
    for wq, wkv, wo in layers:
        n = x.shape[0]
        q = (x @ wq).view(n, heads, dim).transpose(0, 1)
        kv = (x @ wkv).view(n, 2, heads, dim).permute(1, 2, 0, 3)
        out = attn.forward(q, kv)
        x = x + out.transpose(0, 1).reshape(n, -1) @ wo
    return x
