// Searches while the user types, and waits for pages that take long. Without it everything works
// after a click. What the server sends is HTML in which all that others wrote is escaped.
"use strict";

const TYPING = 40; // milliseconds without a key before a search
const PAUSE = 450; // and before the reader, which is slower, looks at the hits
const AGAIN = 1000; // between two looks at slow work

const parse = (html) => new DOMParser().parseFromString(html, "text/html");

function searchWhileTyping(input, from, results, said) {
  let soon, later, running;
  const asked = () => (from ? { q: input.value, from: from.value } : { q: input.value });

  async function search(read, submitted = false) {
    running?.abort();
    const mine = (running = new AbortController());
    const query = new URLSearchParams({ ...asked(), read: read ? "1" : "0", submitted: submitted ? "1" : "0" });
    try {
      const answer = await fetch(`results?${query}`, { signal: mine.signal });
      const shown = parse(await answer.text());
      const error = answer.ok ? null : shown.querySelector("main p");
      const open = [...results.querySelectorAll("details[open]")].map(owner);
      results.replaceChildren(...(error ? [error] : shown.body.childNodes));
      for (const one of results.querySelectorAll("details")) one.open = open.includes(owner(one));
      if (read) {
        said.textContent = [...results.querySelectorAll("h2")].map((one) => one.textContent).join(". ");
        history.replaceState(null, "", `./?${new URLSearchParams(asked())}`);
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      said.textContent = "The server does not answer any more.";
      results.replaceChildren(said.textContent);
    }
  }

  const owner = (details) => details.closest("article")?.querySelector("a")?.getAttribute("href");

  input.setSelectionRange(input.value.length, input.value.length); // to type on
  input.addEventListener("input", () => {
    clearTimeout(soon);
    clearTimeout(later);
    soon = setTimeout(search, TYPING, false);
    later = setTimeout(search, PAUSE, true);
  });
  from?.addEventListener("change", () => search(true));
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(soon);
    clearTimeout(later);
    search(true, true);
  });
}

async function lookAgain() {
  const answer = await fetch(location.href);
  const main = parse(await answer.text()).querySelector("main");
  if (main.querySelector("[data-wait]")) setTimeout(lookAgain, AGAIN);
  else document.querySelector("main").replaceChildren(...main.childNodes);
}

const [input, from, results, said] = ["q", "from", "results", "said"].map((id) => document.getElementById(id));
if (input) searchWhileTyping(input, from, results, said);
if (document.querySelector("[data-wait]")) setTimeout(lookAgain, AGAIN);
