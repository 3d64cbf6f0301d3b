import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    """Keeps large saved activations in pinned host memory between forward and backward."""

    def __init__(self, min_offload_size: int = 1024, max_fwd_stash_size: int = 5):
        self.min_tensor_size_bytes = min_offload_size
        self.max_fwd_stash_size = max_fwd_stash_size
        self.tracker = {}
        self.fwd_stash = {}
        self.tensor_id = 0
        self.s0 = torch.cuda.current_stream()
        self.s1 = torch.cuda.Stream()

        def get_tensor_id() -> int:
            self.tensor_id += 1
            return self.tensor_id

        def pack_tensor(activation: torch.Tensor) -> int:
            tensor_id = get_tensor_id()
            num_bytes = activation.element_size() * activation.nelement()
            if not activation.is_cuda or num_bytes < self.min_tensor_size_bytes:
                self.tracker[tensor_id] = (activation, False)
                return tensor_id

            for stashed_id in list(self.fwd_stash):
                if len(self.fwd_stash) < self.max_fwd_stash_size:
                    break
                self.s0.wait_event(self.fwd_stash[stashed_id][1])
                del self.fwd_stash[stashed_id]

            self.s1.wait_stream(self.s0)
            with torch.cuda.stream(self.s1):
                cpu_tensor = torch.empty_like(activation, device="cpu", pin_memory=True)
                cpu_tensor.copy_(activation, non_blocking=True)
            self.fwd_stash[tensor_id] = (activation, self.s1.record_event())
            self.tracker[tensor_id] = (cpu_tensor, True)
            return tensor_id

        def unpack_tensor(tensor_id: int) -> torch.Tensor:
            maybe_gpu_tensor, modified = self.tracker.pop(tensor_id)
            if not modified:
                return maybe_gpu_tensor
            if tensor_id in self.fwd_stash:
                activation, event = self.fwd_stash.pop(tensor_id)
                self.s0.wait_event(event)
                return activation
            with torch.cuda.stream(self.s1):
                gpu_tensor = maybe_gpu_tensor.to("cuda", non_blocking=True)
            self.s0.wait_stream(self.s1)
            gpu_tensor.record_stream(self.s0)
            return gpu_tensor

        super().__init__(pack_tensor, unpack_tensor)


class SFTTrainer:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer):
        self.model = model
        self.optimizer = optimizer
        self.compute_stream = torch.cuda.Stream()
        self.maybe_activation_offload_context = OffloadActivations()

    def training_step(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        caller_stream = torch.cuda.current_stream()
        self.compute_stream.wait_stream(caller_stream)
        with torch.cuda.stream(self.compute_stream):
            with self.maybe_activation_offload_context:
                logits = self.model(input_ids)
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            result = loss.detach()
        caller_stream.wait_stream(self.compute_stream)
        result.record_stream(caller_stream)
        return result
