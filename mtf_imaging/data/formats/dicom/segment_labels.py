"""Finds the label of each segment of a DICOM-SEG file, by the segment's name and codes."""

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.formats.dicom.label_codes import Code, LabelCodes, default_codes, segment_name
from mtf_imaging.files.reading import Fault

_BACKGROUND = 0  # the number of the optional background segment of a label map


def labels_of_segments(header: object, description: Description) -> dict[int, int]:
    """Returns {segment number: label} of a DICOM-SEG file.

    A segment has the label whose name equals its SegmentLabel, regardless of case, or else the label whose codes equal
    its codes. Only the labels of LiTS have known codes. Several segments may have the same label.

    Args:
      header: the header of the file, a pydicom data set.
      description: the labels.

    Raises:
      Fault: a segment has no label, or its name and its codes stand for different labels.
    """
    codes, labels, unknown = default_codes(description.labels), {}, []
    for segment in header.SegmentSequence:
        number, name = int(segment.SegmentNumber), str(segment.get("SegmentLabel") or "").strip()
        if number == _BACKGROUND:
            continue
        named = [label for label in description.labels if segment_name(label).casefold() == name.casefold()]
        coded = [label for label in codes if _has_codes(segment, codes[label])]
        if named and coded and named[0] not in coded:
            what = f"the name of segment {number} is '{name}', but its codes stand for the label '{coded[0]}'"
            raise Fault(what, "correct the name or the codes of the segment")
        found = named or coded
        if len(found) == 1:
            labels[number] = description.labels[found[0]]
        else:
            unknown.append(f"{number} '{name}'{_meaning(segment)}")
    if unknown:
        what = f"the segment(s) {', '.join(unknown)} match none of the labels {', '.join(description.labels)}"
        fix = "use the names of the segments as names of the labels in dataset.json, or export the others"
        raise Fault(what, fix, ["dataset_json"])
    return labels


def _has_codes(segment: object, codes: LabelCodes) -> bool:
    """Returns whether a segment has the type and, if it states one, the region of a label."""
    region = segment.get("AnatomicRegionSequence")
    if codes.region is not None and region and not _is_code(region[0], codes.region):
        return False
    types = segment.get("SegmentedPropertyTypeCodeSequence")
    return bool(types) and _is_code(types[0], codes.type)


def _is_code(item: object, code: Code) -> bool:
    """Returns whether a code of a file equals ours; pydicom knows the old codes (SRT) of SNOMED CT terms."""
    from pydicom.sr.coding import Code as DicomCode

    value, scheme = str(item.get("CodeValue") or ""), str(item.get("CodingSchemeDesignator") or "")
    return DicomCode(value, scheme, "") == DicomCode(code.value, code.scheme, code.meaning)


def _meaning(segment: object) -> str:
    types = segment.get("SegmentedPropertyTypeCodeSequence")
    meaning = types[0].get("CodeMeaning") if types else None
    return f" ({meaning})" if meaning else ""
