from typing import Dict

import tensorrt as trt
import torch

DTYPES = {trt.float32: torch.float32, trt.float16: torch.float16, trt.int32: torch.int32, trt.int64: torch.int64}


class TrtModule:
    """Runs an engine on a private stream with persistent I/O tensors."""

    def __init__(self, plan: bytes, device: str = "cuda"):
        self.logger = trt.Logger(trt.Logger.WARNING)
        self.runtime = trt.Runtime(self.logger)
        self.engine = self.runtime.deserialize_cuda_engine(plan)
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream(device)
        self.inputs: Dict[str, torch.Tensor] = {}
        self.outputs: Dict[str, torch.Tensor] = {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            t = torch.empty(tuple(self.engine.get_tensor_shape(name)),
                            dtype=DTYPES[self.engine.get_tensor_dtype(name)], device=device)
            table = self.inputs if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT else self.outputs
            table[name] = t
            self.context.set_tensor_address(name, t.data_ptr())

    def __call__(self, **feeds: torch.Tensor) -> Dict[str, torch.Tensor]:
        caller = torch.cuda.current_stream()
        for name, value in feeds.items():
            self.inputs[name].copy_(value)
        self.stream.wait_stream(caller)
        if not self.context.execute_async_v3(self.stream.cuda_stream):
            raise RuntimeError("TensorRT execution failed")
        caller.wait_stream(self.stream)
        return {name: t.clone() for name, t in self.outputs.items()}


def denoise(unet: TrtModule, latents: torch.Tensor, text: torch.Tensor, sigmas: torch.Tensor) -> torch.Tensor:
    for i in range(len(sigmas) - 1):
        eps = unet(sample=latents, timestep=sigmas[i:i + 1], encoder_hidden_states=text)["noise"]
        latents = latents + (sigmas[i + 1] - sigmas[i]) * eps
    return latents


@torch.inference_mode()
def main():
    with open("unet.plan", "rb") as f:
        unet = TrtModule(f.read())
    sigmas = torch.linspace(14.6, 0.0, 31, device="cuda")
    text = torch.randn(1, 77, 768, device="cuda")
    for seed in range(4):
        gen = torch.Generator("cuda").manual_seed(seed)
        x = torch.randn(1, 4, 64, 64, device="cuda", generator=gen) * sigmas[0]
        print(seed, denoise(unet, x, text, sigmas).std().item())


if __name__ == "__main__":
    main()
