"""Writes exported networks as folders."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from mtf_imaging.evaluation.export.card import CARD, README, ModelCard
from mtf_imaging.evaluation.export.networks import TrainedNetworks
from mtf_imaging.files.new_folder import new_folder
from mtf_imaging.files.provenance.digests import Stamp, digest
from mtf_imaging.training.building import building


def save_model(
    output: str | Path,
    networks: TrainedNetworks | None,
    card: ModelCard,
    files: Mapping[str, bytes],
    progress: bool = False,
) -> ModelCard:
    """Writes a model with its card; the folder appears only when it is complete.

    Args:
      output: the folder, which must be new or empty.
      networks: for a SavedModel, the networks whose variables the signatures use; None if `files` contains the
          networks.
      card: the signatures, and the information for users.
      files: the contents of additional files, by name.
      progress: whether to show progress on stderr.

    Returns:
      The card with the digests of the files.

    Raises:
      DataError: the folder already exists.
    """
    with building("writing the model", progress=progress), new_folder(output) as folder:
        if networks is not None:
            model = tf.Module(name="exported")
            model.networks = networks
            tf.saved_model.save(model, str(folder), {one.name: one.function() for one in card.signatures})
        (folder / README).write_text(card.as_markdown(), "utf-8")
        for name, data in files.items():
            (folder / name).write_bytes(data)
        names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
        origin = card.provenance.with_files({name: {"model": Stamp(name, digest(folder / name))} for name in names})
        card = dataclasses.replace(card, provenance=origin)
        (folder / CARD).write_text(card.as_json(), "utf-8")
    return card
