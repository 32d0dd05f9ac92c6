"""TensorBoard's event files: one more a run, which takes back what a killed run wrote past its last checkpoint."""

import os
import socket
import time
from pathlib import Path

import tensorflow as tf

v1 = tf.compat.v1
_value = v1.Summary.Value


class EventFile:
    """Writes scalars, pictures and texts for TensorBoard; the file is made with the first of them.

    An event file is a TFRecord file of `Event`s. They are written here, because TensorFlow 2's own writer has no way to
    say where a run begins again; and as plain numbers and images, not as its tensors, which some readers do not take
    back.

    Args:
      folder: of the events of a run; made where it is missing.
      step: what earlier files of the folder hold of this step and later is not shown any more.
    """

    def __init__(self, folder, step):
        self._folder, self._step = Path(folder), step
        self._file = None

    def scalars(self, step, values):
        """Writes numbers by name; they are kept in float32."""
        self._write(step, [_value(tag=name, simple_value=float(number)) for name, number in values.items()])

    def picture(self, step, name, pixels):
        """Writes a picture, an array `[height, width, 3]` of uint8."""
        height, width, channels = pixels.shape
        with tf.device("CPU:0"):
            png = tf.io.encode_png(pixels).numpy()
        image = v1.Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=png)
        self._write(step, [_value(tag=name, image=image)])

    def text(self, step, name, markdown):
        """Writes a text, which TensorBoard shows as Markdown."""
        metadata = v1.SummaryMetadata(plugin_data={"plugin_name": "text"})
        tensor = tf.make_tensor_proto(markdown, dtype=tf.string)
        self._write(step, [_value(tag=name, metadata=metadata, tensor=tensor)])

    def close(self):
        if self._file:
            self._file.close()

    def _write(self, step, values):
        if self._file is None:
            self._open()
        self._event(step=step, summary=v1.Summary(value=values))
        self._file.flush()  # a run may be killed at any time

    def _open(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        # Files are read in the order of their names: nanoseconds tell two runs of one second apart.
        name = f"events.out.tfevents.{time.time_ns():020d}.{socket.gethostname()}.{os.getpid()}"
        self._file = tf.io.TFRecordWriter(str(self._folder / name))
        self._event(file_version="brain.Event:2")
        self._event(step=self._step, session_log=v1.SessionLog(status=v1.SessionLog.START))

    def _event(self, **fields):
        self._file.write(v1.Event(wall_time=time.time(), **fields).SerializeToString())
