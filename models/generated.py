"""Endless data sets of images or clips that are generated during training."""

import tensorflow as tf

from mtf_imaging.parameters import check_parameters


class Generated:
    """Base class of data sets, dataclasses, whose example i depends only on i and the seed.

    A subclass has the names of its `classes`, and `draw(seed, index, sizes)`, which returns image `index` and its
    label, int32 [].
    """

    def __post_init__(self):
        check_parameters(self)

    def batches(self, data_dir, *, batch_size, sizes, seed, start_step):
        """Yields batches without end, as in `mtf_imaging.training.data_set.DataSet`. The folder is not read.

        Yields:
          A dict of "image", float32 [batch_size, *sizes, 3]; "labels", int32 [batch_size]; and "cases", names such as
          "17-slanted".
        """
        images = tf.data.Dataset.range(start_step * batch_size, tf.int64.max)
        images = images.map(lambda index: (index, *self.draw(seed, index, sizes)), num_parallel_calls=2)  # in order
        for indices, image, labels in images.batch(batch_size, drop_remainder=True).prefetch(2):
            cases = [f"{index}-{self.classes[label]}" for index, label in zip(indices.numpy(), labels.numpy())]
            yield {"image": image, "labels": labels, "cases": cases}
