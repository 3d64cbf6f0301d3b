import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint.staging import DefaultStager
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import fully_shard


class AppState(Stateful):
    def __init__(self, model, optimizer=None):
        self.model = model
        self.optimizer = optimizer

    def state_dict(self):
        model_state_dict, optimizer_state_dict = get_state_dict(self.model, self.optimizer)
        return {"model": model_state_dict, "optim": optimizer_state_dict}

    def load_state_dict(self, state_dict):
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state_dict["model"],
            optim_state_dict=state_dict["optim"],
        )


@dataclass
class CheckpointConfig:
    folder: str
    interval: int = 50


class AsyncCheckpointManager:
    def __init__(self, config: CheckpointConfig, app_state: AppState):
        self.config = config
        self.states = {"app": app_state}
        self.stager = DefaultStager()
        self._pending = None

    def maybe_save(self, step: int) -> None:
        if step % self.config.interval:
            return
        self.maybe_wait_for_upload()
        path = os.path.join(self.config.folder, f"step-{step}")
        self._pending = dcp.async_save(
            self.states, checkpoint_id=path, async_stager=self.stager
        )

    def maybe_wait_for_upload(self) -> None:
        if self._pending is not None:
            self._pending.upload_completion.result()
            self._pending = None

    def close(self) -> None:
        self.maybe_wait_for_upload()
        self.stager.close()


def train(rank: int, dataloader, config: CheckpointConfig, lr: float = 3e-4):
    torch.cuda.set_device(rank)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    checkpointer = AsyncCheckpointManager(config, AppState(model, optimizer))

    for step, (x, y) in enumerate(dataloader, start=1):
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        checkpointer.maybe_save(step)
    checkpointer.close()
    dist.barrier()
