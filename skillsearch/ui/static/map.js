// Draws the skills as points that can be moved, zoomed, searched and opened. All texts are set as
// text, never as HTML.
const SIDE = 65535; // coordinates are whole numbers up to this
const CELLS = 128; // of the grid in which the point under the pointer is looked for
const REACH = 14; // pixels from a point that count as on it
const MOST = 400; // times zoomed in
const COLOURS = 8; // the last one is for all the rest
const LISTED = 12;
const WIDEST = 3; // times as wide as high that the square of the points becomes
const ISLANDS = 80; // shown at once if all are of one size; smaller ones come with zooming
const NAMED = 40; // skills in view, at most, that are named
const LONGEST = 40; // characters of a name on the map, at most; the card has all of it
const WIDE = 14; // pixels of a character that is wide
const GAP = 5; // pixels between two labels
const AGAIN = 1000; // milliseconds between two looks whether the map is there

const $ = (id) => document.getElementById(id);
const [canvas, card, state, around, find, by, labels, island] = ["map", "card", "state", "around", "find", "by", "labels", "island"].map($);

// What tells groups apart besides their colour: whether a place in the square of a point is drawn,
// from -1 to 1 in each direction. The style of the legend repeats them.
const SHAPES = [
  () => true,
  (x, y) => x * x + y * y <= 1,
  (x, y) => Math.abs(x) + Math.abs(y) <= 1,
  (x, y) => Math.abs(x) <= (y + 1) / 2,
  (x, y) => Math.abs(x) <= (1 - y) / 2,
  (x, y) => Math.min(Math.abs(x), Math.abs(y)) <= 0.35,
  (x, y) => Math.abs(Math.abs(x) - Math.abs(y)) <= 0.4,
  (x, y) => Math.max(Math.abs(x), Math.abs(y)) > 0.55,
];
// Kept in memory and not on a GPU: points are written as pixels, hundreds of times as fast as
// rectangles where there is no GPU.
const brush = canvas.getContext("2d", { willReadFrequently: true });

class SkillMap {
  constructor(data) {
    this.data = data;
    this.size = data.names.length;
    this.x = Float32Array.from(data.xy, (one) => one[0] / SIDE);
    this.y = Float32Array.from(data.xy, (one) => one[1] / SIDE);
    this.texts = data.names.map((name, i) => `${name}\n${data.about[i]}\n${data.repositories[data.repository[i]]}`.toLowerCase());
    this.view = { x: 0.5, y: 0.5, zoom: 1 };
    this.hits = null;
    this.shown = -1; // the skill on the card
    this.widths = new Map(); // of labels, in pixels
    this.sortIntoGrid();
    this.resize();
    this.colour("repository");
    const islands = data.islands.map(({ words, size }, i) => new Option(`${words.join(" · ")} (${size})`, i));
    island.append(...islands.slice(0, ISLANDS));
    island.parentElement.hidden = !islands.length;
  }

  // The points of each cell lie side by side in `inCells`, from `starts` of the cell on.
  sortIntoGrid() {
    const cell = (i) => this.cell(this.y[i]) * CELLS + this.cell(this.x[i]);
    this.starts = new Uint32Array(CELLS * CELLS + 1);
    for (let i = 0; i < this.size; i++) this.starts[cell(i) + 1]++;
    for (let c = 0; c < CELLS * CELLS; c++) this.starts[c + 1] += this.starts[c];
    const next = this.starts.slice();
    this.inCells = new Uint32Array(this.size);
    for (let i = 0; i < this.size; i++) this.inCells[next[cell(i)]++] = i;
  }

  cell(part) {
    return Math.max(0, Math.min(CELLS - 1, Math.floor(part * CELLS)));
  }

  // The points within a distance of a place as one sees it, the nearest first.
  near(x, y, distance) {
    const found = [];
    const beside = distance / this.stretch;
    for (let row = this.cell(y - distance); row <= this.cell(y + distance); row++) {
      const begin = this.starts[row * CELLS + this.cell(x - beside)];
      const end = this.starts[row * CELLS + this.cell(x + beside) + 1];
      for (let at = begin; at < end; at++) {
        const i = this.inCells[at];
        const away = Math.hypot((this.x[i] - x) * this.stretch, this.y[i] - y);
        if (away <= distance) found.push([away, i]);
      }
    }
    return found.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, i]) => i);
  }

  // At least so many points around a place, if there are so many.
  nearest(x, y, count) {
    let distance = 1 / CELLS;
    let found = this.near(x, y, distance);
    while (found.length < Math.min(count, this.size) && distance < 2) {
      distance *= 2;
      found = this.near(x, y, distance);
    }
    return found.slice(0, count);
  }

  // Pixels from the top of the square of all points to its bottom.
  get scale() {
    return Math.min(this.width, this.height) * 0.94 * this.view.zoom;
  }

  // How much wider than high the square is drawn, to fill the frame.
  get stretch() {
    return Math.max(1, Math.min(WIDEST, this.width / this.height));
  }

  onScreen(x, y) {
    return [
      (x - this.view.x) * this.scale * this.stretch + this.width / 2,
      (y - this.view.y) * this.scale + this.height / 2,
    ];
  }

  toScreen(i) {
    return this.onScreen(this.x[i], this.y[i]);
  }

  toPlace(left, top) {
    return [
      this.view.x + (left - this.width / 2) / this.scale / this.stretch,
      this.view.y + (top - this.height / 2) / this.scale,
    ];
  }

  at(left, top) {
    return this.near(...this.toPlace(left, top), REACH / this.scale)[0] ?? -1;
  }

  move(left, top) {
    this.view.x = Math.max(0, Math.min(1, this.view.x - left / this.scale / this.stretch));
    this.view.y = Math.max(0, Math.min(1, this.view.y - top / this.scale));
    this.redraw();
  }

  // Zoom so that what is at a place on the screen stays there.
  zoom(factor, left = this.width / 2, top = this.height / 2) {
    const [x, y] = this.toPlace(left, top);
    this.view.zoom = Math.max(1, Math.min(MOST, this.view.zoom * factor));
    const [newX, newY] = this.toPlace(left, top);
    this.move((newX - x) * this.scale * this.stretch, (newY - y) * this.scale);
  }

  goTo(i, zoom = this.view.zoom) {
    this.view = { x: this.x[i], y: this.y[i], zoom: Math.max(zoom, this.view.zoom) };
    this.redraw();
  }

  goToIsland({ x, y, radius }) {
    const zoom = Math.max(1, Math.min(MOST, (0.4 * SIDE) / Math.max(radius, 1)));
    this.view = { x: x / SIDE, y: y / SIDE, zoom };
    this.redraw();
  }

  // Sort the points by colour, so that few changes of colour draw all of them.
  colour(kind) {
    const { repository, language, family } = this.data;
    const last = COLOURS - 1;
    const colours = {
      repository: (i) => Math.min(repository[i], last),
      language: (i) => Math.min(language[i], last),
      family: (i) => (family[i] < 0 ? last : family[i] % last),
    };
    this.order = Array.from({ length: COLOURS }, () => []);
    for (let i = 0; i < this.size; i++) this.order[colours[kind](i)].push(i);
    this.only = -1; // the colour whose skills are highlighted
    this.showLegend(kind);
    this.highlight();
  }

  showLegend(kind) {
    const { repositories, languages } = this.data;
    const named = { repository: repositories, language: languages, family: [] }[kind];
    const rest = kind === "family" ? "no near-copies; each other colour: families" : "all others";
    const entries = this.order.map((some, colour) => {
      const name = colour === COLOURS - 1 && named.length !== COLOURS ? rest : named[colour];
      if (!some.length || name === undefined) return null;
      const entry = element("button", [element("i"), element("bdi", name || "unknown"), ` ${some.length.toLocaleString("en")}`]);
      entry.firstChild.className = `colour-${colour}`;
      entry.type = "button";
      entry.value = colour;
      entry.ariaPressed = "false";
      return element("li", [entry]);
    });
    $("legend").replaceChildren(...entries.filter(Boolean));
  }

  // The skills of one colour, or with it pressed again of all.
  press(colour) {
    this.only = this.only === colour ? -1 : colour;
    for (const button of $("legend").querySelectorAll("button")) button.ariaPressed = String(Number(button.value) === this.only);
    this.highlight();
  }

  // Highlight the skills that say all words in the field, of the colour that is pressed if one is.
  highlight() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const some = this.only < 0 ? [...this.texts.keys()] : this.order[this.only];
    const says = (i) => words.every((word) => this.texts[i].includes(word));
    this.hits = words.length || this.only >= 0 ? some.filter(says) : null;
    const count = this.hits?.length ?? 0;
    state.textContent = this.hits ? `${count.toLocaleString("en")} of ${this.size.toLocaleString("en")} skills are highlighted.` : "";
    this.redraw();
  }

  resize() {
    const ratio = devicePixelRatio || 1;
    this.width = Math.max(1, canvas.clientWidth);
    this.height = Math.max(1, canvas.clientHeight);
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    this.image = brush.createImageData(canvas.width, canvas.height);
    this.redraw();
  }

  redraw() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  draw() {
    const { width, height } = this;
    const ratio = canvas.width / width;
    const style = getComputedStyle(canvas);
    const ink = (name) => style.getPropertyValue(name).trim();
    const closeness = Math.sqrt((this.view.zoom * this.stretch) / this.size);
    const side = Math.max(2, Math.min(11, 0.28 * Math.min(width, height) * closeness));
    const pixels = new Uint32Array(this.image.data.buffer).fill(0);
    const square = Math.round(side * ratio);
    const alpha = this.hits ? 70 : 255;
    for (let i = COLOURS - 1; i >= 0; i--) {
      this.drawPoints(pixels, this.order[i], square, packed(ink(`--colour-${i}`), alpha), SHAPES[i]);
    }
    if (this.hits) this.drawPoints(pixels, this.hits, Math.max(square, Math.round(5 * ratio)), packed(ink("--text"), 255), SHAPES[0]);
    brush.putImageData(this.image, 0, 0);
    brush.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawPairs(ink("--quiet"));
    if (this.shown >= 0) this.drawRing(this.shown, side, ink("--text"));
    this.placeCard();
    this.placeLabels(side);
  }

  drawPoints(pixels, some, side, colour, shape) {
    const { width, height } = canvas;
    const scale = (this.scale * width) / this.width;
    const wide = scale * this.stretch;
    const left = (width - side) / 2 - this.view.x * wide;
    const top = (height - side) / 2 - this.view.y * scale;
    const part = (at) => (2 * at + 1) / side - 1;
    const isDrawn = Array.from({ length: side * side }, (_, at) => side < 4 || shape(part(at % side), part(Math.floor(at / side))));
    for (const i of some) {
      const x = Math.round(this.x[i] * wide + left);
      const y = Math.round(this.y[i] * scale + top);
      if (x < 0 || y < 0 || x > width - side || y > height - side) continue;
      for (let at = 0, row = 0; row < side; row++) {
        const begin = (y + row) * width + x;
        for (let column = 0; column < side; column++) if (isDrawn[at++]) pixels[begin + column] = colour;
      }
    }
  }

  drawPairs(colour) {
    const { width, height } = this;
    brush.globalAlpha = this.hits ? 0.25 : 0.6;
    brush.strokeStyle = colour;
    brush.lineWidth = 1;
    brush.beginPath();
    for (const [one, other] of this.data.pairs) {
      const [x, y] = this.toScreen(one);
      const [toX, toY] = this.toScreen(other);
      if (Math.max(x, toX) < 0 || Math.min(x, toX) > width) continue;
      if (Math.max(y, toY) < 0 || Math.min(y, toY) > height) continue;
      brush.moveTo(x, y);
      brush.lineTo(toX, toY);
    }
    brush.stroke();
    brush.globalAlpha = 1;
  }

  drawRing(i, side, colour) {
    const [x, y] = this.toScreen(i);
    brush.beginPath();
    brush.arc(x, y, side / 2 + 5, 0, 7);
    brush.lineWidth = 2;
    brush.strokeStyle = colour;
    brush.stroke();
  }

  // Name islands, the large first, and skills if few are in view, where there is room.
  placeLabels(side) {
    const placed = [];
    const least = this.size / ISLANDS / this.view.zoom ** 2;
    for (const { x, y, size, words } of this.data.islands) {
      if (size < least) continue;
      const widest = this.width / 3;
      const text = words.map((_, i) => words.slice(0, words.length - i).join(" · ")).find((some) => this.measure(some) < widest) ?? words[0];
      this.place(placed, text, ...this.onScreen(x / SIDE, y / SIDE));
    }
    const longest = Math.min(LONGEST, Math.floor(this.width / WIDE));
    for (const i of this.fewInView()) {
      const [x, y] = this.toScreen(i);
      const below = side / 2 + 9;
      const name = [...this.data.names[i]];
      const text = name.length > longest ? `${name.slice(0, longest - 2).join("")}…` : this.data.names[i];
      this.place(placed, text, x, y + 2 * below < this.height ? y + below : y - below, "skill");
    }
    while (labels.childElementCount < placed.length) labels.append(element("bdi"));
    [...labels.children].forEach((label, i) => {
      label.hidden = i >= placed.length;
      if (label.hidden) return;
      const { text, name, x, y } = placed[i];
      if (label.textContent !== text) label.textContent = text;
      label.className = name;
      label.style.transform = `translate(${x}px, ${y}px) translate(-50%, -50%)`;
    });
  }

  fewInView() {
    const some = [];
    for (let i = 0; i < this.size && some.length <= NAMED; i++) if (this.isInView(...this.toScreen(i))) some.push(i);
    return some.length <= NAMED ? some : [];
  }

  isInView(x, y) {
    return x >= 0 && y >= 0 && x <= this.width && y <= this.height;
  }

  // Add a label unless it would lie on another one, inside the frame.
  place(placed, text, left, top, name = "island") {
    if (!this.isInView(left, top)) return;
    const [wide, high] = [this.measure(text) / 2 + GAP, 8 + GAP];
    const x = Math.max(wide, Math.min(this.width - wide, left));
    const y = Math.max(high, Math.min(this.height - high, top));
    const isFree = placed.every((one) => Math.abs(one.x - x) > one.wide + wide - GAP || Math.abs(one.y - y) > 2 * high - GAP);
    if (isFree) placed.push({ text, name, x, y, wide });
  }

  measure(text) {
    if (!this.widths.has(text)) {
      brush.font = getComputedStyle(labels).font;
      this.widths.set(text, brush.measureText(text).width);
    }
    return this.widths.get(text);
  }

  show(i) {
    if (i === this.shown) return;
    this.shown = i;
    card.hidden = i < 0;
    canvas.classList.toggle("on", i >= 0);
    if (i >= 0) {
      const { names, about, repositories, repository, languages, language } = this.data;
      const where = [repositories[repository[i]], languages[language[i]]].filter(Boolean).join(", ");
      card.replaceChildren(element("strong", names[i]), element("span", where), element("p", about[i]));
    }
    this.redraw();
  }

  // Beside the point, and inside the frame.
  placeCard() {
    if (this.shown < 0) return;
    const [x, y] = this.toScreen(this.shown);
    const beside = x + 16 + card.offsetWidth < this.width ? x + 16 : x - 16 - card.offsetWidth;
    const inside = (place, room) => Math.max(4, Math.min(room - 4, place));
    card.style.left = `${inside(beside, this.width - card.offsetWidth)}px`;
    card.style.top = `${inside(y + 12, this.height - card.offsetHeight)}px`;
  }

  // Show the skill in the middle, and list those around it as links.
  focus() {
    if (!this.size) return;
    const { x, y } = this.view;
    const some = this.nearest(x, y, LISTED);
    this.show(some[0]);
    const paired = new Set(this.data.pairs.filter((pair) => pair.includes(some[0])).flat());
    const items = some.concat([...paired].filter((i) => !some.includes(i))).map((i) => {
      const link = element("a", [element("bdi", this.data.names[i])]);
      link.href = this.address(i);
      const note = i !== some[0] && paired.has(i) ? " (easily confused with the first)" : "";
      return element("li", [link, note]);
    });
    around.querySelector("ol").replaceChildren(...items);
    around.hidden = false;
  }

  address(i) {
    return `skill?${new URLSearchParams({ id: this.data.ids[i] })}`;
  }

  open(i) {
    history.replaceState({ view: this.view, find: find.value, by: by.value }, "");
    location.assign(this.address(i));
  }
}

// A colour, written as #rrggbb, as one pixel.
function packed(colour, alpha) {
  const [red, green, blue] = colour.match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
  return new Uint32Array(Uint8ClampedArray.of(red, green, blue, alpha).buffer)[0];
}

function element(name, content = []) {
  const made = document.createElement(name);
  made.append(...[content].flat());
  if (name === "strong" || name === "p") made.dir = "auto";
  return made;
}

function listen(map) {
  const pointers = new Map();
  let travelled = 0;
  const place = (event) => [event.offsetX, event.offsetY];
  const spread = () => {
    const [one, other] = [...pointers.values()];
    return [Math.hypot(one[0] - other[0], one[1] - other[1]), (one[0] + other[0]) / 2, (one[1] + other[1]) / 2];
  };

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    if (!pointers.size) travelled = 0;
    pointers.set(event.pointerId, place(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    const [left, top] = place(event);
    if (!before) return map.show(map.at(left, top));
    const [apart] = pointers.size > 1 ? spread() : [0];
    pointers.set(event.pointerId, [left, top]);
    travelled += Math.hypot(left - before[0], top - before[1]);
    map.move((left - before[0]) / pointers.size, (top - before[1]) / pointers.size);
    if (pointers.size > 1 && apart) {
      const [now, x, y] = spread();
      map.zoom(now / apart, x, y);
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!pointers.delete(event.pointerId) || pointers.size || travelled > 5 || event.button) return;
    const i = map.at(...place(event));
    // A finger cannot hover: its first tap shows the card.
    if (i >= 0 && (event.pointerType === "mouse" || i === map.shown)) map.open(i);
    else map.show(i);
  });
  canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && map.show(-1));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    map.zoom(Math.exp(-Math.max(-100, Math.min(100, event.deltaY)) / 250), ...place(event));
    map.show(map.at(...place(event)));
  }, { passive: false });

  let soon, hit = -1;
  const step = () => 0.15 * Math.min(map.width, map.height);
  const whole = () => {
    map.view = { x: 0.5, y: 0.5, zoom: 1 };
    map.redraw();
  };
  const nextHit = () => {
    if (!map.hits?.length) return;
    hit = (hit + 1) % map.hits.length;
    map.goTo(map.hits[hit], 8);
  };
  const actions = {
    ArrowLeft: () => map.move(step(), 0),
    ArrowRight: () => map.move(-step(), 0),
    ArrowUp: () => map.move(0, step()),
    ArrowDown: () => map.move(0, -step()),
    "+": () => map.zoom(1.5),
    "=": () => map.zoom(1.5),
    "-": () => map.zoom(1 / 1.5),
    0: whole,
    n: nextHit,
    Enter: () => map.shown >= 0 && map.open(map.shown),
    Escape: () => map.show(-1),
  };
  canvas.addEventListener("keydown", (event) => {
    const action = actions[event.key.length > 1 ? event.key : event.key.toLowerCase()];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
    if (event.key !== "Escape" && event.key !== "Enter") map.focus();
  });
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && map.focus());
  canvas.addEventListener("blur", () => map.show(-1));

  find.addEventListener("input", () => {
    clearTimeout(soon);
    hit = -1;
    soon = setTimeout(() => map.highlight(), 60);
  });
  $("tools").addEventListener("submit", (event) => {
    event.preventDefault();
    map.highlight();
    nextHit();
    if (hit >= 0) canvas.focus();
    map.focus();
  });
  by.addEventListener("change", () => map.colour(by.value));
  $("legend").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) map.press(Number(button.value));
    hit = -1;
  });
  island.addEventListener("change", () => {
    if (island.value) map.goToIsland(map.data.islands[island.value]);
    else whole();
    map.focus();
    map.show(-1);
  });
  $("tools").addEventListener("click", (event) => {
    const zoomed = { in: () => map.zoom(2), out: () => map.zoom(0.5), all: whole };
    zoomed[event.target.value]?.();
  });
  new ResizeObserver(() => map.resize()).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map.redraw());
}

// The address names a skill, or the page was left for one and is shown again.
function restore(map) {
  const named = map.data.ids.indexOf(nameInAddress());
  const { view, find: text, by: kind } = history.state ?? {};
  if (text) find.value = text;
  map.colour(kind ? (by.value = kind) : by.value);
  if (view) map.view = view;
  else if (named >= 0) map.goTo(named, 8);
  map.focus();
  if (named < 0 || view) map.show(-1);
}

function nameInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return ""; // somebody has changed it
  }
}

async function load() {
  let data;
  try {
    const answer = await fetch("map.json");
    if (answer.status === 202) return setTimeout(load, AGAIN);
    if (!answer.ok) throw new Error(answer.statusText);
    data = await answer.json();
  } catch {
    state.textContent = "The map cannot be shown: the server did not send it. See the page Health.";
    return;
  }
  state.textContent = "";
  $("frame").hidden = false;
  const map = new SkillMap(data);
  listen(map);
  restore(map);
}

load();
