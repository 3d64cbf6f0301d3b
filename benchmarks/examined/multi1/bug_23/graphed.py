import torch


class GraphedModule:
    def __init__(self, module, example, warmup=3):
        self.stream = torch.cuda.Stream()
        self.static_in = example.clone()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(self.stream):
            for _ in range(warmup):
                module(self.static_in)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=self.stream):
            self.static_out = module(self.static_in)

    def launch(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.graph.replay()

    def join(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.static_out

    @property
    def idle(self):
        return self.stream.query()
