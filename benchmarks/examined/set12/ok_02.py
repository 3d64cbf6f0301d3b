import os

import tensorrt as trt
import torch

_LOGGER = trt.Logger(trt.Logger.WARNING)

_DTYPES = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT64: torch.int64,
}


class TRTRunner:
    def __init__(self, plan_dir, name, device="cuda"):
        with open(os.path.join(plan_dir, f"{name}.plan"), "rb") as f:
            self.engine = trt.Runtime(_LOGGER).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def dtype_of(self, tensor_name):
        return _DTYPES[self.engine.get_tensor_dtype(tensor_name)]


def _run_engine(runner, inputs, output_name):
    ctx = runner.context
    bound = []
    for name, value in inputs.items():
        value = value.to(runner.dtype_of(name)).contiguous()
        ctx.set_input_shape(name, tuple(value.shape))
        ctx.set_tensor_address(name, value.data_ptr())
        bound.append(value)
    out = torch.empty(
        tuple(ctx.get_tensor_shape(output_name)),
        dtype=runner.dtype_of(output_name),
        device=runner.device,
    )
    ctx.set_tensor_address(output_name, out.data_ptr())
    runner.stream.wait_stream(torch.cuda.current_stream(runner.device))
    if not ctx.execute_async_v3(runner.stream.cuda_stream):
        raise RuntimeError(f"TensorRT enqueue failed for {output_name}")
    runner.stream.synchronize()
    return out


def t5gemma_encode(runner, token_ids, attention_mask):
    hidden = _run_engine(
        runner, {"input_ids": token_ids, "attention_mask": attention_mask}, "last_hidden_state"
    )
    return hidden * attention_mask.unsqueeze(-1).to(hidden.dtype)


def decoder_decode(runner, latents, scale=1.0):
    return _run_engine(runner, {"latents": latents / scale}, "audio").float()


@torch.inference_mode()
def generate(runners, sampler, token_ids, attention_mask, steps):
    cond = t5gemma_encode(runners["t5gemma"], token_ids, attention_mask)
    latents = sampler(cond, steps)
    audio = decoder_decode(runners["same_l"], latents, scale=0.18)
    return audio.clamp_(-1.0, 1.0).cpu()
