"use strict";
(() => {
  const PAGE = 100;
  const LONG = 2000;
  const TAGS = 4;
  const RAW = "\u0000";
  const WORDS = { passed: "Passed", failed: "Failed", error: "Error", skipped: "Skipped" };
  const byId = (id) => document.getElementById(id);

  // Making elements. Text from the report only ever becomes a text node.

  function el(tag, className, ...children) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  }

  function icon(name) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", `icon ${name}`);
    svg.setAttribute("aria-hidden", "true");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", `#icon-${name}`);
    svg.append(use);
    return svg;
  }

  const outcomeIcon = (outcome) => [icon(outcome), el("span", "unseen", WORDS[outcome])];

  /** An element with text of any length; the rest of a very long one is shown on demand. */
  function text(tag, className, value, dir = "auto") {
    const element = el(tag, className);
    element.dir = dir;
    if (value.length <= LONG * 1.2) {
      element.textContent = value;
      return element;
    }
    element.textContent = `${value.slice(0, LONG)}\u2026`;
    const button = el("button", "quiet clip", `Show all ${value.length.toLocaleString("en")} characters`);
    button.type = "button";
    button.onclick = () => {
      element.textContent = value;
      button.remove();
    };
    return el("div", "", element, button);
  }

  const plain = (className, value) => Object.assign(el("span", className, value), { dir: "auto" });

  function json(value, indent = "") {
    if (typeof value === "string") return value.startsWith(RAW) ? value.slice(1) : `"${value}"`;
    if (value === null || typeof value !== "object") return String(value);
    const inner = `${indent}  `;
    const items = Array.isArray(value)
      ? value.map((item) => json(item, inner))
      : Object.entries(value).map(([key, item]) => `${key}: ${json(item, inner)}`);
    const [open, close] = Array.isArray(value) ? "[]" : "{}";
    if (!items.length) return open + close;
    const line = items.join(", ");
    if (line.length <= 60 && !line.includes("\n")) return `${open}${line}${close}`;
    return `${open}\n${inner}${items.join(`,\n${inner}`)}\n${indent}${close}`;
  }

  const code = (value) => text("pre", "", json(value), "ltr");

  function pairs(record) {
    return el("dl", "pairs", Object.entries(record).map(([key, value]) => [
      text("dt", "", key),
      el("dd", "", typeof value === "string" ? text("div", "text", value.replace(RAW, "")) : code(value)),
    ]));
  }

  function facts(entries) {
    const shown = entries.filter(([, value]) => value);
    return shown.length && el("dl", "facts", shown.map(([key, value]) => el("div", "", el("dt", "", key), el("dd", "", value))));
  }

  /** A closed section whose content is made when it is opened first. */
  function folded(title, make, className = "") {
    const details = el("details", className, el("summary", "", title));
    details.addEventListener("toggle", () => details.append(make()), { once: true });
    return details;
  }

  function seconds(value) {
    if (value < 1) return `${Math.round(value * 1000)} ms`;
    if (value < 59.95) return `${value.toFixed(1)} s`;
    const whole = Math.round(value);
    return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  }

  function tokens(usage) {
    if (!usage) return "";
    const count = (value) => (value || 0).toLocaleString("en");
    const cached = usage.cached ? `, ${count(usage.cached)} from cache` : "";
    return `${count(usage.total)} (${count(usage.input)} in, ${count(usage.output)} out${cached})`;
  }

  const number = (value) => (typeof value === "number" ? value.toFixed(2) : "n/a");
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

  // Expected beside actual

  const canonical = (value) => JSON.stringify(value, (_, item) =>
    item && typeof item === "object" && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item);
  const same = (a, b) => canonical(a) === canonical(b);
  const hasMatcher = (value) => value !== null && typeof value === "object"
    && Object.entries(value).some(([key, item]) => key.startsWith("$") || hasMatcher(item));

  /** Pairs of positions [wanted, got], in reading order; null stands where there is no partner. */
  function align(wanted, got, weight) {
    const rows = wanted.length + 1;
    const columns = got.length + 1;
    if (rows * columns > 250000) {
      return Array.from({ length: Math.max(rows, columns) - 1 }, (_, i) => [i < rows - 1 ? i : null, i < columns - 1 ? i : null]);
    }
    const best = Array.from({ length: rows }, () => new Float64Array(columns));
    for (let i = rows - 2; i >= 0; i -= 1) {
      for (let j = columns - 2; j >= 0; j -= 1) {
        const match = weight(wanted[i], got[j]);
        best[i][j] = Math.max(best[i + 1][j], best[i][j + 1], match && match + best[i + 1][j + 1]);
      }
    }
    const result = [];
    let [i, j] = [0, 0];
    while (i < rows - 1 || j < columns - 1) {
      const match = i < rows - 1 && j < columns - 1 ? weight(wanted[i], got[j]) : 0;
      if (match && best[i][j] === match + best[i + 1][j + 1]) result.push([i++, j++]);
      else if (i < rows - 1 && (j === columns - 1 || best[i + 1][j] >= best[i][j + 1])) result.push([i++, null]);
      else result.push([null, j++]);
    }
    return result;
  }

  /** Lets a missing call and an unexpected one of the same name stand together. */
  function joinMoved(rows, wanted, got) {
    const loose = rows.filter(([i]) => i === null);
    const taken = new Set();
    const joined = rows.map((row) => {
      const partner = row[1] === null && loose.find((other) => !taken.has(other) && got[other[1]].name === wanted[row[0]].name);
      if (!partner) return row;
      taken.add(partner);
      return [row[0], partner[1], true];
    });
    return joined.filter((row) => !taken.has(row));
  }

  function argRows(wanted, got) {
    const keys = [...new Set([...Object.keys(wanted || {}), ...Object.keys(got || {})])];
    return keys.map((key) => {
      const [inWanted, inGot] = [wanted && key in wanted, got && key in got];
      const open = inWanted && hasMatcher(wanted[key]);
      const differs = wanted && got && (inWanted !== inGot || (!open && !same(wanted[key], got[key])));
      return { key, differs, wanted: inWanted ? wanted[key] : undefined, got: inGot ? got[key] : undefined };
    });
  }

  function argTable(rows, compare) {
    const cell = (value) => el("td", "", value === undefined ? el("span", "absent", "not given") : code(value));
    const body = rows.map(({ key, differs, wanted, got }) => {
      const head = Object.assign(text("th", "", key), { scope: "row" });
      return el("tr", differs ? "differs" : "", head, compare ? cell(wanted) : null, cell(compare || got !== undefined ? got : wanted));
    });
    const titles = [el("span", "unseen", "Argument"), "Expected", "Actual"];
    const head = titles.map((title) => Object.assign(el("th", "", title), { scope: "col" }));
    return el("table", "args", compare ? el("thead", "", el("tr", "", head)) : null, el("tbody", "", body));
  }

  function callCard(wanted, got, moved, stated) {
    const open = wanted && !Object.keys(wanted.args || {}).length;
    const rows = argRows(open ? null : wanted && wanted.args, got && (got.args || {}));
    const differs = rows.some((row) => row.differs && row.wanted !== undefined);
    const more = rows.some((row) => row.differs);
    const [kind, label] = !stated ? ["", ""]
      : !got ? ["bad", "missing"]
      : !wanted ? ["warn", "not expected"]
      : moved ? ["warn", "called elsewhere"]
      : got.bare ? ["", "called"]
      : differs ? ["warn", "arguments differ"]
      : more ? ["warn", "more arguments"]
      : ["good", "as expected"];
    const call = got || wanted;
    const card = el("div", `call ${!stated ? "" : got ? (wanted ? "" : "extra") : "missing"}`);
    card.append(el("div", "head", text("code", "", call.name), label && el("span", `mark-text ${kind}`, label),
      open && got && Object.keys(got.args || {}).length ? el("small", "", "any arguments are accepted") : null,
      got && got.id ? text("small", "", got.id) : null));
    if (rows.length) card.append(argTable(rows, Boolean(wanted && got && !open && rows.some((row) => row.differs || hasMatcher(row.wanted)))));
    if (got && got.result !== undefined) card.append(el("div", "outcome-line", el("span", "", "Result"), code(got.result)));
    if (got && got.error) card.append(el("div", "outcome-line broken", el("span", "", "Failed"), text("pre", "", got.error)));
    return card;
  }

  function calls(got, wanted) {
    if (!wanted && !got.length) return null;
    const box = el("div", "", el("h5", "", "Tool calls"));
    if (!wanted) box.append(...got.map((call) => callCard(null, call, false, false)));
    else if (!wanted.length && !got.length) box.append(el("p", "absent", "None expected, none called."));
    else {
      const score = (a, b) => (a.name !== b.name ? 0 : same(a.args, b.args) ? 1.5 : 1);
      for (const [i, j, moved] of joinMoved(align(wanted, got, score), wanted, got)) {
        box.append(callCard(i === null ? null : wanted[i], j === null ? null : got[j], moved, true));
      }
      if (!wanted.length) box.append(el("p", "absent", "No tool may be called here."));
    }
    return box;
  }

  function path(names, odd, kind) {
    if (!names.length) return el("p", "absent", "none");
    return el("ol", "path", names.map((name, i) => el("li", "", text("code", odd.has(i) ? kind : "", name))));
  }

  function sides(title, wanted, actual) {
    return el("div", "", el("h5", "", title), el("div", "sides",
      el("div", "pair", el("h5", "", "Expected"), wanted), el("div", "pair", el("h5", "", "Actual"), actual)));
  }

  function nodes(got, wanted) {
    if (!wanted) return got.length ? el("div", "", el("h5", "", "Nodes"), path(got, new Set(), "")) : null;
    const rows = align(wanted, got, (a, b) => (a === b ? 1 : 0));
    const missing = new Set(rows.filter(([, j]) => j === null).map(([i]) => i));
    const extra = new Set(rows.filter(([i]) => i === null).map(([, j]) => j));
    return sides("Nodes", path(wanted, missing, "missing"), path(got, extra, "extra"));
  }

  function answer(turn) {
    if (turn.outcome === "not_run" || (turn.outcome && !turn.answered && turn.wanted_answer === undefined)) return null;
    const actual = turn.answer === undefined ? el("p", "absent", "left out of this report")
      : turn.answered ? text("div", "text", turn.answer) : el("p", "absent", "no answer");
    if (turn.wanted_answer === undefined) return el("div", "", el("h5", "", "Answer"), actual);
    return sides("Answer", text("div", "text", turn.wanted_answer), actual);
  }

  function turnBlock(turn, index, count) {
    const state = turn.outcome === "not_run" ? "not run" : turn.outcome === "error" ? "broke" : "";
    const block = el("div", "turn", el("header", "",
      el("h4", "", count > 1 ? `Turn ${index + 1} of ${count}` : "Conversation"),
      turn.seconds ? el("span", "", seconds(turn.seconds)) : null,
      state && el("span", `mark-text ${state === "broke" ? "bad" : ""}`, state)));
    if (turn.user !== undefined) block.append(el("div", "", el("h5", "", "User"), text("div", "text", turn.user)));
    if (turn.error) block.append(el("div", "", el("h5", "", "Error"), text("pre", "", turn.error)));
    if (turn.note) block.append(el("div", "", el("h5", "", "Note"), text("div", "text", turn.note)));
    const parts = [answer(turn), calls(turn.calls || [], turn.wanted_calls), nodes(turn.nodes || [], turn.wanted_nodes)];
    block.append(...parts.filter(Boolean));
    return block;
  }

  // An opened case

  function scoreRow(result) {
    const threshold = result.threshold || 0;
    const gauge = el("div", "gauge");
    if (typeof result.score === "number") {
      const fill = el("span", result.outcome);
      fill.style.width = `${100 * result.score}%`;
      const mark = el("span", "mark");
      mark.style.left = `calc(${100 * threshold}% - 1px)`;
      gauge.append(fill, mark);
    }
    const row = el("div", "score", icon(result.outcome),
      el("span", "label", plain("", result.name), el("span", "unseen", ` ${WORDS[result.outcome]}`)), gauge,
      el("span", "number", number(result.score), el("span", "muted", `, needs ${number(threshold)}`)));
    if (result.why) row.append(text("div", `text ${result.outcome}`, result.why));
    if (result.details || result.tokens) {
      const used = result.tokens ? { "judge tokens": tokens(result.tokens) } : {};
      row.append(folded("Details", () => el("div", "block", pairs({ ...result.details, ...used }))));
    }
    return row;
  }

  function timeline(steps) {
    const start = steps.find((step) => step.time)?.time;
    return el("ol", "block timeline", steps.map((step) => {
      const { call_id: _, ...rest } = { ...step.args, ...step.more };
      return el("li", step.type, el("span", "muted", step.time ? `+${(step.time - start).toFixed(2)} s` : ""),
        el("span", "muted", step.type), el("div", "", text("code", "", step.name), Object.keys(rest).length ? code(rest) : null));
    }));
  }

  function responses(list) {
    return el("ol", "block", list.map((response) => el("li", "",
      facts([["Node", response.node], ["Tokens", tokens(response.tokens)], ["Calls", (response.tools || []).join(", ")], ["", response.final && "final"]]),
      response.text ? text("div", "text", response.text) : null,
      response.input ? folded(plural(response.input.length, "input message"), () => messages(response.input)) : null)));
  }

  function messages(list) {
    return el("ol", "block", list.map((message) => {
      const { role, content, ...rest } = message;
      return el("li", "", el("h5", "", String(role ?? "message")),
        typeof content === "string" ? text("div", "text", content) : content === undefined ? null : code(content),
        Object.keys(rest).length ? code(rest) : null);
    }));
  }

  /** Every run of a case, the first that did not pass opened. */
  function trials(runs) {
    const worst = runs.find((run) => run.outcome !== "passed");
    return runs.map((run, index) => {
      const details = folded("", () => body(run, run), "trial");
      details.firstChild.append(...outcomeIcon(run.outcome), icon("open"), el("span", "", `Run ${index + 1}`), el("span", "muted", seconds(run.seconds)));
      details.open = run === worst;
      return details;
    });
  }

  function more(evidence) {
    const parts = [
      ["steps", "Trajectory", timeline],
      ["responses", "Model calls", responses],
      ["messages", "Messages", messages],
      ["metadata", "Metadata", (record) => el("div", "block", pairs(record))],
      ["traceback", "Traceback", (trace) => el("div", "block", text("pre", "", trace))],
    ].filter(([key]) => evidence[key]);
    const count = (value) => (Array.isArray(value) ? ` (${value.length.toLocaleString("en")})` : "");
    return parts.length && el("div", "more", parts.map(([key, title, make]) =>
      folded(title + count(evidence[key]), () => make(evidence[key]))));
  }

  function section(title, children) {
    return children.length ? el("section", "", el("h4", "", title), children) : null;
  }

  function body(row, evidence) {
    const broken = (result) => result.outcome === "failed" || result.outcome === "error";
    const criteria = [...(evidence.criteria || [])].sort((a, b) => broken(b) - broken(a));
    const own = (row.why || []).filter((line) => !criteria.some((result) => line.startsWith(`${result.name}: `)));
    const why = own.map((line) => text("li", "", line));
    if (evidence.kind && why.length) why.unshift(el("li", "", el("strong", "", evidence.kind)));
    const turns = evidence.turns || [];
    const loose = [
      evidence.answer && el("div", "", el("h5", "", "Answer"), text("div", "text", evidence.answer)),
      calls(evidence.calls || [], null), nodes(evidence.nodes || [], null),
    ].filter(Boolean);
    return el("div", "body",
      why.length ? el("ul", `reasons ${row.outcome}`, why) : null,
      facts([
        ["Tags", (row.tags || []).slice(TAGS).join(", ")],
        ["Attempts", evidence.attempts && String(evidence.attempts + 1)],
        ["Tokens", tokens(evidence.tokens)],
        ["Agent tokens", evidence.tokens && !same(evidence.tokens, evidence.agent_tokens) && tokens(evidence.agent_tokens)],
      ]) || null,
      section("Earlier attempts", (evidence.retried || []).map((line) => text("pre", "", line))),
      section("Beside the verdict", (evidence.beside || []).map((line) => text("pre", "", line))),
      section("Criteria", criteria.map(scoreRow)),
      section("Runs", trials(evidence.trials || [])),
      turns.map((turn, index) => el("section", "", turnBlock(turn, index, turns.length))),
      loose.length ? el("section", "", el("div", "turn", loose)) : null,
      more(evidence) || null);
  }

  // Unpacking

  async function unpack(script) {
    const bytes = Uint8Array.from(atob(script.textContent), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  const blockSize = Number(byId("index").dataset.blockSize);
  const packedBlocks = document.querySelectorAll("script.block");
  const blocks = new Map();

  async function evidenceOf(row) {
    const number = Math.floor(row.position / blockSize);
    if (!blocks.has(number)) blocks.set(number, unpack(packedBlocks[number]));
    return (await blocks.get(number))[row.position % blockSize];
  }

  // The list

  let rows = [];
  let shown = [];
  const state = { filter: "all", query: "", cause: null, page: 0 };

  function listItem(row) {
    const tags = (row.tags || []).slice(0, TAGS).map((tag) => plain("tag", tag));
    const runs = row.runs ? el("span", "tag", `${row.runs[0]}/${row.runs[1]} runs`) : null;
    const why = row.why ? plain("line why", row.why[0]) : null;
    const button = el("button", "row", icon(row.outcome), icon("open"), el("span", "",
      el("span", "line", el("span", "unseen", `${WORDS[row.outcome]}: `), plain("id", row.id),
        row.name ? [" ", plain("name", row.name)] : null, runs, tags), why),
      el("span", "time", row.seconds ? seconds(row.seconds) : ""));
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    const item = el("li", "case", el("h3", "", button));
    button.onclick = () => toggle(row, item, button);
    return item;
  }

  async function toggle(row, item, button) {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
    if (open) history.replaceState(null, "", `#${encodeURIComponent(row.id)}`);
    if (item.children.length > 1) item.children[1].hidden = !open;
    else if (open) {
      const evidence = await evidenceOf(row);
      if (item.children.length === 1) item.append(body(row, evidence));
    }
  }

  function show() {
    const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
    shown = rows.filter((row) => (state.filter === "all" || row.outcome === state.filter)
      && (state.cause === null || (row.causes || []).includes(state.cause))
      && words.every((word) => row.haystack.includes(word)));
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    state.page = Math.min(state.page, pages - 1);
    const first = state.page * PAGE;
    byId("list").replaceChildren(...shown.slice(first, first + PAGE).map(listItem));
    byId("pager").hidden = pages === 1;
    byId("page").textContent = `Page ${state.page + 1} of ${pages}`;
    byId("previous").disabled = state.page === 0;
    byId("next").disabled = state.page === pages - 1;
    const narrowed = state.filter !== "all" || words.length > 0 || state.cause !== null;
    byId("clear").hidden = !narrowed;
    byId("status").textContent = narrowed ? `${shown.length.toLocaleString("en")} of ${plural(rows.length, "case")}` : plural(rows.length, "case");
    for (const button of document.querySelectorAll("[data-filter]")) button.setAttribute("aria-pressed", String(button.dataset.filter === state.filter));
    for (const button of document.querySelectorAll("[data-cause]")) button.setAttribute("aria-pressed", String(Number(button.dataset.cause) === state.cause));
  }

  function change(values) {
    Object.assign(state, { page: 0 }, values);
    show();
  }

  function clear() {
    byId("search").value = "";
    change({ filter: "all", query: "", cause: null });
  }

  function openLinked() {
    let id = location.hash.slice(1);
    try {
      id = decodeURIComponent(id);
    } catch {
      return;
    }
    const row = rows.find((candidate) => candidate.id === id);
    if (!row) return;
    if (!shown.includes(row)) clear();
    change({ page: Math.floor(shown.indexOf(row) / PAGE) });
    const item = byId("list").children[shown.indexOf(row) % PAGE];
    const button = item.querySelector("button");
    toggle(row, item, button).then(() => item.scrollIntoView({ block: "start" }));
    button.focus({ preventScroll: true });
  }

  function turnPage(by) {
    change({ page: state.page + by });
    byId("cases").scrollIntoView();
  }

  function listen() {
    for (const button of document.querySelectorAll("[data-filter]")) button.onclick = () => change({ filter: button.dataset.filter });
    for (const button of document.querySelectorAll("[data-cause]")) {
      const cause = Number(button.dataset.cause);
      button.onclick = () => {
        change({ cause: state.cause === cause ? null : cause, filter: "all" });
        if (state.cause !== null) byId("cases").scrollIntoView();
      };
    }
    let waiting;
    byId("search").oninput = (event) => {
      clearTimeout(waiting);
      waiting = setTimeout(() => change({ query: event.target.value }), 80);
    };
    byId("clear").onclick = clear;
    byId("previous").onclick = () => turnPage(-1);
    byId("next").onclick = () => turnPage(1);
    addEventListener("hashchange", openLinked);
  }

  function themeButton(dark) {
    const button = byId("theme");
    button.textContent = dark ? "Light theme" : "Dark theme";
    button.hidden = false;
    button.onclick = () => {
      document.documentElement.style.colorScheme = dark ? "light" : "dark";
      themeButton(!dark);
    };
  }

  async function start() {
    themeButton(matchMedia("(prefers-color-scheme: dark)").matches);
    if (!packedBlocks.length) return;
    byId("browser").hidden = false;
    if (!("DecompressionStream" in window)) {
      byId("status").textContent = "The list of cases needs a browser of 2023 or later.";
      return;
    }
    rows = await unpack(byId("index"));
    rows.forEach((row, position) => {
      row.position = position;
      row.haystack = [row.id, row.name, ...(row.tags || []), ...(row.why || [])].join("\n").toLowerCase();
    });
    listen();
    show();
    openLinked();
  }

  start();
})();
