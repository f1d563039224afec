"""Counts in messages, with their words in the singular or plural."""


def things(number: int, one: str, many: str) -> str:
    """Return a number with the singular or plural words.

    >>> things(1, "row has", "rows have"), things(0, "row", "rows")
    ('1 row has', '0 rows')
    """
    return f"{number} {one if number == 1 else many}"


def counted(names: list[str], one: str, many: str) -> str:
    """Return a sentence with the number of names and the first three.

    >>> counted(["a"], "link was skipped", "links were skipped")
    '1 link was skipped: a.'
    """
    return f"{things(len(names), one, many)}: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}."
