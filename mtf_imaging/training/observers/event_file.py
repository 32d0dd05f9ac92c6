"""TensorBoard event files that hide the steps that a killed run made after its last checkpoint."""

import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
_value = v1.Summary.Value


class EventFile:
    """Writes scalars, pictures and texts for TensorBoard; the first of them creates the file.

    An event file is a TFRecord file of `Event`s. TensorFlow 2's own writer cannot mark the step at which a run resumes,
    and it writes tensors, which some programs cannot read. This class marks the step, and writes plain numbers and
    images.

    Args:
      folder: folder of the events of a run, which is created if it is missing.
      step: first step of the run. TensorBoard drops the events of this step and later from earlier files.
    """

    def __init__(self, folder: str | Path, step: int) -> None:
        self._folder, self._step = Path(folder), step
        self._file: tf.io.TFRecordWriter | None = None

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Writes numbers as float32.

        Args:
          step: number of the step.
          values: the numbers by name.
        """
        self._write(step, [_value(tag=name, simple_value=float(number)) for name, number in values.items()])

    def picture(self, step: int, name: str, pixels: np.ndarray) -> None:
        """Writes a picture.

        Args:
          step: number of the step.
          name: name of the picture.
          pixels: array `[height, width, 3]` of uint8.
        """
        height, width, channels = pixels.shape
        with tf.device("CPU:0"):
            png = tf.io.encode_png(pixels).numpy()
        image = v1.Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=png)
        self._write(step, [_value(tag=name, image=image)])

    def text(self, step: int, name: str, markdown: str) -> None:
        """Writes a text, which TensorBoard shows as Markdown.

        Args:
          step: number of the step.
          name: name of the text.
          markdown: the text.
        """
        metadata = v1.SummaryMetadata(plugin_data={"plugin_name": "text"})
        tensor = tf.make_tensor_proto(markdown, dtype=tf.string)
        self._write(step, [_value(tag=name, metadata=metadata, tensor=tensor)])

    def close(self) -> None:
        if self._file:
            self._file.close()

    def _write(self, step: int, values: Sequence[Any]) -> None:
        file = self._open() if self._file is None else self._file
        self._event(file, step=step, summary=v1.Summary(value=values))
        file.flush()  # a run may be killed at any time

    def _open(self) -> tf.io.TFRecordWriter:
        self._folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files in the order of their names. Nanoseconds order two runs that begin in one second.
        name = f"events.out.tfevents.{time.time_ns():020d}.{socket.gethostname()}.{os.getpid()}"
        self._file = file = tf.io.TFRecordWriter(str(self._folder / name))
        self._event(file, file_version="brain.Event:2")
        self._event(file, step=self._step, session_log=v1.SessionLog(status=v1.SessionLog.START))
        return file

    @staticmethod
    def _event(file: tf.io.TFRecordWriter, **fields: object) -> None:
        file.write(v1.Event(wall_time=time.time(), **fields).SerializeToString())
