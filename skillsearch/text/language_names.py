"""English names of the languages that `skillsearch.text.languages.language_of` can tell."""

from __future__ import annotations

_NAMES = dict(
    pair.split("=")
    for pair in (
        "am=Amharic ar=Arabic bg=Bulgarian bn=Bengali ca=Catalan cs=Czech da=Danish de=German "
        "el=Greek en=English es=Spanish fa=Persian fi=Finnish fr=French gu=Gujarati he=Hebrew "
        "hi=Hindi hu=Hungarian hy=Armenian id=Indonesian it=Italian ja=Japanese ka=Georgian "
        "km=Khmer kn=Kannada ko=Korean lo=Lao ml=Malayalam mr=Marathi my=Burmese ne=Nepali "
        "nl=Dutch no=Norwegian pa=Punjabi pl=Polish pt=Portuguese ro=Romanian ru=Russian "
        "si=Sinhala sr=Serbian sv=Swedish ta=Tamil te=Telugu th=Thai tr=Turkish uk=Ukrainian "
        "ur=Urdu vi=Vietnamese zh=Chinese"
    ).split()
)


def name_of(language: str) -> str:
    """Return the name of a language, such as ``Korean`` for ``ko``; an unknown code as it is."""
    return _NAMES.get(language, language)
