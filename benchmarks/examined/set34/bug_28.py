"""Per-camera exposure optimisation on the host beside a GPU training loop."""
import numpy as np
import torch


class AdamVar:
    def __init__(self, shape, lr: float = 1e-3):
        self.value = np.zeros(shape, dtype=np.float32)
        self.m = np.zeros(shape, dtype=np.float32)
        self.v = np.zeros(shape, dtype=np.float32)
        self.lr = lr
        self.t = 0

    def step(self, grad: np.ndarray) -> None:
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * grad
        self.v = 0.99 * self.v + 0.01 * grad * grad
        mhat = self.m / (1.0 - 0.9**self.t)
        vhat = self.v / (1.0 - 0.99**self.t)
        self.value -= self.lr * mhat / (np.sqrt(vhat) + 1e-8)


class ExposureTrainer:
    def __init__(self, cameras: int, rays: int, device: str = "cuda:0"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.cameras = cameras
        self.adam = AdamVar((cameras, 3))
        self.grad_host = torch.empty(cameras, 3, pin_memory=True)
        with torch.cuda.stream(self.stream):
            self.exposure = torch.zeros(cameras, 3, device=self.device)
            self.grad = torch.zeros(cameras, 3, device=self.device)
            self.radiance = torch.rand(rays, 3, device=self.device)
            self.target = torch.rand(rays, 3, device=self.device)
            self.camera_of = torch.randint(0, cameras, (rays,), device=self.device)
        self.accumulated = 0

    @torch.no_grad()
    def train_step(self) -> None:
        with torch.cuda.stream(self.stream):
            gain = torch.exp2(self.exposure[self.camera_of])
            pred = self.radiance * gain
            diff = pred - self.target
            self.grad.index_add_(0, self.camera_of, diff * pred)
            self.radiance.sub_(diff * gain, alpha=1e-2)
        self.accumulated += 1

    @torch.no_grad()
    def optimize_exposure(self) -> None:
        with torch.cuda.stream(self.stream):
            self.grad_host.copy_(self.grad, non_blocking=True)
            self.grad.zero_()
        grad = self.grad_host.numpy() / max(self.accumulated, 1)
        grad -= grad.mean(axis=0, keepdims=True)
        self.adam.step(grad)
        with torch.cuda.stream(self.stream):
            self.exposure.copy_(torch.from_numpy(self.adam.value))
        self.accumulated = 0

    def loss(self) -> float:
        with torch.cuda.stream(self.stream):
            pred = self.radiance * torch.exp2(self.exposure[self.camera_of])
            value = (pred - self.target).square().mean()
            return value.item()


def main(iterations: int = 1000) -> None:
    trainer = ExposureTrainer(cameras=200, rays=1 << 20)
    for it in range(iterations):
        trainer.train_step()
        if it % 16 == 15:
            trainer.optimize_exposure()
        if it % 100 == 0:
            print(it, trainer.loss())


if __name__ == "__main__":
    main()
