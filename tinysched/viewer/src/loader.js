// Starts the viewer inside of a saved notebook's output, where no widget does: the viewer comes compressed, beside its trace.
// It waits until it is seen, and for the widget that may follow: while that lives, its style sheet hides this output.

import { fromBase64, inflate } from "./unpack.js";

const PATIENCE = 900; // milliseconds that a widget has to come to life
const SHARED = "tinyschedViewers"; // on the window: one viewer for all outputs that hold the same

/** Also the output after this one (without a kernel it says that it found no model), and, once it runs, the picture before. */
const HIDE = `
.jp-OutputArea-child:has(> .jp-OutputArea-output .ts-saved-ready) + .jp-OutputArea-child:not(:has(.ts-output)) { display: none; }
.jp-OutputArea-child:has(+ .jp-OutputArea-child .ts-saved-open) { display: none; }`;

for (const el of document.querySelectorAll(".ts-saved:not(.ts-saved-ready)")) prepare(el);

/** @param {Element} el */
function prepare(el) {
  const data = el.querySelector(".ts-saved-data");
  if (!data) return;
  el.classList.add("ts-saved-ready");
  for (const note of el.querySelectorAll(".ts-saved-note")) note.remove();
  style(el, HIDE);
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((e) => e.isIntersecting)) return;
    seen.disconnect();
    setTimeout(() => el.checkVisibility?.() !== false && start(el, JSON.parse(data.textContent ?? "")), PATIENCE);
  });
  const place = document.createElement("div");
  place.className = "ts-saved-place";
  place.style.minHeight = "2px"; // what has no size is never seen
  el.append(place);
  seen.observe(place);
  const picture = el.closest(".jp-OutputArea-child")?.previousElementSibling; // it stands where the page will be
  if (picture) seen.observe(picture);
}

/** In a shadow, which the page's own styles of tables and lists do not reach. @param {Element} el @param {any} data */
async function start(el, data) {
  const place = /** @type {HTMLElement} */ (el.querySelector(".ts-saved-place"));
  const root = place.attachShadow({ mode: "open" });
  const css = await inflate(fromBase64(data.style));
  style(root, css);
  const inside = document.createElement("div");
  root.append(inside);
  follow(inside);
  const { mount } = (await load(data.script)).default;
  el.classList.add("ts-saved-open");
  await mount(inside, fromBase64(data.doc), { ...data, style: css, script: await inflate(fromBase64(data.script)) });
}

/** The notebook's theme, light or dark, also when it changes. @param {HTMLElement} inside */
function follow(inside) {
  const look = () => inside.setAttribute("data-theme", document.body.dataset.jpThemeLight === "false" ? "dark" : "light");
  look();
  new MutationObserver(look).observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
}

/** @param {Element | ShadowRoot} el @param {string} text */
function style(el, text) {
  const made = document.createElement("style");
  made.textContent = text;
  el.append(made);
}

/** @param {string} packed @returns {Promise<any>} */
async function load(packed) {
  const shared = /** @type {any} */ (window);
  const viewers = (shared[SHARED] ??= new Map());
  if (!viewers.has(packed)) {
    const code = new Blob([await inflate(fromBase64(packed))], { type: "text/javascript" });
    viewers.set(packed, import(URL.createObjectURL(code)));
  }
  return viewers.get(packed);
}
