"""Words of a transcript, as they are compared and as they are spoken.

Conventions: a *token* is a part of a transcript between white space, numbered from 0; a token may be several spoken
words ("1984", "twenty-first") or none ("-").
"""

from __future__ import annotations

import re
import unicodedata

from voiceveil.models.asr.text_normalization import number_words

__all__ = ["capitalized_like", "folded", "spoken_words"]

_QUOTES = str.maketrans({"’": "'", "‘": "'", "`": "'", "´": "'", "ʼ": "'"})
_OUTSIDE = re.compile(r"[^a-z0-9',.:]+|[,.:](?!\d)|(?<!\d)[,.:]")
_PART = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:st|nd|rd|th)?|[a-z']+")
_DIGITS = {str(n): word for n, word in enumerate("zero one two three four five six seven eight nine".split())}  # noqa: SIM905


def folded(token: str) -> str:
    """Return a token for comparison: lower case, without accents, and without punctuation around words.

    >>> folded("“Zoë’s,”"), folded("Twenty-first!")
    ("zoe's", 'twenty-first')
    """
    text = unicodedata.normalize("NFKD", token.translate(_QUOTES)).encode("ascii", "ignore").decode().lower()
    return "-".join(filter(None, (_OUTSIDE.sub("", part).strip("'") for part in re.split(r"[-/]", text))))


def spoken_words(token: str) -> list[str]:
    """Return the words that are spoken for a token, in lower case; digits as number words.

    Long numbers and numbers with hyphens are read digit by digit.

    >>> spoken_words("1984,"), spoken_words("555-12"), spoken_words("Mary's"), spoken_words("--")
    (['nineteen', 'eighty', 'four'], ['five', 'five', 'five', 'one', 'two'], ["mary's"], [])
    """
    text = unicodedata.normalize("NFKD", token.translate(_QUOTES)).encode("ascii", "ignore").decode().lower()
    by_digit = re.search(r"\d[-/]\d|\d{5}", text) is not None
    words: list[str] = []
    for part in _PART.findall(text):
        if not part[0].isdigit():
            words += filter(None, [part.strip("'")])
        elif by_digit and part.isdecimal():
            words += [_DIGITS[digit] for digit in part]
        else:
            words += number_words(part).lower().split()
    return words


def capitalized_like(word: str, model: str) -> str:
    """Return a word with a capital if ``model`` begins with one, else in lower case, and its punctuation.

    >>> capitalized_like("MARY", "Mery,"), capitalized_like("SAID", "said")
    ('Mary,', 'said')
    """
    first = next((letter for letter in model if letter.isalpha()), "")
    cased = word.capitalize() if first.isupper() else word.lower()
    end = re.search(r"[.,!?;:]+$", model)
    return cased + (end[0] if end and not re.search(r"[.,!?;:]$", word) else "")
