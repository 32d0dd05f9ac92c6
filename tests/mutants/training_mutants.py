"""Faults of training/: optimizers, schedules and gradients."""

from tests.mutants.mutant import mutants

_OPTIMIZERS = "tests/training/test_optimizers.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/training/optimizers/adam.py",
        _OPTIMIZERS,
        ("1 / (1 - self._beta1 ** (t + 1))", "1 / (1 - self._beta1 ** (t + 2))"),
        ("1 / (1 - self._beta2 ** (t + 1))", "1 / (1 - self._beta1 ** (t + 1))"),
        (
            "corrections = [self.rate * self._correction1, self._correction2]",
            "corrections = [self.rate, self._correction2]",
        ),
        ("gradient * (1 - self._beta1)", "gradient"),
        ("mean = mean * self._beta1", "mean = mean * self._beta2"),
        ("square = square * self._beta2", "square = square * self._beta1"),
        ("tf.square(gradient) * (1 - self._beta2)", "tf.abs(gradient) * (1 - self._beta2)"),
        ("(tf.sqrt(square * correction) + self._epsilon)", "tf.sqrt(square * correction + self._epsilon)"),
        ("mtf.assign(square_slot, square)", "mtf.assign(square_slot, mean)"),
        ("mtf.assign_sub(variable, change)", "mtf.assign_add(variable, change)"),
    ),
    *mutants(
        "mtf_imaging/training/optimizers/sgd.py",
        _OPTIMIZERS,
        ("len(variable.shape.dims) > 1", "len(variable.shape.dims) > 0"),
        ("velocity = slot * self._momentum + gradient", "velocity = slot + gradient * self._momentum"),
        ("gradient + velocity * self._momentum if self._nesterov", "velocity * self._momentum if self._nesterov"),
        ("change * mtf.cast(self.rate, change.dtype)", "change"),
    ),
    *mutants(
        "mtf_imaging/training/optimizers/schedules.py",
        "tests/training/test_schedules.py",
        ("self.initial * self.factor ** (step // self.every)", "self.initial * self.factor ** (step / self.every)"),
        ("rate * self.factor ** _reached(step, milestone)", "rate * self.factor"),
        ("return float(step >= milestone)", "return float(step > milestone)"),
        ("(1 + _cos(math.pi * _share(step, self.steps))) / 2", "(1 - _cos(math.pi * _share(step, self.steps))) / 2"),
        ("(1 - _share(step, self.steps)) ** self.power", "(1 - _share(step, self.steps) ** self.power)"),
        ("_share(step + 1, self.steps)", "_share(step, self.steps)"),
        ("else min(share, 1.0)", "else max(share, 1.0)"),
    ),
    *mutants(
        "mtf_imaging/training/gradients.py",
        "tests/training/test_micro_batches.py tests/training/test_protocols.py",
        ("    if idle:\n", "    if not variables:\n"),
        ('return {"loss": loss, **measures}', 'return {**measures, "loss": loss * 2}'),
    ),
]
