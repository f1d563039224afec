"""Contrast as WCAG 2.2 defines it, of opaque colours given as red, green and blue from 0 to 1."""


def rgb(code):
    """The colour of a code such as #1f2328."""
    return tuple(int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))


def mixed(top, bottom, share):
    """What is seen of a colour laid over another with an opacity, to the nearest of 256 shades."""
    return tuple(round(255 * (share * a + (1 - share) * b)) / 255 for a, b in zip(top, bottom, strict=True))


def contrast(first, second):
    """Contrast of two colours, from 1 to 21."""
    dark, light = sorted(luminance(color) for color in (first, second))
    return (light + 0.05) / (dark + 0.05)


def luminance(color):
    """Relative luminance."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
