import threading

import torch


class GraphedHalf:
    def __init__(self, net, shape):
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.net = net
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self.stream), torch.no_grad():
            self.inp = torch.zeros(shape, device="cuda")
            self.net(self.inp)
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.out = self.net(self.inp)
        torch.cuda.synchronize()

    def run(self, x):
        self.inp.copy_(x)
        self.graph.replay()
        return self.out.clone()


class Player(threading.Thread):
    def __init__(self, half, board, index, barrier, rounds):
        super().__init__()
        self.half, self.board, self.index = half, board, index
        self.barrier, self.rounds = barrier, rounds
        self.score = None

    def _meet(self):
        self.half.stream.synchronize()
        self.barrier.wait()

    @torch.no_grad()
    def run(self):
        stream = self.half.stream
        with torch.cuda.stream(stream):
            state = torch.full_like(self.half.inp, float(self.index))
            for _ in range(self.rounds):
                self.board[self.index] = self.half.run(state)
                self._meet()
                other = self.board[1 - self.index]
                state = 0.5 * state + 0.5 * other
                del other
                self._meet()
            self.score = state.mean().item()


def main(rounds=50, shape=(64, 256)):
    halves = [GraphedHalf(torch.nn.Linear(256, 256).cuda(), shape) for _ in range(2)]
    board, barrier = [None, None], threading.Barrier(2)
    players = [Player(h, board, i, barrier, rounds) for i, h in enumerate(halves)]
    for p in players:
        p.start()
    for p in players:
        p.join()
    return [p.score for p in players]


if __name__ == "__main__":
    print(main())
