import torch


class KExpertsCPUBuffer:
    """Pinned buffers between the GPU and the CPU experts."""

    capture_bs = []
    capture_buffers = {}
    temp_bs = 0
    temp_buffer = ()
    buffer_depth = 2

    @classmethod
    def get_buffer(cls, hidden_states, num_experts_per_tok):
        batch_size, hidden_size = hidden_states.shape
        if batch_size in cls.capture_buffers:
            return cls.capture_buffers[batch_size]
        if batch_size == cls.temp_bs:
            return cls.temp_buffer

        def pinned(shape, dtype):
            return [torch.zeros(shape, dtype=dtype, pin_memory=True) for _ in range(cls.buffer_depth)]

        buffer = (
            pinned((batch_size, hidden_size), torch.bfloat16),
            pinned((batch_size, num_experts_per_tok), torch.long),
            pinned((batch_size, num_experts_per_tok), torch.float32),
            pinned((batch_size, hidden_size), torch.bfloat16),
        )
        if batch_size in cls.capture_bs:
            cls.capture_buffers[batch_size] = buffer
        cls.temp_bs = batch_size
        cls.temp_buffer = buffer
        return buffer


class KTMoEWrapper:
    def __init__(self, layer_idx, cpu_infer, moe, num_experts_per_tok):
        self.layer_idx = layer_idx
        self.cpu_infer = cpu_infer
        self.moe = moe
        self.num_experts_per_tok = num_experts_per_tok

    def forward(self, hidden_states, topk_ids, topk_weights):
        stream = torch.cuda.current_stream()
        buffers = KExpertsCPUBuffer.get_buffer(hidden_states, self.num_experts_per_tok)
        slot = self.layer_idx % KExpertsCPUBuffer.buffer_depth
        inp, ids, weights, out = (b[slot] for b in buffers)
        inp.copy_(hidden_states, non_blocking=True)
        ids.copy_(topk_ids, non_blocking=True)
        weights.copy_(topk_weights, non_blocking=True)
        task = self.moe.forward_task(
            inp.data_ptr(), ids.data_ptr(), weights.data_ptr(), out.data_ptr(), inp.shape[0]
        )
        self.cpu_infer.submit_with_cuda_stream(stream.cuda_stream, task)
        self.cpu_infer.sync_with_cuda_stream(stream.cuda_stream)
        return out.to(hidden_states.device, non_blocking=True)


class PrefillGraphRunner:
    def __init__(self, model, hidden_size, num_tokens=(256, 512, 1024), device="cuda"):
        self.model = model
        self.num_tokens = list(num_tokens)
        self.hidden = torch.zeros(max(num_tokens), hidden_size, dtype=torch.bfloat16, device=device)
        self.graphs, self.outputs = {}, {}

    def capture(self):
        for n in self.num_tokens:
            for _ in range(2):
                self.model(self.hidden[:n])
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.outputs[n] = self.model(self.hidden[:n])
            self.graphs[n] = graph

    def forward(self, hidden):
        n = hidden.shape[0]
        if n not in self.graphs:
            return self.model(hidden)
        self.hidden[:n].copy_(hidden)
        self.graphs[n].replay()
        return self.outputs[n].clone()
