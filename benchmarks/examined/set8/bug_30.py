import torch


class StreamDenoiser:
    """One-step denoising loop replayed from a CUDA graph."""

    def __init__(self, unet, vae, width, height, batch, dtype=torch.float16, device="cuda"):
        self.unet = unet
        self.vae = vae
        self.device = torch.device(device)
        self.dtype = dtype
        self.latent_shape = (batch, 4, height // 8, width // 8)
        self.latents = torch.zeros(self.latent_shape, dtype=dtype, device=self.device)
        self.noise = torch.randn(self.latent_shape, dtype=dtype, device=self.device)
        self.prompt_embeds = None
        self.sub_timesteps = None
        self.alpha_prod_t_sqrt = None
        self.beta_prod_t_sqrt = None
        self._graph = None
        self._graph_out = None
        self._captured_signature = None

    def prepare_embeds(self, embeds):
        embeds = embeds.to(self.device, self.dtype)
        self.prompt_embeds = embeds.expand(self.latent_shape[0], -1, -1).contiguous()

    def prepare_scheduler(self, timesteps, alphas, betas):
        self.sub_timesteps = torch.tensor(timesteps, dtype=torch.long, device=self.device)
        self.alpha_prod_t_sqrt = torch.tensor(alphas, dtype=self.dtype, device=self.device).view(-1, 1, 1, 1)
        self.beta_prod_t_sqrt = torch.tensor(betas, dtype=self.dtype, device=self.device).view(-1, 1, 1, 1)

    def _denoise(self):
        x_t = self.alpha_prod_t_sqrt * self.latents + self.beta_prod_t_sqrt * self.noise
        eps = self.unet(x_t, self.sub_timesteps, self.prompt_embeds)
        x0 = (x_t - self.beta_prod_t_sqrt * eps) / self.alpha_prod_t_sqrt
        return self.vae.decode(x0)

    def capture_signature(self):
        return (self.latent_shape, self.dtype)

    def _capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self._denoise()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._graph_out = self._denoise()
        self._captured_signature = self.capture_signature()

    @torch.inference_mode()
    def __call__(self, latents):
        self.latents.copy_(latents)
        if self._graph is None or self._captured_signature != self.capture_signature():
            self._capture()
        self._graph.replay()
        return self._graph_out.clone()
