from dataclasses import dataclass

import torch


@dataclass
class SamplerOutput:
    sampled_token_ids: torch.Tensor
    logprobs: torch.Tensor


@dataclass
class ModelRunnerOutput:
    req_ids: list
    sampled_token_ids: list = None
    logprobs: list = None


class AsyncOutput:

    def __init__(self, model_runner_output, sampler_output, num_sampled_tokens,
                 copy_stream, copy_event):
        self.model_runner_output = model_runner_output
        self.sampler_output = sampler_output
        self.num_sampled_gpu = num_sampled_tokens
        self.copy_event = copy_event

        default_stream = torch.cuda.current_stream()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(default_stream)
            self.sampled_token_ids = sampler_output.sampled_token_ids.to(
                "cpu", non_blocking=True)
            self.logprobs = sampler_output.logprobs.to("cpu", non_blocking=True)
            self.num_sampled_tokens = num_sampled_tokens.to("cpu", non_blocking=True)
            self.copy_event.record(copy_stream)

    def get_output(self):
        self.copy_event.synchronize()
        counts = self.num_sampled_tokens.numpy()
        rows = self.sampled_token_ids.tolist()
        output = self.model_runner_output
        output.sampled_token_ids = [row[:n] for row, n in zip(rows, counts)]
        output.logprobs = self.logprobs.tolist()
        return output


class GPUModelRunner:

    def __init__(self, model, device, vocab_size):
        self.model = model
        self.device = device
        self.vocab_size = vocab_size
        self.output_copy_stream = torch.cuda.Stream(device)
        self.last_token_ids = None

    def _sample(self, logits):
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        token_ids = torch.argmax(logprobs, dim=-1, keepdim=True)
        top = logprobs.gather(1, token_ids)
        return SamplerOutput(token_ids, top)

    @torch.inference_mode()
    def execute_model(self, req_ids, input_ids, positions):
        hidden = self.model(input_ids, positions)
        return self.sample_tokens(req_ids, hidden)

    def sample_tokens(self, req_ids, logits):
        sampler_output = self._sample(logits)
        num_sampled = (sampler_output.sampled_token_ids >= 0).sum(dim=1)
        return AsyncOutput(
            model_runner_output=ModelRunnerOutput(req_ids=req_ids),
            sampler_output=sampler_output,
            num_sampled_tokens=num_sampled,
            copy_stream=self.output_copy_stream,
            copy_event=torch.cuda.Event(),
        )
