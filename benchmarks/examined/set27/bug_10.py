import torch
import torch.distributed as dist
import torch.nn.functional as F


class All2AllBuffer:
    """Registered send and receive space of one communication."""

    def __init__(self, rows, width, group):
        self.group = group
        self.send = torch.empty(rows, width, dtype=torch.bfloat16, device="cuda")
        self.recv = torch.empty_like(self.send)

    def pre_all2all_memcpy(self, x, index):
        torch.index_select(x, 0, index, out=self.send)

    def all2all(self):
        dist.all_to_all_single(self.recv, self.send, group=self.group)

    def post_all2all_memcpy(self, index):
        return torch.index_select(self.recv, 0, index)


class AttentionServer:
    """Core attention for the sequence shards that other ranks send here."""

    def __init__(self, hidden, heads):
        self.hidden = hidden
        self.heads = heads

    def _split(self, qkv):
        return qkv.view(1, -1, 3, self.heads, self.hidden // self.heads).permute(2, 0, 3, 1, 4)

    def forward(self, qkv):
        q, k, v = self._split(qkv)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).reshape(-1, self.hidden)

    def backward(self, qkv, grad_out):
        qkv = qkv.detach().requires_grad_()
        with torch.enable_grad():
            self.forward(qkv).backward(grad_out)
        return qkv.grad


class DisaggregatedAttention:
    def __init__(self, rows, hidden, heads, group):
        self.server = AttentionServer(hidden, heads)
        self.qkv = All2AllBuffer(rows, 3 * hidden, group)
        self.out = All2AllBuffer(rows, hidden, group)
        self.comm_stream = torch.cuda.Stream(priority=-1)
        self.compute_done = torch.cuda.Event()
        self.comm_done = torch.cuda.Event()
        self.saved_qkv = None

    def _communicate(self, buffer):
        with torch.cuda.stream(self.comm_stream):
            buffer.all2all()
            self.comm_done.record(self.comm_stream)

    def _exchange(self, buffer, x, plan):
        compute = torch.cuda.current_stream()
        buffer.pre_all2all_memcpy(x, plan["send"])
        self.compute_done.record(compute)
        self.comm_stream.wait_event(self.compute_done)
        self._communicate(buffer)
        compute.wait_event(self.comm_done)
        return buffer.post_all2all_memcpy(plan["recv"])

    def forward(self, qkv, plan):
        self.saved_qkv = self._exchange(self.qkv, qkv, plan["scatter"])
        out = self.server.forward(self.saved_qkv)
        return self._exchange(self.out, out, plan["gather"])

    def backward(self, grad_out, plan):
        grad = self._exchange(self.out, grad_out, plan["scatter"])
        grad_qkv = self.server.backward(self.saved_qkv, grad)
        return self._exchange(self.qkv, grad_qkv, plan["gather"])

    def dummy_backward(self, zeros, plan):
        """Backward of a pipeline bubble: this rank only serves the shards of others."""
        compute = torch.cuda.current_stream()
        grad = self._exchange(self.out, zeros, plan["scatter"])
        grad_qkv = self.server.backward(self.saved_qkv, grad)
        self.qkv.pre_all2all_memcpy(grad_qkv, plan["gather"]["send"])
        self._communicate(self.qkv)
        compute.wait_event(self.comm_done)


@torch.no_grad()
def run_schedule(attention, actions, plan, hidden):
    for kind, payload in actions:
        if kind == "forward":
            yield attention.forward(payload, plan)
        elif kind == "backward":
            yield attention.backward(payload, plan)
        else:
            zeros = torch.zeros(payload, hidden, dtype=torch.bfloat16, device="cuda")
            attention.dummy_backward(zeros, plan)
