"""Tests of telling keywords from sentences."""

import pytest

from skillsearch.text.languages import language_of
from skillsearch.text.prose import keyword_stretch, prose, repetition

TEA = (
    "Brews tea the way you like it. Use this when someone asks for a cup of tea, when the kettle "
    "is on, or if you want to know how long the leaves of a green tea should stay in the pot."
)
WORDS = (
    "tea kettle pot cup leaf oolong sencha matcha assam darjeeling rooibos chamomile mint ginger "
    "lemon honey sugar milk spoon saucer strainer filter timer boiling water temperature steep "
    "brew infusion aroma flavour tannin caffeine organic loose bag tin caddy tray mug glass"
).split()


@pytest.mark.parametrize("separator", [" ", ", ", "\n", " | "])
def test_keywords_are_a_stretch(separator):
    words = separator.join(WORDS)
    count, stretch = keyword_stretch(f"{TEA} Keywords: {words}. {TEA}")
    assert len(WORDS) <= count < len(WORDS) + 15
    assert words in stretch


def test_a_function_word_makes_up_for_six_keywords():
    """The stretch goes on behind it if what it has by then is more; it begins with a keyword."""
    text = f"{TEA} The {' '.join(WORDS[:16])} and {' '.join(WORDS[16:])} or {TEA}"
    assert language_of(text) == "en"
    stretch = f"{' '.join(WORDS[:16])} and {' '.join(WORDS[16:])}"
    assert keyword_stretch(text) == (len(WORDS) - 6, stretch)
    assert keyword_stretch("the") == (0, "")


def test_function_words_of_another_language_count_where_a_language_has_few():
    """In English "und" is a keyword like others; in Hungarian it makes up for twice as many."""
    parted = [word for word in WORDS if word != "mint"]  # Hungarian for "than"
    stretch = f"{' '.join(parted[:20])} und {' '.join(parted[20:])}"
    assert keyword_stretch(f"{TEA} The {stretch} or {TEA}") == (len(parted) + 1, stretch)
    tea = "Teát főz, ahogy szereted, és megmondja, hogy meddig kell a leveleket áztatni."
    hungarian = f"{tea} {tea} The {stretch} or {tea} {tea}"
    assert language_of(hungarian) == "hu"
    assert keyword_stretch(hungarian) == (len(parted) - 12, stretch)


def test_a_list_of_words_has_no_language():
    words = ", ".join(WORDS)
    assert language_of(words) == "hu"
    assert len(WORDS) / 2 < keyword_stretch(words)[0] <= len(WORDS)


@pytest.mark.parametrize(
    "text",
    [
        f"{TEA}\n" * 20,
        "Kocht Tee, wie du ihn magst, und sagt dir, wie lange er ziehen muss. " * 20,
        "Prépare le thé comme vous l'aimez et dit pendant combien de temps il infuse. " * 20,
        "Teát főz, ahogy szereted, és megmondja, hogy meddig kell a leveleket áztatni. " * 20,
        "Parzy herbatę tak, jak lubisz, i mówi, jak długo liście mają być w wodzie. " * 20,
        "Keittää teetä niin kuin haluat ja kertoo, miten kauan lehtien on oltava vedessä. " * 20,
        "Çayı istediğin gibi demler ve yaprakların ne kadar bekleyeceğini söyler. " * 20,
        "차를 우리는 방법을 알려 줍니다. " * 50,
        "Заваривает чай так как вы любите. " * 50,
        "お茶の淹れ方を教えます。" * 50,
        "",
    ],
)
def test_sentences_have_no_long_stretch_by_the_words_of_their_own_language(text):
    """A language without a list of function words would look stuffed."""
    assert keyword_stretch(text)[0] < 20


def test_repetition_is_the_share_of_repeated_phrases():
    """Single words may come back, as the subject does."""
    assert repetition(TEA) == 0
    assert repetition("best green tea " * 20) > 0.9
    assert repetition(", ".join(f"{word} tea" for word in WORDS)) == 0


def test_a_short_text_does_not_repeat_itself():
    assert repetition("tea " * 29) == 0
    assert repetition("tea " * 30) == 1 - 1 / 28


def test_prose_leaves_out_what_needs_no_sentence():
    body = (
        "# Tea\n\nBoil `water --hot` in a [kettle](https://x.example).\n\n- mint\n1. sage\n\n"
        "| a | b |\n\n```\nrun\n```\n\nPour.\n"
    )
    assert [" ".join(part.split()) for part in prose(body)] == ["Boil in a [kettle .", "Pour."]


@pytest.mark.parametrize(
    "piece", ["](", "`", "`a", "tea ", "'", "https://", "\n", "- a\n", "\u0301"]
)
@pytest.mark.timeout(60)
@pytest.mark.slow
def test_hostile_texts_take_linear_time(piece):
    text = piece * ((1 << 18) // len(piece))
    for paragraph in prose(text):
        keyword_stretch(paragraph)
    repetition(text)
