"""Numbers with a noun in the singular or plural, for messages."""


def with_noun(number: int, one: str, many: str = "") -> str:
    """Return a number with a noun, or with other words in the singular or plural; by default the regular plural.

    >>> with_noun(1, "row"), with_noun(3, "class"), with_noun(1, "label is", "labels are")
    ('1 row', '3 classes', '1 label is')
    """
    return f"{number} {noun_for(number, one, many)}"


def noun_for(number: float, one: str, many: str = "") -> str:
    """Return the singular or plural of a noun for a number.

    >>> noun_for(1, "row"), noun_for(0, "row"), noun_for(2, "class")
    ('row', 'rows', 'classes')
    """
    if number == 1:
        return one
    return many or (f"{one}es" if one.endswith("s") else f"{one}s")
