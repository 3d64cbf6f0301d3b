import torch


class Lot:
    """Page-locked places for the recurrent states of sessions not served."""

    def __init__(self, shape, places):
        self.memory = torch.zeros((places,) + tuple(shape), pin_memory=True)
        self.place_of = {}
        self.free = list(range(places))[::-1]

    def row(self, session):
        if session not in self.place_of:
            self.place_of[session] = self.free.pop()
        return self.memory[self.place_of[session]]

    def leave(self, session):
        self.free.append(self.place_of.pop(session))
