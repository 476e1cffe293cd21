"""Text normalization: transcripts of different recognizers in one notation, before words are compared.

Conventions: a transcript is any string; the result is words in upper case with single spaces. References and
transcripts are normalized alike.

* :func:`plain_words`: upper case, no punctuation. References of the challenges (LibriSpeech, VCTK) stay unchanged.
* :func:`english_words`: also one spelling for numbers, titles, British and American words. LibriSpeech writes
  ``MISTER`` and ``NINETEEN HUNDRED`` where recognizers trained on subtitles write "Mr." and "1900", which are no errors
  of recognition. The rules are crude ("advise" becomes ADVIZE), which is harmless because they apply to both sides.
  Word error rates with and without it must not be compared.
* ``none`` and ``official``: only the spaces at both ends are removed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Literal

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

__all__ = ["Normalization", "english_words", "normalizer", "number_words", "plain_words"]

#: ``official`` also separates words at single spaces, see :func:`voiceveil.metrics.wer.word_errors`.
Normalization = Literal["plain", "english", "none", "official"]

# An apostrophe inside a word is kept (IT'S), as the official model writes it; a quotation mark is not.
_QUOTES = str.maketrans({"’": "'", "‘": "'", "`": "'", "´": "'", "ʼ": "'"})
_NOT_A_WORD = re.compile(r"[^\w' ]|_")
_OUTER_APOSTROPHE = re.compile(r"(?<!\w)'|'(?!\w)")


def plain_words(text: str) -> str:
    """Return the text in upper case, with everything but letters, digits and inner apostrophes replaced by spaces.

    >>> plain_words("“Well, it's fine,” he said - isn't it?")
    "WELL IT'S FINE HE SAID ISN'T IT"
    """
    text = unicodedata.normalize("NFC", text).translate(_QUOTES)
    return " ".join(_OUTER_APOSTROPHE.sub(" ", _NOT_A_WORD.sub(" ", text)).split()).upper()


def english_words(text: str) -> str:
    """Return :func:`plain_words` with numbers and titles written out, in American spelling.

    >>> english_words("Mr. Grey paid $1,200 in 1850 for the 2nd color.")
    'MISTER GRAY PAID ONE THOUSAND TWO HUNDRED DOLLARS IN EIGHTEEN FIFTY FOR THE SECOND COLOR'
    """
    text = _MONEY.sub(lambda m: f"{m[2]} {_CURRENCIES[m[1]]}", text).replace("%", " percent ").replace("&", " and ")
    text = _NUMBER.sub(lambda m: f" {number_words(m[0])} ", text)
    words = plain_words(text).split()
    return " ".join(_american(_WRITTEN_OUT.get(word, word)) for word in words)


def normalizer(name: str) -> Callable[[str], str]:
    """Return the function of that name: ``plain``, ``english``, ``none`` or ``official``."""
    if name not in _NORMALIZERS:
        raise InputError(f"unknown normalization {name!r}", fix=did_you_mean(name, list(_NORMALIZERS)))
    return _NORMALIZERS[name]


_NORMALIZERS: dict[str, Callable[[str], str]] = {
    "plain": plain_words,
    "english": english_words,
    "none": str.strip,
    "official": str.strip,
}

_ONES = (  # noqa: SIM905 -- readable
    "ZERO ONE TWO THREE FOUR FIVE SIX SEVEN EIGHT NINE TEN ELEVEN TWELVE THIRTEEN FOURTEEN FIFTEEN SIXTEEN SEVENTEEN "
    "EIGHTEEN NINETEEN"
).split()
_TENS = "ZERO TEN TWENTY THIRTY FORTY FIFTY SIXTY SEVENTY EIGHTY NINETY".split()  # noqa: SIM905
_POWERS = ((10**12, "TRILLION"), (10**9, "BILLION"), (10**6, "MILLION"), (1000, "THOUSAND"), (100, "HUNDRED"))
_ORDINALS = {"ONE": "FIRST", "TWO": "SECOND", "THREE": "THIRD", "FIVE": "FIFTH", "EIGHT": "EIGHTH", "NINE": "NINTH"}
_ORDINALS |= {"TWELVE": "TWELFTH"}
_CURRENCIES = {"$": "dollars", "£": "pounds", "€": "euros"}
_MONEY = re.compile(r"([$£€])\s?(\d[\d,]*(?:\.\d+)?)")
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+|st\b|nd\b|rd\b|th\b)?", re.IGNORECASE)


def number_words(number: str) -> str:
    """Return a number in words; it may be written ``1,200``, ``3.5``, ``2nd``, ``007``, or be a year such as ``1850``.

    >>> number_words("1905"), number_words("21st"), number_words("1,905"), number_words("0.25")
    ('NINETEEN OH FIVE', 'TWENTY FIRST', 'ONE THOUSAND NINE HUNDRED FIVE', 'ZERO POINT TWO FIVE')
    """
    if number[-1].isalpha():
        *rest, last = _cardinal(int(number[:-2].replace(",", ""))).split()
        return " ".join([*rest, _ordinal(last)])
    whole, point, fraction = number.partition(".")
    digits = whole.replace(",", "")
    if point:
        return f"{_cardinal(int(digits))} POINT {_digit_by_digit(fraction)}"
    if len(digits) > 15 or (len(digits) > 1 and digits[0] == "0"):  # e.g. a telephone number
        return _digit_by_digit(digits)
    if len(whole) == 4 and "1100" <= whole <= "1999":
        return _year(int(whole))
    return _cardinal(int(digits))


def _digit_by_digit(digits: str) -> str:
    return " ".join(_ONES[int(digit)] for digit in digits)


def _year(year: int) -> str:
    century, rest = divmod(year, 100)
    if rest == 0:
        return f"{_cardinal(century)} HUNDRED"
    return f"{_cardinal(century)} {'OH ' if rest < 10 else ''}{_cardinal(rest)}"


def _cardinal(value: int) -> str:
    for power, name in _POWERS:
        if value >= power:
            count, rest = divmod(value, power)
            return f"{_cardinal(count)} {name}" + (f" {_cardinal(rest)}" if rest else "")
    if value < 20:
        return _ONES[value]
    tens, ones = divmod(value, 10)
    return _TENS[tens] + (f" {_ONES[ones]}" if ones else "")


def _ordinal(word: str) -> str:
    return _ORDINALS.get(word, f"{word[:-1]}IETH" if word.endswith("Y") else f"{word}TH")


#: Abbreviations, and words whose British spelling follows no rule of ``_ENDINGS``.
_WRITTEN_OUT = {
    "MR": "MISTER",
    "MRS": "MISSUS",
    "MESSRS": "MESSIEURS",
    "DR": "DOCTOR",
    "PROF": "PROFESSOR",
    "CAPT": "CAPTAIN",
    "GEN": "GENERAL",
    "COL": "COLONEL",
    "LT": "LIEUTENANT",
    "JR": "JUNIOR",
    "SR": "SENIOR",
    "ETC": "ET CETERA",
    "VS": "VERSUS",
    "OK": "OKAY",
    "CANNOT": "CAN NOT",
    "O": "OH",
    "GREY": "GRAY",
    "TOWARDS": "TOWARD",
    "AFTERWARDS": "AFTERWARD",
    "PLOUGH": "PLOW",
    "SCEPTICAL": "SKEPTICAL",
    "CHEQUE": "CHECK",
    "TYRE": "TIRE",
    "JEWELLERY": "JEWELRY",
    "WOOLLEN": "WOOLEN",
    "MARVELLOUS": "MARVELOUS",
    "ODOUR": "ODOR",
    "FIBRE": "FIBER",
    "DEFENCE": "DEFENSE",
    "OFFENCE": "OFFENSE",
    "PRETENCE": "PRETENSE",
}

#: British endings after three letters or more (HOUR and RISE stay), and their American spelling.
_ENDINGS = (
    (re.compile(r"(?<=\w{3})OUR(S|ED|ING|ABLE|ABLY|ITE|ITES|ER|ERS|HOOD|LESS)?$"), r"OR\1"),
    (re.compile(r"(?<=\w{3})IS(E|ES|ED|ING|ER|ERS|ATION|ATIONS)$"), r"IZ\1"),
    (re.compile(r"(?<=\w{3})YS(E|ES|ED|ING)$"), r"YZ\1"),
    (re.compile(r"(?<=\w{2}[BT])RE(S?)$"), r"ER\1"),
    (re.compile(r"(?<=\w{3})ELL(ED|ING|ER|ERS)$"), r"EL\1"),
)


def _american(word: str) -> str:
    for british, american in _ENDINGS:
        word, replaced = british.subn(american, word)
        if replaced:
            break
    return word
