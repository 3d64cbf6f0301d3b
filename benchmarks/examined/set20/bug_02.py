"""Structured output: apply a packed grammar bitmask to logits."""
import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def _apply_grammar_bitmask_kernel(
    logits_ptr, logits_stride, logits_indices_ptr, bitmask_ptr, bitmask_stride,
    vocab_size, BLOCK_SIZE: tl.constexpr,
):
    bitmask_idx = tl.program_id(0)
    logits_idx = tl.load(logits_indices_ptr + bitmask_idx)
    block_id = tl.program_id(1)
    bit_offset = (block_id * BLOCK_SIZE) // 32 + tl.arange(0, BLOCK_SIZE // 32)
    packed = tl.load(
        bitmask_ptr + bitmask_idx * bitmask_stride + bit_offset,
        mask=bit_offset < bitmask_stride,
    )
    bits = ((packed[:, None] >> (tl.arange(0, 32)[None, :])) & 1) == 0
    bits = bits.reshape(BLOCK_SIZE)
    offs = block_id * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(
        logits_ptr + logits_idx * logits_stride + offs,
        -float("inf"),
        mask=bits & (offs < vocab_size),
    )


class StructuredOutputsWorker:
    def __init__(self, vocab_size, device):
        self.vocab_size = vocab_size
        self.device = device
        self.copy_stream = torch.cuda.Stream(device=device)

    def _to_gpu(self, arr):
        return torch.from_numpy(arr).pin_memory().to(self.device, non_blocking=True)

    def apply_grammar_bitmask(self, logits, req_ids, grammar_req_ids, grammar_bitmask):
        mapping = np.array(
            [req_ids.index(r) for r in grammar_req_ids], dtype=np.int32
        )
        with torch.cuda.stream(self.copy_stream):
            bitmask = self._to_gpu(grammar_bitmask)
            logits_indices = self._to_gpu(mapping)

        current_stream = torch.cuda.current_stream(self.device)
        current_stream.wait_stream(self.copy_stream)

        num_masks = bitmask.shape[0]
        block = 8192
        grid = (num_masks, triton.cdiv(self.vocab_size, block))
        _apply_grammar_bitmask_kernel[grid](
            logits, logits.stride(0), logits_indices, bitmask, bitmask.stride(0),
            self.vocab_size, BLOCK_SIZE=block,
        )


class AsyncOutput:
    def __init__(self, next_ids):
        self.next_ids = next_ids
        self.ids_cpu = torch.empty(next_ids.shape, dtype=next_ids.dtype, pin_memory=True)
        self.ids_cpu.copy_(next_ids, non_blocking=True)
        self.event = torch.cuda.Event()
        self.event.record()

    def get(self):
        self.event.synchronize()
        return self.ids_cpu.tolist()


class ModelRunner:
    def __init__(self, model, vocab_size, device):
        self.model = model
        self.device = device
        self.structured_outputs = StructuredOutputsWorker(vocab_size, device)

    @torch.inference_mode()
    def step(self, input_ids, req_ids, grammar):
        logits = self.model(input_ids)
        if grammar is not None:
            grammar_req_ids, bitmask = grammar
            self.structured_outputs.apply_grammar_bitmask(
                logits, req_ids, grammar_req_ids, bitmask
            )
        return AsyncOutput(logits.argmax(dim=-1))


def run_engine(model, scheduler, vocab_size=128256):
    device = torch.device("cuda", 0)
    runner = ModelRunner(model, vocab_size, device)
    pending = []
    while scheduler.has_work():
        batch = scheduler.schedule()
        pending.append(runner.step(batch.input_ids, batch.req_ids, batch.grammar))
        if len(pending) > 1:
            scheduler.update(pending.pop(0).get())
    for output in pending:
        scheduler.update(output.get())
