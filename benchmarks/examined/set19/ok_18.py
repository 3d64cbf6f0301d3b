"""ONNX Runtime session behind torch tensors: the session owns its stream and run() is synchronous."""
import numpy as np
import onnxruntime as ort
import torch

_NP = {torch.float32: np.float32, torch.float16: np.float16, torch.int64: np.int64}


class OrtModule:
    def __init__(self, path, output_shapes, dtype=torch.float16, device_id=0):
        self.device = torch.device("cuda", device_id)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = ort.InferenceSession(
            path,
            options,
            providers=[("CUDAExecutionProvider", {"device_id": device_id, "do_copy_in_default_stream": True})],
        )
        self.binding = self.session.io_binding()
        self.dtype = dtype
        self.outputs = {
            name: torch.empty(shape, dtype=dtype, device=self.device) for name, shape in output_shapes.items()
        }

    def _bind(self, method, name, tensor):
        method(
            name=name,
            device_type="cuda",
            device_id=self.device.index,
            element_type=_NP[tensor.dtype],
            shape=tuple(tensor.shape),
            buffer_ptr=tensor.data_ptr(),
        )

    def __call__(self, **inputs):
        held = {k: v.to(self.device).contiguous() for k, v in inputs.items()}
        for name, tensor in held.items():
            self._bind(self.binding.bind_input, name, tensor)
        for name, tensor in self.outputs.items():
            self._bind(self.binding.bind_output, name, tensor)
        torch.cuda.current_stream(self.device).synchronize()
        self.session.run_with_iobinding(self.binding)
        self.binding.clear_binding_inputs()
        return {name: tensor.clone() for name, tensor in self.outputs.items()}


class EulerScheduler:
    def __init__(self, steps, device):
        self.sigmas = torch.linspace(14.6, 0.0, steps + 1, device=device)

    def scale(self, latents, i):
        return latents / (self.sigmas[i] ** 2 + 1).sqrt()

    def step(self, noise, i, latents):
        return latents + noise * (self.sigmas[i + 1] - self.sigmas[i])


class Pipeline:
    def __init__(self, unet_path, vae_path, batch=1, size=64):
        self.device = torch.device("cuda", 0)
        self.unet = OrtModule(unet_path, {"noise_pred": (2 * batch, 4, size, size)})
        self.vae = OrtModule(vae_path, {"sample": (batch, 3, 8 * size, 8 * size)})
        self.batch, self.size = batch, size
        self.stream = torch.cuda.Stream(self.device)

    @torch.inference_mode()
    def __call__(self, prompt_embeds, steps=25, guidance=7.5):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            scheduler = EulerScheduler(steps, self.device)
            latents = torch.randn(self.batch, 4, self.size, self.size, device=self.device) * scheduler.sigmas[0]
            for i in range(steps):
                x = scheduler.scale(torch.cat([latents, latents]), i).half()
                t = scheduler.sigmas[i].half().expand(x.shape[0])
                noise = self.unet(sample=x, timestep=t, encoder_hidden_states=prompt_embeds)["noise_pred"]
                uncond, cond = noise.float().chunk(2)
                latents = scheduler.step(uncond + guidance * (cond - uncond), i, latents)
            image = self.vae(latent_sample=(latents / 0.18215).half())["sample"]
            host = image.float().clamp(-1, 1).cpu()
        return ((host + 1) * 127.5).to(torch.uint8).numpy()
