"""The overlays of a case as HTML: the CT as an image with SVG outlines on top."""

from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.evaluation.report.colors import mask_classes
from mtf_imaging.evaluation.report.markup import Markup, tag
from mtf_imaging.evaluation.report.shell import data_url, image_section
from mtf_imaging.evaluation.report.tables import shown
from mtf_imaging.evaluation.volume_report.image_planes import shows_ct
from mtf_imaging.evaluation.volume_report.overlay import Overlays, View
from mtf_imaging.evaluation.volume_report.plots import lesion_kind
from mtf_imaging.evaluation.volume_scores.case import CaseScore
from mtf_imaging.evaluation.volume_scores.lesions import Lesion

_BARS_MM = (100, 50, 20, 10, 5, 2, 1)
_MAX_LESIONS = 12  # lesions listed in the text about a case
_COUNTED_FROM = {"S": "the feet", "A": "the back", "R": "the left"}


def case_section(number: int, score: CaseScore, overlays: Overlays, description: Description = LITS) -> Markup:
    """Returns the heading, the list of lesions and the slices of a case.

    Args:
      number: the number in the link target `#cN` of the case.
      score: the scores of the case.
      overlays: the slices of the case.
      description: the meaning of the labels and channels.
    """
    dice = ", ".join(f"{mask} Dice {shown(overlap.dice)}" for mask, overlap in score.overlaps.items())
    lesions = (part for text in _lesion_texts(score, description) for part in (text, tag("br")))
    notes = [*lesions, f"Slices through {overlays.what}."]
    return image_section(number, f"Case {score.key}", dice, notes, views_markup(score.key, overlays, description))


def views_markup(key: str, overlays: Overlays, description: Description) -> Markup:
    """Returns the slices of a case, which have the same scale: their widths are proportional to millimeters."""
    return tag("div", *(_figure(key, view, description) for view in overlays.views), class_="views")


def position_text(view: View) -> str:
    """Returns the position of a slice, such as `S 12.5 mm, slice 7 of 40 from the feet`."""
    grows, comes = view.plane.across_letters
    mm = round(view.position, 1) + 0.0
    where = _COUNTED_FROM[grows]
    return f"{comes if mm < 0 else grows} {abs(mm):.1f} mm, slice {view.number} of {view.of} from {where}"


def _figure(key: str, view: View, description: Description) -> Markup:
    width, height = view.mm
    name = view.plane.name
    if view.image is None:
        picture = tag("div", class_="gray")
    else:
        alt = f"{name} slice of the {'CT' if shows_ct(description) else 'image'} of case {key}"
        picture = tag("img", src=data_url("jpeg", view.image), alt=alt, loading="lazy", decoding="async")
    columns, rows = view.voxels
    classes = mask_classes(description)
    outlines = tag(
        "svg",
        *(tag("path", d=path, class_=f"{who} {classes[mask]}") for (who, mask), path in view.outlines.items()),
        viewBox=f"0 0 {2 * columns} {2 * rows}",  # in half voxels
        preserveAspectRatio="none",
        class_="outlines",
    )
    letters = (
        tag("span", letter, class_=f"letter {side}")
        for letter, side in zip(view.plane.letters, ("left", "right", "top", "bottom"), strict=True)
    )
    bar_mm = next((mm for mm in _BARS_MM if mm <= width / 3), _BARS_MM[-1])
    bar = tag("span", f"{bar_mm} mm", class_="scale", style=f"width:{100 * bar_mm / width:.2f}%")
    frame = tag("div", picture, outlines, *letters, bar, class_="frame", style=f"aspect-ratio:{width:.2f}/{height:.2f}")
    caption = tag("figcaption", tag("b", name), " ", position_text(view))
    return tag("figure", frame, caption, data_plane=name, style=f"flex-grow:{width:.1f}")


def _lesion_texts(score: CaseScore, description: Description) -> list[str]:
    """Returns lists of lesions, one per lesion mask, with their size and Dice, the largest first."""
    several = description.rules != LITS_RULES
    return [_lesions_text(found, f"{mask}: " if several else "") for mask, found in score.lesions_by_mask.items()]


def _lesions_text(found: list[Lesion], prefix: str) -> str:
    lesions = sorted(found, key=lambda lesion: -lesion.diameter)
    if not lesions:
        return _first_upper(f"{prefix}no lesions in the reference or the prediction.")
    words = {"missed": "missed", "false": "false positive"}
    texts = [
        f"{lesion.diameter:.0f} mm {words.get(lesion_kind(lesion)) or f'Dice {lesion.overlap.dice:.2f}'}"
        for lesion in lesions[:_MAX_LESIONS]
    ]
    more = f" and {len(lesions) - len(texts)} more" if len(lesions) > len(texts) else ""
    return _first_upper(f"{prefix}lesions: {', '.join(texts)}{more}.")


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
