// Keeps pages fresh and smooth. Everything here is also possible without it: links lead on, forms are sent, a reload shows what is new.
//
// An element with an id and `data-live` is replaced by the same element of a fresh copy of the page: when the stream says that one of
// its kinds changed (data-live="task schedule"; with data-subject only that object), and every so many seconds with data-every.

// A browser keeps the chosen tenant for all its tabs. A page goes on asking for the one it shows, until it is loaded anew.

const PART = "Ferryman-Part";
const TENANT = document.body.dataset.tenant;
const SOON = 350;
const MEANTIME = 1000;
const COPIED = 1500;
const LATER = 2000;
const USED = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

const call = (to, terms, headers = {}) => fetch(to, { ...terms, headers: TENANT ? { ...headers, "Ferryman-Tenant": TENANT } : headers });

// Fresh parts

let looking = null;
let stale = false;
let looked = 0;
let timer = 0;

function wanted(kinds, subjects) {
  return $$("[data-live]").some((part) => {
    const listens = part.dataset.live.split(" ");
    if (!kinds.includes("*") && !listens.includes("*") && !kinds.some((kind) => listens.includes(kind))) return false;
    return !part.dataset.subject || !subjects || subjects.includes(part.dataset.subject);
  });
}

function soon(wait = SOON) {
  if (timer) return;
  timer = setTimeout(() => { timer = 0; refresh(); }, Math.max(wait, looked + MEANTIME - Date.now()));
}

async function refresh() {
  if (document.hidden) { stale = true; return; }
  if (looking) { stale = true; return; }
  stale = false;
  looking = call(location.href, { redirect: "manual" }, { [PART]: "live" });
  try {
    const answer = await looking;
    if (answer.ok) swap(new DOMParser().parseFromString(await answer.text(), "text/html"), false);
    else if ([401, 403].includes(answer.status)) location.reload();
  } catch {
    pulse("away", "Not connected");
  } finally {
    looking = null;
    looked = Date.now();
    if (stale) soon();
  }
}

function kept(part) {
  const at = document.activeElement;
  return {
    open: new Map($$("details[id]", part).map((each) => [each.id, each.open])),
    typed: new Map($$("input[name]:not([type=hidden], [type=checkbox]), textarea[name]", part).filter((each) => each.value !== each.defaultValue).map((each) => [each.name, each.value])),
    marked: new Set($$("input[type=checkbox]:checked", part).map((each) => each.value)),
    scroll: new Map($$("[id]", part).filter((each) => each.scrollTop).map((each) => [each.id, each.scrollTop])),
    focus: part.contains(at) ? place(part, at) : null,
    row: $("tr.at", part)?.dataset.row,
  };
}

// Where the focus is, in words that fit a fresh copy too: by its id, or by its number in its row.
function place(part, at) {
  if (at.id) return (fresh) => $(`#${CSS.escape(at.id)}`, fresh);
  const row = at.closest("[data-row]");
  const number = $$(USED, row ?? part).indexOf(at);
  return (fresh) => {
    const within = row ? $$("[data-row]", fresh).find((each) => each.dataset.row === row.dataset.row) : fresh;
    return within && $$(USED, within)[number];
  };
}

function restore(part, was) {
  for (const each of $$("details[id]", part)) if (was.open.has(each.id)) each.open = was.open.get(each.id);
  for (const each of $$("input[type=checkbox]", part)) each.checked = was.marked.has(each.value);
  for (const [name, value] of was.typed) { const each = $(`[name="${CSS.escape(name)}"]`, part); if (each) each.value = value; }
  for (const [id, top] of was.scroll) { const each = document.getElementById(id); if (each) each.scrollTop = top; }
  if (was.focus) was.focus(part)?.focus({ preventScroll: true });
  if (was.row) $$("tr[data-row]", part).find((each) => each.dataset.row === was.row)?.classList.add("at");
  count();
}

// Somebody types there, or has marked a text to copy it.
function busy(part) {
  const at = document.activeElement;
  const marked = getSelection();
  if (!marked.isCollapsed && marked.containsNode(part, true)) return true;
  return part.contains(at) && at.matches("textarea, select, input:not([type=checkbox])");
}

function swap(fresh, whole) {
  if (whole) {
    const main = $("#main");
    main.replaceChildren(...$$(":scope > :not(title)", fresh.body));
    main.focus({ preventScroll: true });
    const title = $("title", fresh)?.textContent;
    if (title) document.title = `${title} · Ferryman`;
  } else {
    for (const part of $$("[data-live][id]")) {
      const other = fresh.getElementById(part.id);
      if (!other || same(part, other)) continue;
      if (busy(part)) { soon(LATER); continue; }
      const was = kept(part);
      const rows = new Set($$("tr[data-row]", part).map((each) => each.dataset.row));
      part.replaceWith(other);
      restore(other, was);
      if (rows.size) $$("tr[data-row]", other).filter((each) => !rows.has(each.dataset.row)).forEach((each) => each.classList.add("fresh"));
    }
  }
  times();
}

function same(part, other) {
  const bare = (each) => each.innerHTML.replace(/<time [^>]*>[^<]*<\/time>| class="(at|fresh)?"/g, "");
  return bare(part) === bare(other);
}

// The stream

let stream = null;

function pulse(state, text) {
  const light = $("#pulse");
  if (!light || light.dataset.state === state) return;
  light.dataset.state = state;
  $("span", light).textContent = text;
  light.title = text;
}

function listen() {
  if (stream || document.hidden || !$("[data-live]")) return;
  stream = new EventSource(TENANT ? `/live?tenant=${encodeURIComponent(TENANT)}` : "/live");
  stream.addEventListener("hello", () => pulse("on", "Live updates are on"));
  stream.addEventListener("changed", (word) => {
    const { kinds, subjects } = JSON.parse(word.data);
    if (wanted(kinds, subjects)) soon();
  });
  stream.addEventListener("error", () => pulse("away", "Live updates are interrupted"));
}

document.addEventListener("visibilitychange", () => {
  // A hidden page holds no connection: a browser has few for one server.
  if (document.hidden) { stream?.close(); stream = null; return; }
  listen();
  if ($("[data-live]")) soon(0);
});

setInterval(() => {
  const every = Math.min(...$$("[data-every]").map((each) => Number(each.dataset.every) * 1000));
  const due = $("[data-live]") && $("#pulse").dataset.state !== "on" ? Math.min(every, 5000) : every;
  if (!document.hidden && Number.isFinite(due) && Date.now() - looked >= due) soon(0);
}, 500);

// Times: how long ago, kept true

function spell(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const [length, unit] = size >= 86400 ? [86400, "d"] : size >= 3600 ? [3600, "h"] : size >= 60 ? [60, "min"] : [1, "s"];
  const told = `${Math.round(size / length)} ${unit}`;
  return seconds > 0 ? `${told} ago` : `in ${told}`;
}

function times() {
  for (const each of $$("time[datetime]:not([data-exact])")) {
    const told = spell((Date.now() - Date.parse(each.dateTime)) / 1000);
    if (each.textContent !== told) each.textContent = told;
  }
}
setInterval(times, 1000);

// Actions

function sure(question) {
  const ask = $("#ask");
  $("#ask-text").textContent = question;
  ask.returnValue = "no";
  ask.showModal();
  return new Promise((tell) => ask.addEventListener("close", () => tell(ask.returnValue === "yes"), { once: true }));
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  const button = event.submitter;
  // By its attributes: a field named action or method would hide the form's own.
  const to = button?.getAttribute("formaction") ?? form.getAttribute("action");
  // What changes the frame too loads the page anew.
  if (form.getAttribute("method") !== "post" || ["/login", "/logout", "/tenants"].includes(to)) return;
  event.preventDefault();
  if (form.hasAttribute("data-theme-form")) return theme(form, button);
  const question = button?.dataset.ask ?? form.dataset.ask;
  if (question && !(await sure(question))) return;
  form.setAttribute("aria-busy", "true");
  const body = new URLSearchParams(new FormData(form, button));
  try {
    const answer = await call(to, { method: "POST", body }, { [PART]: "whole" });
    if (answer.redirected) history.pushState(null, "", answer.url);
    swap(new DOMParser().parseFromString(await answer.text(), "text/html"), true);
    listen();
  } catch {
    pulse("away", "Not connected");
    form.removeAttribute("aria-busy");
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, COPIED);
  } catch {
    // Not allowed, or not there off a secure address: mark it, so that the usual key copies it.
    getSelection().selectAllChildren(button.previousElementSibling);
  }
});

async function theme(form, button) {
  const choice = button?.value ?? "";
  if (choice) document.documentElement.dataset.theme = choice;
  else delete document.documentElement.dataset.theme;
  for (const each of $$("button", form)) each.setAttribute("aria-pressed", String(each === button));
  await call(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(new FormData(form, button)), redirect: "manual" });
}

window.addEventListener("popstate", () => location.reload());

// Marked rows

function count() {
  for (const bulk of $$("[data-bulk]")) {
    const form = bulk.closest("form") ?? document;
    const marked = $$("input[name=id]:checked", form).length;
    for (const button of $$("button", bulk)) button.disabled = marked === 0;
    const told = $("[data-count]", bulk);
    if (told) told.textContent = marked ? `${marked} marked` : "Mark rows to cancel or retry them";
    const all = $("input[data-all]", form);
    if (all) all.checked = marked > 0 && marked === $$("input[name=id]", form).length;
  }
}

document.addEventListener("change", (event) => {
  if (event.target.matches("input[data-all]")) {
    for (const each of $$("input[name=id]", event.target.closest("form"))) each.checked = event.target.checked;
  }
  if (event.target.matches("[data-send]")) event.target.form.requestSubmit();
  count();
});

// Keys

let going = 0;

function step(by) {
  const rows = $$("tr[data-row]");
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("at"));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + by))];
  rows[at]?.classList.remove("at");
  next.classList.add("at");
  next.scrollIntoView({ block: "nearest" });
}

const KEYS = {
  "/": () => $("#find").focus(),
  "?": () => $("#keys").showModal(),
  j: () => step(1),
  k: () => step(-1),
  r: () => soon(0),
  g: () => { going = Date.now(); },
  x: () => { const box = $("tr.at input[type=checkbox]"); if (box) { box.checked = !box.checked; count(); } },
  Enter: () => $("tr.at a[href]")?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
  if (event.key === "Escape") return document.activeElement?.blur();
  if (event.target.matches("input:not([type=checkbox]), textarea, select")) return;
  if (event.key === "Enter" && event.target.matches("a, button, summary")) return;
  if (Date.now() - going < 1500) {
    going = 0;
    const place = $(`.side a[data-key="${CSS.escape(event.key)}"]`);
    if (place) { event.preventDefault(); place.click(); return; }
  }
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});

document.documentElement.dataset.script = "";
count();
times();
listen();
