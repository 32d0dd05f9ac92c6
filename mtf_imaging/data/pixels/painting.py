"""Outlines, textures, colors and lighting of synthetic photos."""

import numpy as np
from scipy import ndimage

_STRIPES_PERIOD, _CHECKS_PERIOD = (5.0, 6.5), (9.0, 12.0)  # in pixels
_SPECKLE = 0.8  # in pixels
_CONTRAST = (0.35, 0.6)  # of a texture, from black to white
_TINT = 0.15  # of the difference between the two colors of a texture
_LIGHTING = 0.25
_NOISE = 5.0


def turned_grid(height: int, width: int, center: np.ndarray, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the position of each pixel relative to a center, along two turned axes."""
    rows, columns = np.arange(height)[:, np.newaxis] - center[0], np.arange(width)[np.newaxis] - center[1]
    sin, cos = np.sin(angle), np.cos(angle)
    return cos * rows + sin * columns, cos * columns - sin * rows


def disc(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns the mask of a disc, for positions in units of the radius."""
    return rows**2 + columns**2 < 1


def square(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns the mask of a square, for positions in units of the radius."""
    return np.maximum(abs(rows), abs(columns)) < 0.9


def triangle(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns the mask of an equilateral triangle, bounded by three lines at 0.65 from the center."""
    height = np.sqrt(3) / 2
    return np.maximum.reduce([rows, -rows / 2 + height * columns, -rows / 2 - height * columns]) < 0.65


def ring(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns the mask of a ring, for positions in units of the radius."""
    return abs(np.hypot(rows, columns) - 0.78) < 0.28


def star(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns the mask of a five-pointed star, for positions in units of the radius."""
    # The angle to the nearest point determines how far the star extends.
    off = abs((np.arctan2(columns, rows) * 5 / (2 * np.pi) + 0.5) % 1 - 0.5) * 2 * np.pi / 5
    inner, step = 0.42, np.pi / 5  # radius and angle of the corner between two points
    edge = np.sin(step) * inner / (np.sin(step - off) * inner + np.sin(off))
    return np.hypot(rows, columns) < edge


def _wave(rng: np.random.Generator, positions: np.ndarray, period: tuple[float, float]) -> np.ndarray:
    """Returns a wave in -1..1 with a random period and phase."""
    return np.sin(2 * np.pi * (positions / rng.uniform(*period) + rng.uniform()))


def plain(rng: np.random.Generator, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns a texture of one color."""
    return np.zeros_like(rows)


def checks(rng: np.random.Generator, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns a texture of checks in -1..1."""
    return np.sign(_wave(rng, rows, _CHECKS_PERIOD) * _wave(rng, columns, _CHECKS_PERIOD))


def stripes(rng: np.random.Generator, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns a texture of stripes in -1..1."""
    return np.sign(_wave(rng, rows, _STRIPES_PERIOD))


def speckles(rng: np.random.Generator, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns a texture of speckles in -1..1."""
    return np.sign(ndimage.gaussian_filter(rng.standard_normal(rows.shape), _SPECKLE))


def colored(rng: np.random.Generator, pattern: np.ndarray) -> np.ndarray:
    """Returns a pattern in two random colors, a darker and a lighter one, `[height, width, 3]`."""
    color = rng.uniform(60, 195, 3)
    difference = 127.5 * (rng.uniform(*_CONTRAST) + rng.uniform(-_TINT, _TINT, 3))
    return color + pattern[..., np.newaxis] * difference


def background(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Returns smooth blotches in two random colors, `[height, width, 3]`."""
    blotches = ndimage.gaussian_filter(rng.standard_normal((height, width)), rng.uniform(4, 7), mode="wrap")
    return colored(rng, 0.5 * blotches / blotches.std())


def photographed(rng: np.random.Generator, pixels: np.ndarray) -> np.ndarray:
    """Turns painted pixels into a photo, uint8: slightly blurred, lit from a random direction, and noisy."""
    height, width = pixels.shape[:2]
    along, _ = turned_grid(height, width, np.array([height / 2, width / 2]), rng.uniform(0, 2 * np.pi))
    lighting = 1 + rng.uniform(0, _LIGHTING) * along / abs(along).max()
    pixels = ndimage.gaussian_filter(pixels, (0.5, 0.5, 0)) * lighting[..., np.newaxis]
    pixels += rng.normal(0, _NOISE, pixels.shape)
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
