"""Actor threads reading weights that a learner publishes."""
import threading

import torch
from torch import nn


class WeightBoard:
    def __init__(self, params):
        self.params = [p.detach().clone() for p in params]
        self.lock = threading.Lock()
        self.written = torch.cuda.current_stream().record_event()
        self.reads: list[torch.cuda.Event] = []

    def publish(self, params):
        stream = torch.cuda.current_stream()
        with self.lock:
            stream.wait_event(self.written)
            for ev in self.reads:
                stream.wait_event(ev)
            self.reads = []
            torch._foreach_copy_(self.params, params)
            self.written = stream.record_event()

    def pull(self, params):
        stream = torch.cuda.current_stream()
        with self.lock:
            stream.wait_event(self.written)
            torch._foreach_copy_(params, self.params)
            self.reads.append(stream.record_event())


class Actor(threading.Thread):
    def __init__(self, board: WeightBoard, steps: int):
        super().__init__()
        self.board, self.steps = board, steps
        self.returns = []

    @torch.no_grad()
    def run(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            policy = nn.Linear(64, 4, device="cuda")
            state = torch.zeros(8, 64, device="cuda")
            for _ in range(self.steps):
                self.board.pull([p.data for p in policy.parameters()])
                action = policy(state).argmax(-1)
                state = (state + action.unsqueeze(1).float() * 0.01).tanh()
            self.returns.append(state.sum().item())


def main():
    learner = nn.Linear(64, 4).cuda()
    opt = torch.optim.SGD(learner.parameters(), lr=0.1)
    board = WeightBoard(learner.parameters())
    actors = [Actor(board, 50) for _ in range(3)]
    for a in actors:
        a.start()
    for _ in range(30):
        learner(torch.randn(32, 64, device="cuda")).square().mean().backward()
        opt.step()
        opt.zero_grad()
        board.publish([p.detach() for p in learner.parameters()])
    for a in actors:
        a.join()
    print([a.returns for a in actors])


if __name__ == "__main__":
    main()
