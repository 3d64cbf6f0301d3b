"""1F1B warm-up with point-to-point sends on dedicated NCCL communicators."""
import torch
from cupy.cuda import nccl

_DTYPES = {
    torch.float32: nccl.NCCL_FLOAT32,
    torch.float16: nccl.NCCL_FLOAT16,
    torch.bfloat16: nccl.NCCL_BFLOAT16,
}


def deallocate_output_tensor(out, enabled):
    """Keep the autograd node of a stage output, drop its data."""
    if out is None or not enabled:
        return
    assert out._base is None, "counter-productive to free a view of another tensor."
    out.data = torch.empty((1,), device=out.device, dtype=out.dtype)


class P2PCommunicator:
    def __init__(self, unique_ids, world_size, rank):
        self.send_comm = nccl.NcclCommunicator(world_size, unique_ids[0], rank)
        self.recv_comm = nccl.NcclCommunicator(world_size, unique_ids[1], rank)
        self.rank = rank
        self.send_stream = torch.cuda.Stream()
        self.recv_stream = torch.cuda.Stream()

    def isend_next(self, tensor):
        self.send_stream.wait_stream(torch.cuda.current_stream())
        self.send_comm.send(
            tensor.data_ptr(), tensor.numel(), _DTYPES[tensor.dtype], self.rank + 1, self.send_stream.cuda_stream
        )
        return self.send_stream.record_event()

    def recv_prev(self, shape, dtype):
        buf = torch.empty(shape, dtype=dtype, device="cuda")
        self.recv_stream.wait_stream(torch.cuda.current_stream())
        self.recv_comm.recv(
            buf.data_ptr(), buf.numel(), _DTYPES[dtype], self.rank - 1, self.recv_stream.cuda_stream
        )
        torch.cuda.current_stream().wait_stream(self.recv_stream)
        return buf.requires_grad_()


class WarmupSchedule:
    def __init__(self, stage, p2p, config):
        self.stage = stage
        self.p2p = p2p
        self.shape = (config["seq_length"], config["micro_batch_size"], config["hidden_size"])
        self.deallocate_pipeline_outputs = config["deallocate_pipeline_outputs"]
        self.send_next_wait_handle = None
        self.input_tensors = []
        self.output_tensors = []

    def forward_step(self):
        inp = self.p2p.recv_prev(self.shape, torch.bfloat16)
        out = self.stage(inp)
        self.input_tensors.append(inp)
        self.output_tensors.append(out)
        return out

    def pp_post_forward(self, out):
        if self.send_next_wait_handle is not None:
            torch.cuda.current_stream().wait_event(self.send_next_wait_handle)
        self.send_next_wait_handle = self.p2p.isend_next(out)
        deallocate_output_tensor(out, self.deallocate_pipeline_outputs)

    def run(self, num_warmup_microbatches):
        for _ in range(num_warmup_microbatches):
            out = self.forward_step()
            self.pp_post_forward(out)
        if self.send_next_wait_handle is not None:
            torch.cuda.current_stream().wait_event(self.send_next_wait_handle)
            self.send_next_wait_handle = None
        return self.input_tensors, self.output_tensors


def main(unique_ids, world_size, rank, stage):
    p2p = P2PCommunicator(unique_ids, world_size, rank)
    schedule = WarmupSchedule(
        stage.cuda().to(torch.bfloat16),
        p2p,
        {
            "seq_length": 8192,
            "micro_batch_size": 1,
            "hidden_size": 16384,
            "deallocate_pipeline_outputs": True,
        },
    )
    return schedule.run(world_size - rank - 1)
