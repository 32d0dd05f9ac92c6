"""Faults of layout/: slices, windows and halos as arithmetic."""

from tests.mutants.mutant import mutants

MUTANTS = [
    *mutants(
        "mtf_imaging/engine/layout/slices.py",
        "tests/engine/layout/test_slices.py",
        ("return -(-self.whole // self.parts)", "return self.whole // self.parts"),
        ("return -(-self.whole // self.size)", "return self.whole // self.size"),
        ("return self.parts - self.filled", "return self.parts - self.filled - 1"),
        ("return self.whole - (self.filled - 1) * self.size", "return self.whole - self.filled * self.size"),
        ("return self.whole % self.parts != 0", "return self.whole % self.parts == 1"),
        ("return self.size * self.parts / self.whole", "return self.whole / (self.size * self.parts)"),
    ),
    *mutants(
        "mtf_imaging/engine/layout/windows.py",
        "tests/engine/layout/test_windows.py",
        ("return (self.kernel - 1) * self.dilation + 1", "return self.kernel * self.dilation"),
        ("return sum(max(0, -pad) for pad in self.explicit)", "return sum(max(0, pad) for pad in self.explicit)"),
        ("            return -(-size // self.stride)", "            return size // self.stride"),
        ("if size <= self.cropped:", "if size < self.cropped:"),
        ("sum(self.explicit) - self.extent) // self.stride + 1)", "sum(self.explicit) - self.extent) // self.stride)"),
        ("return (outputs - 1) * self.stride + self.extent", "return outputs * self.stride + self.extent"),
        ("before = max(0, missing) // 2 if", "before = (max(0, missing) + 1) // 2 if"),
        ("return before, max(after, min(0, after + self.stride - 1))", "return before, after"),
        ("max(self.extent - self.stride, 0)", "max(self.extent - self.stride, 1)"),
        ("return self.span(size) - sum(self.explicit)", "return self.span(size) + sum(self.explicit)"),
        ("return self.before + self.size + self.after", "return self.before + self.size"),
        ("self.width >= self.length + self.stride", "self.width > self.length + self.stride"),
        ("[i * q * window.stride - pad for", "[i * q * window.stride + pad for"),
        ("(length - size - b for b in before)", "(length - size - b - 1 for b in before)"),
        ("widest = max(0, *before)", "widest = max(0, before[0])"),
        ("starts = [widest - b for b in before]", "starts = [0 for b in before]"),
        ("        after=max(0, *(length", "        after=min(0, *(length"),
        ("starts[-1:] * (parts - len(starts))", "starts[:1] * (parts - len(starts))"),
    ),
]
