"""Prints the largest Dice that a network at half the resolution can reach on the phantoms of the context study.

python -m benchmarks.context_study --output_dir context
python -m benchmarks.context_study.limit --study_dir context

The labels of the records at half the resolution replace a network's probabilities, and are mapped back to the voxels of
the volumes.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.context_study.phantoms import PHANTOMS
from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.data.sampling.grid import whole_region
from mtf_imaging.evaluation.volume_scores.overlap import label_overlaps
from mtf_imaging.evaluation.volume_scores.summary import dice_global
from mtf_imaging.kinds.volumes.segment.images import find_cases_of
from mtf_imaging.kinds.volumes.segment.segmenter import Segmenter
from tests.data.reading import read_labels


def limits(folder: Path) -> dict[str, float]:
    """Returns the Dice of each mask, with voxels pooled over the training cases of one kind of phantom."""
    data_dir = folder / "records_2"
    manifest = open_records(data_dir)
    description, overlaps = manifest.description, []
    for case in find_cases_of(folder / "train", description):
        record = manifest.open_record(data_dir, case.key)
        labels = record.labels(whole_region(record.grid))
        perfect = np.eye(description.num_outputs, dtype=np.float32)[labels]
        segmenter = Segmenter(manifest.sampling, description=description)
        volume = segmenter.open(case)
        found = segmenter.segment(volume, lambda image, own=perfect: own).labels.own
        overlaps.append(label_overlaps(found, read_labels(case.labels, volume, description), description))
    return {name: dice_global(overlaps, name) for name in description.masks}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study_dir", required=True, help="output folder of the study")
    study_dir = Path(parser.parse_args().study_dir)
    for name in PHANTOMS:
        dice = limits(study_dir / name)
        print(f"{name}: {', '.join(f'{mask} {value:.3f}' for mask, value in dice.items())}")


if __name__ == "__main__":
    main()
