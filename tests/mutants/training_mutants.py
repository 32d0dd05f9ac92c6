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
        ("    if idle:\n", "    if not variables:\n", "", "tests/training/test_optimizers.py does_not_use"),
        ('return {"loss": loss, **measures}', 'return {**measures, "loss": loss * 2}'),
    ),
    *mutants(
        "mtf_imaging/training/optimizers/adafactor.py",
        "tests/training/test_adafactor.py equals or factored or zero",
        ("1 - (t + 1) ** -exponent", "1 - (t + 2) ** -exponent"),
        ("lambda t: (t + 1) ** -exponent, [step]", "lambda t: (t + 2) ** -exponent, [step]"),
        ("self.rate * (1 - self._beta1) if self._beta1", "self.rate if self._beta1"),
        ("mtf.maximum(_root_mean_square(weights), self._epsilon2)", "_root_mean_square(weights)"),
        (
            "mtf.maximum(_root_mean_square(direction) / self._clipping_threshold, 1.0)",
            "mtf.maximum(_root_mean_square(gradient) / self._clipping_threshold, 1.0)",
        ),
        ("mtf.square(gradient) + self._epsilon1", "mtf.square(gradient)"),
        ("change += momentum * self._beta1", "change += momentum"),
        ("mtf.reduce_mean(square, reduced_dim=largest)", "mtf.reduce_mean(square, reduced_dim=second)"),
        ("mtf.rsqrt(rows / mean)", "mtf.rsqrt(rows)"),
        ("largest[1].size >= self._min_dim_size_to_factor", "largest[1].size > self._min_dim_size_to_factor"),
        ("key=lambda dim: -dim.size)[:2]", "key=lambda dim: dim.size)[:2]"),
        ("slot * kept + value * new", "slot * new + value * kept"),
        ("mtf.sqrt(mtf.reduce_mean(mtf.square(x)))", "mtf.sqrt(mtf.reduce_sum(mtf.square(x)))"),
    ),
    *mutants(
        "mtf_imaging/training/micro_batches.py",
        "tests/training/test_micro_batches.py train_like or extra_pass or refused or random or grouped or per_micro",
        ("lambda x: x / self._count, total)", "lambda x: x, total)"),
        ("self.network.call_slices(i, **inputs, **whole)", "self.network.call_slices(0, **inputs, **whole)"),
        ("tf.add_n(sums) for name", "sums[0] for name"),
        ("total = result if total is None else", "total = result if True else"),
        ("if dims.get(_BATCH, 0) % count:", "if dims.get(_BATCH, 0) % count > 1:"),
        ('for case in part.pop("cases")]', 'for case in part.pop("cases")[:1]]'),
    ),
    *mutants(
        "mtf_imaging/training/held_out_loss.py",
        "tests/training/test_held_out_loss.py",
        (
            "            with inference():\n                return loss_of(task, tensors)[0]",
            "            return loss_of(task, tensors)[0]",
        ),
        ("np.mean([self._of_batch(batch)", "np.sum([self._of_batch(batch)"),
        ("return np.mean(losses, dtype=np.float64)", "return np.sum(losses, dtype=np.float64)"),
        ('"updates": "none", "variables": variables', '"updates": "all", "variables": variables'),
    ),
    *mutants(
        "mtf_imaging/training/stopping.py",
        "tests/training/test_stopping.py",
        ("self._left < 0:", "self._left < 1:"),
        ("int(numbers[0, 1])", "int(numbers[self._group.index, 1])"),
        ("if numbers[:, 0].any():", "if numbers[0, 0]:"),
        (
            "min(_SECONDS / max(seconds, 1e-6), 2 * self._calls, _MOST_CALLS)",
            "min(_SECONDS / max(seconds, 1e-6), self._calls, _MOST_CALLS)",
        ),
    ),
    *mutants(
        "mtf_imaging/training/checkpoints/best.py",
        "tests/training/test_evaluator.py earlier_of_equal or best",
        ("max(candidates, key=", "min(candidates, key="),
        ("return -math.inf if math.isnan(score)", "return math.inf if math.isnan(score)"),
        (
            "if step in scores)",
            "if step in scores or step == now)",
        ),
    ),
    *mutants(
        "mtf_imaging/training/observers/evaluator.py",
        "tests/training/test_evaluator.py scores_and_events or after_the_step or resumes or not_finite",
        ("steps % self._every == 0 or steps == self._num_steps", "steps % self._every == 0"),
        ("        if self._is_due(step + 1) and", "        if self._is_due(step) and"),
    ),
]
