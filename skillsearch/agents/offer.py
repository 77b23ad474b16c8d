"""What a prompt is offered: the skills for its request, or all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from skillsearch.agents.prompt import render_offers
from skillsearch.index.opening import Tell, answer_queries
from skillsearch.index.search.options import SearchOptions
from skillsearch.settings.table import Settings
from skillsearch.types.answers import Hit
from skillsearch.types.json_values import JsonObject
from skillsearch.usage.recording import learn, log_of, record

if TYPE_CHECKING:
    from skillsearch.index.documents.document import Document
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.library.skill_library import SkillLibrary


class Offer(NamedTuple):
    """The skills that a prompt offers, how many of them fit, and how many others are unvetted."""

    skills: Sequence[Document | Hit] = ()
    fits: int = 0
    unvetted: int = 0

    @classmethod
    def of_all(cls, library: SkillLibrary, *, vetted_only: bool) -> Offer:
        """Offer the skills of a library, whatever the request."""
        documents = library.list()
        if not vetted_only:
            return cls(documents)
        vetted = [each for each in documents if library.root_of(each).trust == "vetted"]
        return cls(vetted, unvetted=len(documents) - len(vetted))

    @classmethod
    def of_request(
        cls,
        index: SkillIndex,
        text: str,
        settings: Settings,
        tell: Tell,
        states: Collection[str] | None = None,
        *,
        vetted_only: bool,
    ) -> Offer:
        """Search for what fits or may fit, and keep the answer as usage if the settings do.

        `states` are those of answers to the hook that are kept; None for any other prompt. In the
        shadow the hook offers nothing.
        """
        how, is_hook = SearchOptions.of(settings), states is not None
        log = log_of(settings, "hook" if is_hook else "prompt")
        how = replace(how, include_hidden=False, vetted_only=vetted_only, face="prompt")
        learn(index, log)
        (answer,) = answer_queries(index, [text], tell, how)
        is_shadow = is_hook and settings.hook_mode == "shadow"
        if states is None or answer.state in states:
            record(log, index, answer, settings.selection, is_shadow=is_shadow)
        if is_shadow:
            return cls(fits=len(answer.hits))
        return cls(answer.shown, len(answer.hits), answer.unvetted)

    def to_dict(self, library: SkillLibrary) -> JsonObject:
        """Return the JSON form, with the texts as `render_offers` makes them."""
        offers = render_offers(library, self.skills)
        return {"offers": offers, "fits": self.fits, "unvetted": self.unvetted}
