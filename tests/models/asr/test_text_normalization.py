"""Text normalization of transcripts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceveil.core.errors import InputError
from voiceveil.metrics.wer import normalize_text
from voiceveil.models.asr.text_normalization import english_words, normalizer, number_words, plain_words

ONES = ["ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE", "TEN", "ELEVEN", "TWELVE"]
ONES += ["THIRTEEN", "FOURTEEN", "FIFTEEN", "SIXTEEN", "SEVENTEEN", "EIGHTEEN", "NINETEEN"]
TENS = ["", "", "TWENTY", "THIRTY", "FORTY", "FIFTY", "SIXTY", "SEVENTY", "EIGHTY", "NINETY"]
UNITS = {name: value for value, name in enumerate(ONES)} | {name: 10 * i for i, name in enumerate(TENS) if name}
SCALES = {"THOUSAND": 10**3, "MILLION": 10**6, "BILLION": 10**9, "TRILLION": 10**12}


def value_of(words: str) -> int:
    """Return the number that the words of a cardinal stand for: the inverse of number_words."""
    total = group = 0
    for word in words.split():
        if word == "HUNDRED":
            group *= 100
        elif word in SCALES:
            total, group = total + group * SCALES[word], 0
        else:
            group += UNITS[word]
    return total + group


@given(st.integers(0, 10**15 - 1).filter(lambda n: not 1100 <= n <= 1999))
def test_numbers_can_be_read_back(number: int) -> None:
    assert value_of(number_words(str(number))) == number
    assert number_words(f"{number:,}") == number_words(str(number))


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("1850", "EIGHTEEN FIFTY"),
        ("1900", "NINETEEN HUNDRED"),
        ("1905", "NINETEEN OH FIVE"),
        ("1,905", "ONE THOUSAND NINE HUNDRED FIVE"),
        ("007", "ZERO ZERO SEVEN"),
        ("3.14", "THREE POINT ONE FOUR"),
        ("1st", "FIRST"),
        ("12th", "TWELFTH"),
        ("20th", "TWENTIETH"),
        ("33rd", "THIRTY THIRD"),
        ("101ST", "ONE HUNDRED FIRST"),
        ("5551234567890123", "FIVE FIVE FIVE ONE TWO THREE FOUR FIVE SIX SEVEN EIGHT NINE ZERO ONE TWO THREE"),
    ],
)
def test_numbers_are_spelled_out(written: str, words: str) -> None:
    assert number_words(written) == words


def test_punctuation_and_case_are_removed() -> None:
    assert plain_words("“Well, it’s  fine;” he said—isn't it?") == "WELL IT'S FINE HE SAID ISN'T IT"
    assert plain_words("'Tis the dogs' 'bone'") == "TIS THE DOGS BONE"
    assert plain_words("an arm-chair_") == "AN ARM CHAIR"
    assert plain_words("\N{LATIN SMALL LETTER E}\N{COMBINING ACUTE ACCENT}t\u00e9 \u266a") == "\u00c9T\u00c9"
    assert plain_words(" ... ") == ""


@pytest.mark.slow
@given(st.lists(st.from_regex(r"[A-Z]+('[A-Z]+)?", fullmatch=True)))
def test_challenge_transcript_is_unchanged(words: list[str]) -> None:
    text = " ".join(words)
    assert plain_words(text) == normalize_text(text) == text


@given(st.text())
def test_normalization_is_idempotent(text: str) -> None:
    assert plain_words(plain_words(text)) == plain_words(text)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("MISTER AND MISSUS BROWN", "Mr. and Mrs. Brown"),
        ("THE COLOUR OF HONOUR", "The color of honor."),
        ("HE REALISED IT", "He realized it."),
        ("AT THE THEATRE", "at the theater"),
        ("THEY TRAVELLED TOWARDS THE GREY CENTRE", "They traveled toward the gray center"),
        ("FIFTY PERCENT", "50%"),
        ("TEN POUNDS", "£10"),
        ("O CANNOT YOU", "Oh, can not you?"),
        ("ROCK AND ROLL", "Rock & Roll"),
    ],
)
def test_equivalent_spellings_are_equal(a: str, b: str) -> None:
    assert english_words(a) == english_words(b)


@pytest.mark.parametrize(
    ("a", "b"), [("four", "for"), ("hour", "or"), ("poured", "pored"), ("rise", "rize"), ("raised", "raized")]
)
def test_different_words_stay_different(a: str, b: str) -> None:
    assert english_words(a) != english_words(b)


def test_unknown_normalization_is_rejected() -> None:
    with pytest.raises(InputError, match="did you mean english"):
        normalizer("englsh")
