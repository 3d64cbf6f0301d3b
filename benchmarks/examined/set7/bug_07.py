import contextlib
import logging
from typing import List, Optional

import torch

NUM_STREAMS = 2
STREAMS = {}
stream_counters = {}


def current_stream(device):
    if device is None or device.type != "cuda":
        return None
    return torch.cuda.current_stream(device)


def get_offload_stream(device) -> Optional[torch.cuda.Stream]:
    if device.type != "cuda" or NUM_STREAMS <= 0:
        return None
    counter = stream_counters.get(device, 0)
    if device not in STREAMS:
        STREAMS[device] = [torch.cuda.Stream(device=device, priority=0) for _ in range(NUM_STREAMS)]
        logging.info("Using async weight offloading with %d streams", NUM_STREAMS)
    s = STREAMS[device][counter]
    s.wait_stream(current_stream(device))
    stream_counters[device] = (counter + 1) % len(STREAMS[device])
    return s


def sync_stream(device, stream) -> None:
    if stream is None or current_stream(device) is None:
        return
    current_stream(device).wait_stream(stream)


def cast_to(weight, dtype=None, device=None, non_blocking=False, stream=None):
    if device is None or weight.device == device:
        return weight if dtype is None else weight.to(dtype=dtype)
    wf_context = torch.cuda.stream(stream) if stream is not None else contextlib.nullcontext()
    with wf_context:
        r = torch.empty_like(weight, dtype=dtype or weight.dtype, device=device)
        r.copy_(weight, non_blocking=non_blocking)
    return r


def cast_bias_weight(s, input, dtype=None, bias_dtype=None):
    device = input.device
    dtype = dtype or input.dtype
    bias_dtype = bias_dtype or dtype

    offload_stream = None
    if s.weight.device != device:
        offload_stream = get_offload_stream(device)

    weight = cast_to(s.weight, None, device, non_blocking=True, stream=offload_stream)
    bias = None
    if s.bias is not None:
        bias = cast_to(s.bias, bias_dtype, device, non_blocking=True, stream=offload_stream)

    weight = weight.to(dtype=dtype)
    for f in s.weight_function:
        weight = f(weight)

    sync_stream(device, offload_stream)
    return weight, bias, offload_stream


def uncast_bias_weight(s, weight, bias, offload_stream):
    if offload_stream is None:
        return
    offload_stream.wait_stream(current_stream(weight.device))


class CastWeightBiasOp:
    comfy_cast_weights = False
    weight_function: List = []


class Linear(torch.nn.Linear, CastWeightBiasOp):
    def reset_parameters(self):
        return None

    def forward_comfy_cast_weights(self, input):
        weight, bias, offload_stream = cast_bias_weight(self, input)
        x = torch.nn.functional.linear(input, weight, bias)
        uncast_bias_weight(self, weight, bias, offload_stream)
        return x

    def forward(self, *args, **kwargs):
        if self.comfy_cast_weights or len(self.weight_function) > 0:
            return self.forward_comfy_cast_weights(*args, **kwargs)
        return super().forward(*args, **kwargs)


def lowvram_load(model: torch.nn.Module) -> None:
    for m in model.modules():
        if isinstance(m, Linear):
            m.comfy_cast_weights = True
            m.weight.data = m.weight.data.to(torch.float8_e4m3fn).pin_memory()
            if m.bias is not None:
                m.bias.data = m.bias.data.pin_memory()
