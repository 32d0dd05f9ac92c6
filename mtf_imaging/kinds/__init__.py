"""The kinds of data: what training, evaluation, prediction, export and the demo do differently for each of them."""
