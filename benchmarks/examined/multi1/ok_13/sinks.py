import csv
import math
from collections import defaultdict


class Smoother:
    def __init__(self, beta=0.9):
        self.beta = beta
        self.values = defaultdict(float)
        self.weight = defaultdict(float)

    def __call__(self, step, name, number):
        self.values[name] = self.beta * self.values[name] + (1 - self.beta) * number
        self.weight[name] = self.beta * self.weight[name] + (1 - self.beta)

    def get(self, name):
        w = self.weight[name]
        return self.values[name] / w if w else math.nan


class CsvSink:
    def __init__(self, path):
        self.fh = open(path, "w", newline="")
        self.out = csv.writer(self.fh)

    def __call__(self, step, name, number):
        self.out.writerow([step, name, f"{number:.6f}"])

    def close(self):
        self.fh.close()
