import tensorrt as trt
import torch

_TORCH_DTYPES = {
    trt.float32: torch.float32,
    trt.float16: torch.float16,
    trt.int32: torch.int32,
}


class Engine:
    def __init__(self, engine_path):
        self.engine_path = engine_path
        self.engine = None
        self.context = None
        self.tensors = {}
        self.graph = None
        self.stream = torch.cuda.Stream()

    def load(self):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(self.engine_path, "rb") as f, trt.Runtime(logger) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()

    def allocate_buffers(self, shape_dict, device="cuda"):
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            shape = tuple(shape_dict[name])
            dtype = _TORCH_DTYPES[self.engine.get_tensor_dtype(name)]
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.context.set_input_shape(name, shape)
            self.tensors[name] = torch.empty(shape, dtype=dtype, device=device)
            self.context.set_tensor_address(name, self.tensors[name].data_ptr())

    def _capture(self):
        self.context.execute_async_v3(self.stream.cuda_stream)
        self.stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
        self.graph = graph

    def infer(self, feed_dict, use_cuda_graph=False):
        current = torch.cuda.current_stream()
        for name, buf in feed_dict.items():
            self.tensors[name].copy_(buf)
        self.stream.wait_stream(current)
        if use_cuda_graph and self.graph is None:
            self._capture()
        if self.graph is not None:
            with torch.cuda.stream(self.stream):
                self.graph.replay()
        elif not self.context.execute_async_v3(self.stream.cuda_stream):
            raise ValueError("ERROR: inference failed.")
        return self.tensors


class UNetAndVAE:
    def __init__(self, unet, vae, scaling_factor=0.18215):
        self.unet, self.vae = unet, vae
        self.scaling_factor = scaling_factor

    @torch.inference_mode()
    def __call__(self, latent, timestep, prompt_embeds, alpha, sigma):
        feed = {"sample": latent, "timestep": timestep, "encoder_hidden_states": prompt_embeds}
        noise_pred = self.unet.infer(feed, use_cuda_graph=True)["latent"]
        denoised = (latent - sigma * noise_pred) / alpha
        image = self.vae.infer({"latent": denoised / self.scaling_factor})["images"]
        return ((image.float() + 1) * 127.5).clamp(0, 255).to(torch.uint8)
