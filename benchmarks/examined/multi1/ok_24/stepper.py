import torch


class SplitStepper:
    def __init__(self, field):
        self.cur = field.clone()
        self.nxt = field.clone()
        self._edge_lane = torch.cuda.Stream(device=field.device)
        self.steps = 0

    def interior(self, u, out):
        raise NotImplementedError

    def edges(self, u, out):
        raise NotImplementedError

    def after(self, out):
        pass

    def advance(self, n=1):
        main = torch.cuda.current_stream(self.cur.device)
        for _ in range(n):
            self._edge_lane.wait_stream(main)
            with torch.cuda.stream(self._edge_lane):
                self.edges(self.cur, self.nxt)
            self.interior(self.cur, self.nxt)
            main.wait_stream(self._edge_lane)
            self.after(self.nxt)
            self.cur, self.nxt = self.nxt, self.cur
            self.steps += 1
        return self.cur
